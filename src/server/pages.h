#pragma once

#include "server/api.h"
#include "server/http_exchange.h"
#include "server/metrics.h"
#include "server/random_ids.h"
#include "server/status_page.h"

namespace decant {

/// The page for people. Its headers let it run its own script and style, which carry a nonce, talk
/// to this server, and nothing else. `ids` makes the nonce.
HttpResponse LivePage(RandomIds& ids);

/// The OpenAPI 3.1 document.
HttpResponse OpenApiPage();

/// Adds /, /status.json, /metrics and /openapi.json to `api`, which `metrics` and `status` must
/// outlive.
void AddPages(Api& api, ServerMetrics& metrics, const StatusPage& status);

}  // namespace decant
