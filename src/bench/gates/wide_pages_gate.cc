#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/narrow.h"
#include "bench/gates/page_gates.h"
#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr int32_t kPageSize = 256;
constexpr int32_t kPages = 7;
/// Prompt and budget of each request: 300 positions hold 512.
constexpr int32_t kPositions[] = {300, 300, 300, 300, 256, 257, 2};
constexpr int32_t kBudget = 24;

/// What every row of the requests held, by request, as the plans say.
class HeldRecorder {
 public:
  void Observe(const StepPlan& plan) {
    const std::lock_guard lock(mutex_);
    for (const PlannedRow& row : plan.rows) {
      const auto [found, added] = held_.try_emplace(row.request);
      HeldPages& held = found->second;
      if (added) {
        held.pages.assign(row.pages.begin(), row.pages.end());
        held.first_step = plan.step;
      } else if (!std::ranges::equal(held.pages, row.pages)) {
        changed_ = true;
      }
      held.last_step = plan.step;
    }
  }

  /// In order of request number, which is that of submission, without the first `skipped`.
  std::vector<HeldPages> Take(size_t skipped) {
    const std::lock_guard lock(mutex_);
    std::vector<HeldPages> all;
    all.reserve(held_.size());
    for (auto& [request, held] : held_) all.push_back(std::move(held));
    all.erase(all.begin(), all.begin() + static_cast<int64_t>(std::min(skipped, all.size())));
    held_.clear();
    return all;
  }

  bool changed() {
    const std::lock_guard lock(mutex_);
    return changed_;
  }

 private:
  std::mutex mutex_;
  std::map<RequestId, HeldPages> held_;
  bool changed_ = false;
};

WorkItem Item(int32_t positions, std::span<const Token> alphabet) {
  const int32_t budget = std::min(kBudget, std::max(1, positions - 1));
  WorkItem item{.prompt = {}, .budget = budget};
  for (int32_t i = 0; i < std::max(1, positions - budget); ++i) {
    item.prompt.push_back(alphabet[static_cast<size_t>(i * 7 + positions) % alphabet.size()]);
  }
  return item;
}

/// Serves and returns what each request held.
Expected<std::vector<HeldPages>> ServeAndRecord(GateEngine& engine, HeldRecorder& recorder,
                                                const std::vector<WorkItem>& items) {
  DECANT_ASSIGN_OR_RETURN([[maybe_unused]] const auto served, engine.Serve(items));
  constexpr size_t kAhead = 1;  // the request that Serve sends ahead
  std::vector<HeldPages> held = recorder.Take(kAhead);
  if (held.size() != items.size()) {
    return Error(StatusCode::kInternal, "{} requests had rows, not {}", held.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) held[i].positions = items[i].positions();
  return held;
}

}  // namespace

std::vector<std::string> JudgeAdmission(std::span<const HeldPages> held, int32_t page_size,
                                        int32_t num_pages) {
  std::vector<std::string> failures;
  for (size_t i = 0; i < held.size(); ++i) {
    const int32_t expected = CeilDiv(held[i].positions, page_size);
    if (std::ssize(held[i].pages) != expected) {
      failures.push_back(fmt::format("request {} of {} positions holds {} pages, not {}", i,
                                     held[i].positions, held[i].pages.size(), expected));
    }
    if (i > 0 && held[i].first_step < held[i - 1].first_step) {
      failures.push_back(fmt::format("request {} started in step {}, before the one ahead of it", i,
                                     held[i].first_step));
    }
  }
  std::set<uint64_t> steps;
  for (const HeldPages& request : held) steps.insert(request.first_step);
  for (const uint64_t step : steps) {
    std::map<int32_t, size_t> owners;
    int32_t in_use = 0;
    int32_t not_free = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      const auto count = static_cast<int32_t>(held[i].pages.size());
      if (step < held[i].first_step) continue;
      // A step is planned before the one ahead of it is committed, so what ends there is not free.
      if (step <= held[i].last_step + 1) not_free += count;
      if (step > held[i].last_step) continue;
      in_use += count;
      for (const int32_t page : held[i].pages) {
        const auto [owner, added] = owners.emplace(page, i);
        if (added) continue;
        failures.push_back(fmt::format("step {}: page {} is held by requests {} and {}", step, page,
                                       owner->second, i));
      }
    }
    if (in_use > num_pages) {
      failures.push_back(fmt::format("step {}: {} pages are held of {}", step, in_use, num_pages));
    }
    // The first that has not started must not have fitted beside those that run.
    const auto next = std::ranges::find_if(
        held, [&](const HeldPages& request) { return request.first_step > step; });
    if (next != held.end() && not_free + std::ssize(next->pages) <= num_pages) {
      failures.push_back(
          fmt::format("step {}: request {} waits for {} pages, though {} of {} are free", step,
                      next - held.begin(), next->pages.size(), num_pages - not_free, num_pages));
    }
  }
  return failures;
}

Expected<GateReport> RunWidePagesGate(const EngineLoader& loader, EngineOptions options) {
  options.page_size = kPageSize;
  options.max_pages = kPages;
  options.max_batch = static_cast<int32_t>(std::size(kPositions));
  // A request that is admitted has a chunk in the same step, so that plans show admission.
  options.chunk_tokens = kPages * kPageSize;
  options.auto_chunk = false;
  options.max_step_ms.reset();
  HeldRecorder recorder;
  DECANT_ASSIGN_OR_RETURN(const auto engine, GateEngine::Load(loader, options, LogitGaps::kIgnored,
                                                              [&recorder](const StepPlan& plan) {
                                                                recorder.Observe(plan);
                                                              }));
  ServedModel& model = engine->model();
  if (model.num_pages() != kPages) {
    return InvalidArgument("the pool holds {} pages of {}; the gate needs {}: raise --pool-gib",
                           model.num_pages(), kPageSize, kPages);
  }
  const std::vector<Token> alphabet = PromptAlphabet(model.tokenizer());
  std::vector<WorkItem> items;
  for (const int32_t positions : kPositions) items.push_back(Item(positions, alphabet));
  DECANT_ASSIGN_OR_RETURN(const std::vector<HeldPages> held,
                          ServeAndRecord(*engine, recorder, items));

  GateReport report;
  report.gate = "wide-pages";
  report.failures = JudgeAdmission(held, kPageSize, kPages);
  TextTable table({"request", "positions", "pages", "slots", "first step", "last step"});
  JsonArray rows;
  for (size_t i = 0; i < held.size(); ++i) {
    table.AddRow({fmt::format("{}", i), fmt::format("{}", held[i].positions),
                  fmt::format("{}", fmt::join(held[i].pages, " ")),
                  fmt::format("{}", held[i].pages.size() * kPageSize),
                  fmt::format("{}", held[i].first_step), fmt::format("{}", held[i].last_step)});
    rows.Add(JsonObject()
                 .Add("positions", held[i].positions)
                 .Add("pages", held[i].pages.size())
                 .Add("first_step", held[i].first_step)
                 .Add("last_step", held[i].last_step));
  }
  const auto waited = std::ranges::count_if(
      held, [&](const HeldPages& request) { return request.first_step > held[0].first_step; });
  if (waited == 0) report.failures.emplace_back("no request had to wait");

  // Everything is free again, or this one could not have all.
  const int32_t whole = std::min(kPages * kPageSize, model.max_model_len());
  DECANT_ASSIGN_OR_RETURN(const std::vector<HeldPages> all,
                          ServeAndRecord(*engine, recorder, {Item(whole, alphabet)}));
  const std::set<int32_t> distinct(all[0].pages.begin(), all[0].pages.end());
  const int32_t expected = CeilDiv(whole, kPageSize);
  if (static_cast<int32_t>(distinct.size()) != expected) {
    report.failures.push_back(
        fmt::format("a request of {} positions holds {} different pages of {}", whole,
                    distinct.size(), expected));
  }
  if (recorder.changed()) report.failures.emplace_back("a row's pages changed while it ran");
  const std::string backend = model.ops().Describe();
  model.engine().Stop();
  const EngineStats stats = model.engine().Stats();
  if (stats.running != 0 || stats.waiting != 0) {
    report.failures.push_back(
        fmt::format("{} requests run and {} wait at the end", stats.running, stats.waiting));
  }
  const int32_t in_use = stats.pages_in_use;
  if (in_use != 0) report.failures.push_back(fmt::format("{} pages are held at the end", in_use));

  report.compared.Add("backend", backend)
      .Add("page_size", kPageSize)
      .Add("pages", kPages)
      .Add("requests", rows)
      .Add("waited", waited)
      .Add("last_request_positions", whole)
      .Add("last_request_pages", distinct.size())
      .Add("pages_held_at_the_end", in_use);
  report.table = fmt::format(
      "a pool of {} pages of {}: {} of {} requests waited; then one of {} positions held {} pages; "
      "{} held at the end\n{}",
      kPages, kPageSize, waited, held.size(), whole, distinct.size(), in_use, table.ToString());
  return report;
}

}  // namespace decant
