#include "apps/chat_session.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "apps/stream_answer.h"
#include "base/interrupt.h"

namespace decant {
namespace {

/// The next line that is not blank; nothing at the end of input or when interrupted.
std::optional<std::string> ReadMessage() {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::string line;
  do {
    if (terminal) std::fputs("\n> ", stderr);
    if (!std::getline(std::cin, line)) return std::nullopt;
  } while (line.find_first_not_of(" \t\r") == std::string::npos);
  return line;
}

Status AnswerLast(ServedModel& served, const ChatPrompter& prompter, const SamplingFlags& flags,
                  Conversation& conversation) {
  DECANT_ASSIGN_OR_RETURN(
      ChatPrompt prompt,
      prompter.Render(conversation.MessagesJson(), {.tools_json = conversation.tools_json()}));
  DECANT_ASSIGN_OR_RETURN(GenerateRequest request, ToRequest(flags, served.files().generation));
  request.prompt = std::move(prompt.tokens);
  DECANT_ASSIGN_OR_RETURN(const StreamedAnswer answer,
                          StreamAnswer(served.engine(), std::move(request)));
  // Before the answer's end is told: who sees it may press Ctrl-C again, which is another one.
  if (InterruptRequested()) ForgetInterrupt();
  std::fprintf(stderr, "%s\n", DescribeAnswer(answer).c_str());
  DECANT_RETURN_IF_ERROR(answer.status);
  conversation.Add("assistant", answer.text);
  return {};
}

}  // namespace

Status RunChat(ServedModel& served, const ChatPrompter& prompter, const SamplingFlags& flags,
               Conversation conversation) {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs("A line is a message. Ctrl-C stops an answer, Ctrl-D ends the conversation.\n",
               stderr);
  }
  while (true) {
    if (conversation.last_role() != "user") {
      std::optional<std::string> message = ReadMessage();
      if (!message) return {};
      conversation.Add("user", *message);
    }
    DECANT_RETURN_IF_ERROR(AnswerLast(served, prompter, flags, conversation));
  }
}

}  // namespace decant
