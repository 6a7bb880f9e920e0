#include "server/pages.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

#include "server/embedded_files.h"

namespace decant {
namespace {

constexpr std::string_view kNonceMark = "@NONCE@";

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

HttpResponse LivePage(RandomIds& ids) {
  const std::string nonce = ids.Next("");
  HttpResponse response{.content_type = "text/html; charset=utf-8",
                        .body = std::string(LivePageHtml())};
  ReplaceAll(response.body, kNonceMark, nonce);
  response.headers = {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src "
                   "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
                   "'none'",
                   nonce)},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"}};
  return response;
}

HttpResponse OpenApiPage() { return {.body = std::string(OpenApiJson())}; }

void AddPages(Api& api, ServerMetrics& metrics, const StatusPage& status) {
  api.AddPage("/",
              [ids = std::make_shared<RandomIds>()](const HttpRequest&) { return LivePage(*ids); });
  api.AddPage("/status.json", [&status](const HttpRequest&) { return status.Page(); });
  api.AddPage("/metrics", [&metrics](const HttpRequest&) { return metrics.MetricsPage(); });
  api.AddPage("/openapi.json", [](const HttpRequest&) { return OpenApiPage(); });
}

}  // namespace decant
