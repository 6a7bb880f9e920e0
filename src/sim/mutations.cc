#include "sim/mutations.h"

#include <memory>
#include <string>
#include <utility>

#include "sim/mutated_page_pool.h"
#include "sim/mutated_scheduler.h"

namespace decant {
namespace {

constexpr MutationEntry kMutations[] = {
    {Mutation::kFreePagesEarly, "free-pages-early", "a row that ended goes a step too early"},
    {Mutation::kFreeSharedPages, "free-shared-pages",
     "shared pages go back with the first sample that ends"},
    {Mutation::kPageTwice, "page-twice",
     "a lease gets a page of another one, and the pool's own check says nothing"},
    {Mutation::kLosePage, "lose-page", "one page of a long lease does not come back"},
    {Mutation::kKeepPagesOfFailed, "keep-pages-of-failed",
     "after a failure, rows that had ended before keep their pages"},
    {Mutation::kForgetRounding, "forget-rounding", "a reservation is rounded down"},
    {Mutation::kForgetRoundingOfOne, "forget-rounding-of-one",
     "a page for one slot over is not reserved"},
    {Mutation::kReserveForPrompt, "reserve-for-prompt", "the budget is not reserved"},
    {Mutation::kAdmitOutOfOrder, "admit-out-of-order",
     "a request that does not fit goes to the end of the queue"},
    {Mutation::kLetHugeWait, "let-huge-wait", "a request over the whole pool is let in and waits"},
    {Mutation::kTakeIdTwice, "take-id-twice", "an id that waits already is taken again"},
    {Mutation::kCountEndedSamples, "count-ended-samples",
     "samples that were cancelled in the queue are reserved for"},
    {Mutation::kOneRowMore, "one-row-more", "there is a row more than max_batch"},
    {Mutation::kExceedChunk, "exceed-chunk", "every row gets a chunk of the whole size"},
    {Mutation::kYoungestFirst, "youngest-first", "chunks go to the youngest row first"},
    {Mutation::kDecodeAfterPrompts, "decode-after-prompts",
     "decode tokens are left out behind a prompt chunk"},
    {Mutation::kDropCancel, "drop-cancel", "a cancel is lost while the prompt is read"},
    {Mutation::kDropCancelInQueue, "drop-cancel-in-queue",
     "a request that was cancelled in the queue runs"},
    {Mutation::kCancelAllInQueue, "cancel-all-in-queue",
     "a cancel of sample 0 in the queue ends the whole request"},
    {Mutation::kMissBudget, "miss-budget", "a sample whose budget is used up does not end"},
    {Mutation::kTokenAfterEnd, "token-after-end",
     "the token in flight of a row that ended arrives"},
    {Mutation::kMissEndToken, "miss-end-token", "only the first end token ends a text"},
    {Mutation::kReadSharedEarly, "read-shared-early",
     "shared positions are read in the step that writes them"},
    {Mutation::kRepeatDraw, "repeat-draw", "with a step in flight a draw is made twice"},
    {Mutation::kShareSeed, "share-seed", "all samples draw with the same seed"},
    {Mutation::kProgressOfEnded, "progress-of-ended", "rows that ended are told of as running"},
};

}  // namespace

std::span<const MutationEntry> Mutations() { return kMutations; }

Expected<Mutation> ParseMutation(std::string_view name) {
  std::string names;
  for (const MutationEntry& entry : kMutations) {
    if (entry.name == name) return entry.mutation;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return InvalidArgument("no mutation is called '{}': there are {}", name, names);
}

SubjectFactory MutatedSubjects(Mutation mutation) {
  return [mutation](const HistorySetup& setup, PagePool::FreeObserver freed) {
    return std::make_unique<SubjectOf<mutated::PagePool, mutated::Scheduler>>(
        setup, std::move(freed), mutation);
  };
}

}  // namespace decant
