#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/read_input.h"
#include "apps/settings.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "engine/model_text.h"
#include "server/access_log.h"
#include "server/api.h"
#include "server/api_error.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/pages.h"
#include "server/status_page.h"

namespace decant {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPoll{50};
/// How long a failed engine's server still answers, so that probes and clients learn of it.
constexpr milliseconds kFailureGrace{3000};
/// For answers that cancelled requests get, on their way to clients.
constexpr milliseconds kLastAnswers{2000};

struct ServeFlags {
  EngineFlags engine{};
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::vector<std::string> api_keys{};
  std::optional<std::string> api_key_file{};
  std::vector<std::string> served_names{};
  std::optional<std::string> chat_template{};
  int32_t max_queued_requests = 1024;
  int32_t max_connections = 10000;
  double idle_timeout = 75;
  double shutdown_timeout = 30;
  std::string access_log = "log";
  bool floor = false;
  std::optional<uint64_t> fail_at_step{};
};

milliseconds ToMilliseconds(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1e3));
}

/// What the files hold that flags name.
struct ServeFiles {
  std::vector<std::string> api_keys{};
  std::string chat_template{};
};

Expected<ServeFiles> ReadFiles(const ServeFlags& flags) {
  ServeFiles files{.api_keys = flags.api_keys};
  if (flags.api_key_file) {
    DECANT_ASSIGN_OR_RETURN(const std::string text, ReadFile(*flags.api_key_file));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty() && line.front() != '#') files.api_keys.push_back(line);
    }
    if (files.api_keys.empty()) {
      return InvalidArgument("--api-key-file {}: there is no key in it", *flags.api_key_file);
    }
  }
  if (std::count(files.api_keys.begin(), files.api_keys.end(), "") > 0) {
    return InvalidArgument("--api-key may not be empty");
  }
  if (flags.chat_template) {
    DECANT_ASSIGN_OR_RETURN(files.chat_template, ReadFile(*flags.chat_template));
  }
  return files;
}

/// The names that requests may call the model by: those given, else a hub name as it is, a path's
/// last part without ".gguf", or the shape of random weights.
std::vector<std::string> ServedNames(const ServeFlags& flags) {
  if (!flags.served_names.empty()) return flags.served_names;
  if (flags.engine.random_weights) return {flags.engine.shape};
  const std::filesystem::path path(flags.engine.model);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {flags.engine.model};
  const std::filesystem::path last = path.has_filename() ? path : path.parent_path();
  return {last.extension() == ".gguf" ? last.stem().string() : last.filename().string()};
}

/// The model's chat template, or the one given. A model without one is served all the same.
Expected<std::optional<ChatPrompter>> LoadPrompter(const ServedModel& served,
                                                   const std::string& chat_template) {
  Expected<ChatPrompter> prompter =
      LoadChatPrompter(served.files(), served.shared_tokenizer(), chat_template);
  if (prompter.ok()) return std::optional<ChatPrompter>(std::move(prompter).value());
  if (!chat_template.empty()) return prompter.status().WithContext("--chat-template");
  LogWarning("no /v1/chat/completions: {} (--chat-template gives one)",
             prompter.status().message());
  return std::optional<ChatPrompter>();
}

/// The model, its API and the HTTP server in front, from the first connection to the last answer.
class Serving {
 public:
  explicit Serving(const ServeFlags& flags) : flags_(flags) {}
  ~Serving() { server_.reset(); }  // first: its handlers use all the rest
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  /// Listens at once, so that an address in use is known before the model is loaded; until it is,
  /// every request gets 503.
  Status Listen() {
    DECANT_ASSIGN_OR_RETURN(access_log_, AccessLog::Open(flags_.access_log));
    HttpServerOptions options;
    options.host = flags_.host;
    options.port = flags_.port;
    options.limits.connections = flags_.max_connections;
    options.limits.idle_timeout = ToMilliseconds(flags_.idle_timeout);
    options.access_log = [this](const AccessRecord& record) { access_log_->Write(record); };
    DECANT_ASSIGN_OR_RETURN(
        server_, HttpServer::Start(
                     std::move(options),
                     [this](const std::shared_ptr<HttpExchange>& exchange) { Handle(exchange); }));
    return {};
  }

  Status Load(const EngineOptions& options, const ServeFiles& files) {
    DECANT_ASSIGN_OR_RETURN(served_, LoadWithProgress(options));
    DECANT_ASSIGN_OR_RETURN(std::optional<ChatPrompter> prompter,
                            LoadPrompter(*served_, files.chat_template));
    metrics_ =
        std::make_unique<ServerMetrics>(MetricsOptions{.model_name = ServedNames(flags_).front(),
                                                       .max_model_len = served_->max_model_len(),
                                                       .page_size = served_->page_size()},
                                        served_->engine());
    status_ = std::make_unique<StatusPage>(DescribeStatus(options), served_->engine());
    ApiOptions api;
    api.served_names = ServedNames(flags_);
    api.api_keys = files.api_keys;
    api.max_model_len = served_->max_model_len();
    api.vocab_size = served_->config().shape.vocab;
    api.rows = options.max_batch;
    api.num_pages = served_->num_pages();
    api.page_size = served_->page_size();
    api.max_queued_requests = flags_.max_queued_requests;
    api.defaults = served_->files().generation;
    api_ = std::make_unique<Api>(std::move(api), served_->engine(), served_->shared_tokenizer(),
                                 std::move(prompter), metrics_.get());
    AddPages(*api_, *metrics_, *status_);
    ready_ = true;
    return {};
  }

  /// Serves until a signal comes (ok) or the engine fails (its error).
  Status Run() {
    std::printf("listening on %s\n", server_->url().c_str());
    std::fflush(stdout);
    while (!InterruptRequested()) {
      std::this_thread::sleep_for(kPoll);
      if (const Status health = served_->engine().Health(); !health.ok()) return Fail(health);
    }
    ShutDown();
    return {};
  }

 private:
  /// Before the engine has anything to do.
  StatusOptions DescribeStatus(const EngineOptions& options) {
    StatusOptions status{.model_name = ServedNames(flags_).front(),
                         .max_model_len = served_->max_model_len(),
                         .max_batch = options.max_batch,
                         .page_size = served_->page_size()};
    if (!flags_.floor) return status;
    LogInfo("measuring what this machine can read and compute");
    status.rates = FloorRates{.bytes_per_second = served_->ops().MeasureBandwidth(),
                              .operations_per_second = served_->ops().MeasureRate()};
    return status;
  }

  void Handle(const std::shared_ptr<HttpExchange>& exchange) {
    if (ready_) return api_->Handle(exchange);
    exchange->Respond(
        ErrorResponse(503, "service_unavailable_error", "The model is being loaded."));
  }

  Status Fail(const Status& health) {
    LogError("the engine has failed, requests get 503 until this ends: {}", health.message());
    for (const Stopwatch grace; grace.Seconds() * 1e3 < kFailureGrace.count();) {
      std::this_thread::sleep_for(kPoll);
    }
    Finish();
    return Error(StatusCode::kInternal, "the engine has failed: {}", health.message());
  }

  void ShutDown() {
    api_->BeginShutdown();
    LogInfo("stopping: no new requests; {} in flight have {:g} s to end (a second signal ends all)",
            server_->requests_in_flight(), flags_.shutdown_timeout);
    if (!server_->WaitIdle(ToMilliseconds(flags_.shutdown_timeout))) {
      LogWarning("{} requests are cancelled", server_->requests_in_flight());
    }
    Finish();
  }

  void Finish() {
    server_->StopAccepting();
    served_->engine().Stop();
    server_->WaitIdle(kLastAnswers);
  }

  const ServeFlags& flags_;
  std::unique_ptr<AccessLog> access_log_;
  std::unique_ptr<ServerMetrics> metrics_;  // before the engine, whose last requests it hears of
  std::unique_ptr<ServedModel> served_;
  std::unique_ptr<StatusPage> status_;
  std::unique_ptr<Api> api_;
  std::atomic<bool> ready_ = false;
  std::unique_ptr<HttpServer> server_;
};

Status Serve(const ServeFlags& flags) {
  // CLI11's ranges let NaN pass.
  if (std::isnan(flags.idle_timeout) || std::isnan(flags.shutdown_timeout)) {
    return InvalidArgument("--idle-timeout and --shutdown-timeout are numbers of seconds, not nan");
  }
  CatchFailedWrites(ClosedPipe::kIgnored);  // its log may lose its reader
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  options.fail_at_step = flags.fail_at_step;
  DECANT_ASSIGN_OR_RETURN(const ServeFiles files, ReadFiles(flags));
  Serving serving(flags);
  DECANT_RETURN_IF_ERROR(serving.Listen());
  DECANT_RETURN_IF_ERROR(serving.Load(options, files));
  return serving.Run();
}

void AddHttpFlags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--host", flags.host, "Address to listen on; 0.0.0.0: all of this machine's")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--port", flags.port, "Port to listen on; 0: any that is free")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT");
  app.add_option("--max-connections", flags.max_connections,
                 "Connections at the same time; one more is turned away with 503")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  app.add_option("--idle-timeout", flags.idle_timeout,
                 "A connection without a request is closed after this time, in seconds")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("SECONDS");
  app.add_option("--shutdown-timeout", flags.shutdown_timeout,
                 "On SIGTERM, how long running requests may go on, in seconds")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS");
  app.add_option("--access-log", flags.access_log,
                 "Where a line of JSON for each request goes: log (the program's log), - (standard "
                 "output), off, or a file")
      ->capture_default_str()
      ->type_name("TARGET");
  app.add_option("--fail-at-step", flags.fail_at_step,
                 "For drills of clients and supervisors: the device fails at this step, counted "
                 "from 0")
      ->type_name("STEP");
  app.add_flag("--floor", flags.floor,
               "Measure at start what this machine can read and compute, so that the live page "
               "shows the steps beside the least time they could take");
}

void AddApiFlags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--served-model-name", flags.served_names,
                 "What requests call the model; may be repeated (default: from --model)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--api-key", flags.api_keys,
                 "A key that requests must carry as 'Authorization: Bearer KEY'; may be repeated. "
                 "Other users of the machine can read a command line: prefer --api-key-file")
      ->type_name("KEY")
      ->allow_extra_args(false);
  app.add_option("--api-key-file", flags.api_key_file, "A file of such keys, one a line")
      ->type_name("FILE");
  app.add_option("--chat-template", flags.chat_template,
                 "A Jinja file to use in place of the model's chat template")
      ->type_name("FILE");
  app.add_option("--max-queued-requests", flags.max_queued_requests,
                 "Requests that wait for a row; one more is turned away with 429")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
}

}  // namespace

Command AddServeCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand("serve", "Answer OpenAI's API over HTTP");
  const auto flags = std::make_shared<ServeFlags>();
  AddHttpFlags(app, *flags);
  AddApiFlags(app, *flags);
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  AddSettings(app);
  app.footer(
      "Examples:\n"
      "  decant serve --model M.gguf\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"model\": \"M\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n"
      "  decant serve --model Qwen/Qwen2.5-1.5B-Instruct --host 0.0.0.0 --api-key-file keys.txt\n"
      "  DECANT_PORT=9000 decant serve --config serve.toml\n"
      "A browser at http://HOST:PORT/ shows what the engine does and has a chat; /metrics is for\n"
      "Prometheus, /openapi.json describes the API.\n"
      "It prints 'listening on http://HOST:PORT' once the model is loaded. SIGTERM or Ctrl-C ends\n"
      "it in order. docs/serving.md explains limits, signals, environment and the file of "
      "--config.");
  return {.app = &app, .run = [flags] { return Serve(*flags); }};
}

}  // namespace decant
