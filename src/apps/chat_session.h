#pragma once

#include "apps/conversation.h"
#include "apps/sampling_flags.h"
#include "base/status.h"
#include "engine/load_engine.h"
#include "text/chat_prompt.h"

namespace decant {

/// A conversation on the terminal: a line is a message, the answer streams, all of it is kept.
/// Ctrl-C stops the answer, which is kept as far as it came; at the prompt it ends the session, as
/// Ctrl-D does. Where `conversation` ends with a user's message, that is answered first.
Status RunChat(ServedModel& served, const ChatPrompter& prompter, const SamplingFlags& flags,
               Conversation conversation);

}  // namespace decant
