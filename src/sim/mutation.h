#pragma once

namespace decant {

/// A fault that is put into a copy of the scheduler or the pool on purpose: mutate_sources.cmake
/// says where, Mutations() what it is.
enum class Mutation {
  kNone,
  kFreePagesEarly,
  kFreeSharedPages,
  kPageTwice,
  kLosePage,
  kKeepPagesOfFailed,
  kForgetRounding,
  kForgetRoundingOfOne,
  kReserveForPrompt,
  kAdmitOutOfOrder,
  kLetHugeWait,
  kTakeIdTwice,
  kCountEndedSamples,
  kOneRowMore,
  kExceedChunk,
  kYoungestFirst,
  kDecodeAfterPrompts,
  kDropCancel,
  kDropCancelInQueue,
  kCancelAllInQueue,
  kMissBudget,
  kTokenAfterEnd,
  kMissEndToken,
  kReadSharedEarly,
  kRepeatDraw,
  kShareSeed,
  kProgressOfEnded,
};

}  // namespace decant
