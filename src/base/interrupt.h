#pragma once

namespace decant {

/// From now on the first SIGINT or SIGTERM only makes InterruptRequested true, so that the program
/// can stop in good order; the second one ends the process at once.
void CatchInterrupts();

/// What a write does to a pipe or socket that nobody reads any more. It fails either way.
enum class ClosedPipe {
  kStops,    ///< It counts as a request to stop: `decant generate ... | head`.
  kIgnored,  ///< Nothing else: a server outlives the reader of its log.
};

/// From now on a closed pipe ends no process, nor does a file that reaches its size limit: writes
/// fail instead.
void CatchFailedWrites(ClosedPipe closed_pipe);

/// Whether a pipe was found closed, and that stops the program.
bool PipeClosed();

/// Whether the person asked the program to stop, or PipeClosed().
bool InterruptRequested();

/// Takes the person's request as answered: the next signal is a first one again. For programs in
/// which it stops one piece of work and not the whole.
void ForgetInterrupt();

}  // namespace decant
