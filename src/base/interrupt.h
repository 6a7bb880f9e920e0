#pragma once

namespace decant {

/// From now on the first SIGINT or SIGTERM only makes InterruptRequested true, so that the program
/// can stop in good order; the second one ends the process at once.
void CatchInterrupts();

/// Whether the person asked the program to stop.
bool InterruptRequested();

/// Takes the request as answered: the next signal is a first one again. For programs in which it
/// stops one piece of work and not the whole.
void ForgetInterrupt();

}  // namespace decant
