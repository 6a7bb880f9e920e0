#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "apps/simulate_command.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/jsonl_writer.h"
#include "base/progress.h"
#include "base/run_header.h"
#include "bench/text_table.h"
#include "sim/fault_hunt.h"
#include "sim/mutations.h"

namespace decant {
namespace {

constexpr int64_t kMostHistories = 1'000'000'000'000;

struct FaultsFlags {
  int64_t histories = 10'000;
  uint64_t seed = 1;
  int32_t threads = 0;
  std::string mutation{};
  bool show = false;
  std::string out{};
};

struct MutationsFlags {
  int64_t histories = 1000;
  uint64_t seed = 1;
  std::string show{};
};

int32_t AllProcessors() {
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

std::string Lines(const FaultHistory& history) {
  std::string text;
  for (const std::string& line : DescribeHistory(history)) text += "  " + line + "\n";
  return text;
}

/// What breaks in a history that must break something.
std::string WhatBreaks(const FaultHistory& history, const SubjectFactory& subjects) {
  const HistoryOutcome outcome = RunHistory(history, subjects);
  return outcome.breach ? outcome.breach->what : std::string("nothing");
}

void PrintFault(const FoundFault& fault, const SubjectFactory& subjects,
                const std::string& mutation) {
  std::printf("\nseed %llu breaks the promise \"%s\": %s\n",
              static_cast<unsigned long long>(fault.seed),
              std::string(PromiseName(fault.breach.promise)).c_str(), fault.breach.what.c_str());
  std::printf("replay: decant simulate faults --seed %llu --histories 1 --show%s\n",
              static_cast<unsigned long long>(fault.seed),
              mutation.empty() ? "" : (" --mutation " + mutation).c_str());
  std::printf("%zu of its %zu events do it too (%s):\n%s", fault.shrunk.events.size(), fault.events,
              WhatBreaks(fault.shrunk, subjects).c_str(), Lines(fault.shrunk).c_str());
}

JsonObject ToJson(const HuntResult& result, const FaultsFlags& flags, double seconds) {
  const HistoryCounts& counts = result.counts;
  JsonArray faults;
  for (const FoundFault& fault : result.faults) {
    faults.Add(JsonObject()
                   .Add("seed", fault.seed)
                   .Add("promise", PromiseName(fault.breach.promise))
                   .Add("what", fault.breach.what));
  }
  JsonObject row;
  row.Add("histories", result.histories)
      .Add("turns", counts.turns)
      .Add("steps", counts.steps)
      .Add("requests", counts.requests)
      .Add("refused", counts.refused)
      .Add("tokens", counts.tokens)
      .Add("samples_finished", counts.finished)
      .Add("samples_cancelled", counts.cancelled)
      .Add("samples_failed", counts.failed)
      .Add("slow_readers_cut_off", counts.cut_off)
      .Add("threads", flags.threads)
      .Add("seconds", seconds)
      .Add("histories_with_faults", result.failed)
      .Add("faults", faults);
  if (!flags.mutation.empty()) row.Add("mutation", flags.mutation);
  return JsonObject().Add("row", row);
}

Status SimulateFaults(FaultsFlags flags, std::span<const char* const> command) {
  if (flags.seed > std::numeric_limits<uint64_t>::max() - kMostHistories) {
    return InvalidArgument("--seed {}: allowed are 0 to {}", flags.seed,
                           std::numeric_limits<uint64_t>::max() - kMostHistories);
  }
  SubjectFactory subjects = MakeRealSubject;
  if (!flags.mutation.empty()) {
    const Expected<Mutation> mutation = ParseMutation(flags.mutation);
    if (!mutation.ok()) return mutation.status().WithContext("--mutation");
    subjects = MutatedSubjects(*mutation);
  }
  if (flags.threads == 0) flags.threads = AllProcessors();
  const RunHeader header = MakeRunHeader(command, flags.seed);
  std::optional<JsonlWriter> writer;
  if (!flags.out.empty()) {
    DECANT_ASSIGN_OR_RETURN(writer, JsonlWriter::Open(flags.out, OutputMode::kAppend));
  }
  if (flags.show) std::printf("%s", Lines(DrawHistory(flags.seed)).c_str());
  NameSeedOnAbort();
  const Stopwatch watch;
  Progress progress("simulating", flags.histories, "histories");
  const HuntResult result =
      HuntFaults({.first_seed = flags.seed, .histories = flags.histories, .threads = flags.threads},
                 subjects, [&](int64_t more) { progress.Advance(more); });
  progress.Finish();
  const double seconds = watch.Seconds();
  const HistoryCounts& counts = result.counts;
  const std::string summary = fmt::format(
      "{} histories in {:.1f} s: {} steps, {} requests accepted and {} refused, {} tokens,\n"
      "{} samples finished, {} cancelled, {} failed; {} histories broke a promise\n",
      result.histories, seconds, counts.steps, counts.requests, counts.refused, counts.tokens,
      counts.finished, counts.cancelled, counts.failed, result.failed);
  std::printf("%s", summary.c_str());
  for (const FoundFault& fault : result.faults) PrintFault(fault, subjects, flags.mutation);
  if (InterruptRequested()) return Error(StatusCode::kCancelled, "interrupted");
  if (writer) {
    DECANT_RETURN_IF_ERROR(writer->Write(ToJson(header)));
    DECANT_RETURN_IF_ERROR(writer->Write(ToJson(result, flags, seconds)));
    DECANT_RETURN_IF_ERROR(writer->Close());
  }
  if (result.failed == 0) return Status();
  return Error(StatusCode::kInternal, "{} of {} histories broke a promise", result.failed,
               result.histories);
}

Status SimulateMutations(const MutationsFlags& flags) {
  std::optional<Mutation> only;
  if (!flags.show.empty()) {
    const Expected<Mutation> mutation = ParseMutation(flags.show);
    if (!mutation.ok()) return mutation.status().WithContext("--show");
    only = *mutation;
  }
  const auto mutations = static_cast<int64_t>(only ? 1 : Mutations().size());
  Progress progress("simulating", mutations * flags.histories, "histories");
  TextTable table({"mutation", "first", "share", "promise", "events", "what it is"});
  std::string missed;
  std::string shown;
  for (const MutationEntry& entry : Mutations()) {
    if (only && entry.mutation != *only) continue;
    const SubjectFactory subjects = MutatedSubjects(entry.mutation);
    const HuntResult result = HuntFaults({.first_seed = flags.seed,
                                          .histories = flags.histories,
                                          .threads = AllProcessors(),
                                          .most_shrunk = 1},
                                         subjects, [&](int64_t more) { progress.Advance(more); });
    if (InterruptRequested()) return Error(StatusCode::kCancelled, "interrupted");
    if (result.faults.empty()) {
      table.AddRow({std::string(entry.name), "-", "0%", "-", "-", std::string(entry.what)});
      missed += fmt::format("{}{}", missed.empty() ? "" : ", ", entry.name);
      continue;
    }
    const FoundFault& fault = result.faults.front();
    const double share = static_cast<double>(result.failed) / static_cast<double>(result.histories);
    table.AddRow({std::string(entry.name), fmt::format("{}", fault.seed - flags.seed + 1),
                  fmt::format("{:.1f}%", 100 * share),
                  std::string(PromiseName(fault.breach.promise)),
                  fmt::format("{}", fault.shrunk.events.size()), std::string(entry.what)});
    shown = fmt::format("\nThe shortest history found that shows it ({}):\n{}",
                        WhatBreaks(fault.shrunk, subjects), Lines(fault.shrunk));
  }
  progress.Finish();
  std::printf("%s%s", table.ToString().c_str(), only ? shown.c_str() : "");
  if (missed.empty()) return Status();
  return Error(StatusCode::kInternal, "{} histories did not show {}", flags.histories, missed);
}

}  // namespace

Command AddSimulateFaultsCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "faults", "Hunt for faults of the scheduler and the pool in random histories");
  const auto flags = std::make_shared<FaultsFlags>();
  app.add_option("--histories", flags->histories, "How many, each from a seed of its own")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, kMostHistories))
      ->type_name("N");
  app.add_option("--seed", flags->seed, "Of the first history; the next one's is one more")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--threads", flags->threads, "0: one for each processor")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  app.add_option("--mutation", flags->mutation,
                 "Put this known fault in, to see what finding it looks like; `decant simulate\n"
                 "mutations` lists them")
      ->type_name("NAME");
  app.add_flag("--show", flags->show, "Print the first history, line by line");
  app.add_option("--out", flags->out, "Add a header and a row of figures to this file")
      ->type_name("FILE.jsonl");
  app.footer(
      "A history is drawn from its seed: an engine (pool, page size, rows, chunk) and what happens "
      "to\n"
      "it (arrivals, cancels, early ends, stalls, slow readers, a failing step, a stop). It is "
      "run\n"
      "through the engine's own scheduler and pool, and after every call all that can be seen of\n"
      "them is compared with books kept beside. A history that breaks a promise is printed with a\n"
      "command that replays it, and cut down to the events that do it; then the exit status is 1.\n"
      "docs/simulation-faults.md says what is checked.\n"
      "Examples:\n"
      "  decant simulate faults\n"
      "  decant simulate faults --histories 1000000 --seed 5000000\n"
      "  decant simulate faults --histories 1 --seed 17 --show\n"
      "  decant simulate faults --histories 100 --mutation drop-cancel");
  return {.app = &app, .run = [flags, command] { return SimulateFaults(*flags, command); }};
}

Command AddSimulateMutationsCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand(
      "mutations", "Show that known faults, put in on purpose, are found by simulate faults");
  const auto flags = std::make_shared<MutationsFlags>();
  app.add_option("--histories", flags->histories, "How many for each mutation")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, kMostHistories))
      ->type_name("N");
  app.add_option("--seed", flags->seed, "Of the first history; the next one's is one more")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--show", flags->show, "Only this mutation, and a short history that shows it")
      ->type_name("NAME");
  app.footer(
      "The sources of the scheduler and the pool are compiled once more with the faults in them, "
      "one\n"
      "at a time awake. first: the first history that shows it; share: how many of all do; "
      "promise:\n"
      "the first that the first history breaks; events: what is left of that history once cut "
      "down.\n"
      "The exit status is 1 if a mutation is not found.\n"
      "Examples:\n"
      "  decant simulate mutations\n"
      "  decant simulate mutations --show free-pages-early");
  return {.app = &app, .run = [flags] { return SimulateMutations(*flags); }};
}

}  // namespace decant
