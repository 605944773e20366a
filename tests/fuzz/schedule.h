/*
 * Threads that take turns. Where the allocator's core is compiled to call at each
 * basic block (-fsanitize-coverage=trace-pc), one thread runs at a time and turns
 * change there, as a seed decides: every interleaving of basic blocks can happen, and
 * each happens again with the same input. A thread that would sleep on a futex gives
 * its turn away instead; if nobody is left to take it, nobody would ever wake the
 * thread, and the run fails.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_SCHEDULE_H
#define HAK_TESTS_FUZZ_SCHEDULE_H

#include <cstdint>

namespace hak_fuzz {

/* Which thread of the machine this is; 0 is the main thread. */
void schedule_name_thread(unsigned thread);
unsigned schedule_this_thread();

/* Workers wait here until it is their turn, or until they are told to run. */
void schedule_wait_for_turn();
void schedule_wake(unsigned thread);

/* Called by the main thread: a worker runs, and nothing else. */
void schedule_run_alone(unsigned thread);
/* Called by the main thread: from now on the threads 1 .. `threads` take turns, of
 * `mean_length` basic blocks on average. Returns when each has called schedule_leave. */
void schedule_run(unsigned threads, std::uint64_t seed, unsigned mean_length);
/* The same, but all run at once. */
void schedule_run_freely(unsigned threads);
/* The thread's part in either begins, when it has been woken, and is done. */
void schedule_enter();
void schedule_leave();

/* Calls `handler` once, at the n-th basic block that the calling thread enters from
 * now on in the core, as a signal would; 0 calls it off. Returns whether one was
 * still to come. */
bool schedule_interrupt(std::uint64_t nth, void (*handler)());

/* Between these two, a thread that waits although no other runs has waited for ever. */
void schedule_begin();
void schedule_end();

}  // namespace hak_fuzz
#endif
