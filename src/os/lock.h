/*
 * A mutual-exclusion lock of four bytes: a short spin, then a futex. Not
 * recursive. Statically zero is unlocked, so it works before any constructor.
 *
 * The word names its holder. So a thread can tell at any moment whether it holds
 * the lock itself, in a signal handler too, whatever the handler interrupted: the
 * word changes hands in one atomic step, before which the lock is not ours and
 * after which it is.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "../base/base.h"

HAK_C_BEGIN

/* ---- Threads' numbers --------------------------------------------------------
 * From 1 on, in order of first use; unique among the threads of a process, and the
 * same in a forked child, whose only thread keeps its number. After 2^31 threads
 * they begin again. */
extern __thread uint32_t the_thread_number __attribute__((tls_model("initial-exec")));
uint32_t thread_number_make(void);
HAK_INLINE uint32_t thread_number(void) {
  uint32_t number = the_thread_number;
  return HAK_LIKELY(number != 0) ? number : thread_number_make();
}

/* ---- The lock ----------------------------------------------------------------*/
typedef struct {
  atomic32 state; /* 0: free; else the holder's number, and LOCK_CONTENDED if somebody may sleep */
} hak_lock_t;

#define LOCK_CONTENDED 0x80000000u

/* How many of those that sleep are woken at once. They sleep because the holder had lost its
 * processor; until it went on, every thread that came by fell asleep as well. To wake one of
 * them would leave the others asleep while the lock is free nearly all the time. That is all
 * of them, but for what one call has time for: a microsecond each. */
enum { LOCK_WOKEN = 64 };

void hak_lock_wait(hak_lock_t *lock);
/* Returns when nobody holds the lock, without taking it. One thread at a time may do
 * so; a signal handler that interrupts it may as well. */
void lock_await(hak_lock_t *lock);
void hak_lock_wake(hak_lock_t *lock);

/* Acquire: pairs with the release in lock_release. */
HAK_INLINE void lock_acquire(hak_lock_t *lock) {
  uint32_t expected = 0;
  if (HAK_UNLIKELY(!atomic32_cas_acquire(&lock->state, &expected, thread_number()))) hak_lock_wait(lock);
}
/* Release: pairs with the acquire in lock_acquire and hak_lock_wait. */
HAK_INLINE void lock_release(hak_lock_t *lock) {
  if (HAK_UNLIKELY((atomic32_exchange_release(&lock->state, 0) & LOCK_CONTENDED) != 0)) hak_lock_wake(lock);
}
/* Whether the calling thread holds the lock. Relaxed: only the thread itself ever
 * stores its number, or takes it away. */
HAK_INLINE bool lock_is_mine(const hak_lock_t *lock) {
  uint32_t number = the_thread_number;
  return number != 0 && (atomic32_load_relaxed(&lock->state) & ~LOCK_CONTENDED) == number;
}

/*
 * A gate is a lock that fork(2) closes: the forking thread holds every gate
 * while the process is copied, so that no child inherits a half-done change.
 * Meanwhile that one thread passes freely: other libraries' fork handlers may
 * allocate between our handlers and the fork itself.
 *
 * A signal handler may fork as well, and the code that it interrupts may hold
 * gates. Those stay held, in parent and child: the interrupted code goes on in both
 * and leaves them. A gate that comes before one of those in locking order may be
 * held by a thread that waits for us. It is waited for a little, and then missed:
 * the child has to put in order what that gate guards.
 */
typedef struct {
  hak_lock_t lock;
} hak_gate_t;

/* false: the calling thread forks, and passes: another thread may be behind the gate. */
bool gate_enter(hak_gate_t *gate);
/* The same without sleeping. false: somebody has been behind it for longer than a thread that runs
 * is, or the calling thread is. For what can be done otherwise, or later. */
bool gate_enter_soon(hak_gate_t *gate);
/* The same of one who can wait for a while, but not until whoever is behind it goes on: a signal may have stopped that
 * thread until we have done something. About so long at the most. */
bool gate_enter_within(hak_gate_t *gate, int milliseconds);
void gate_leave(hak_gate_t *gate);
/* Whether the calling thread is behind it, and not as one that forks: a signal handler has interrupted it
 * there, and would wait for itself. */
bool gate_is_mine(const hak_gate_t *gate);
/* Whether a thread may sleep until the gate is open, which the calling thread holds. Relaxed:
 * a hint. */
HAK_INLINE bool gate_is_awaited(const hak_gate_t *gate) {
  return (atomic32_load_relaxed(&gate->lock.state) & LOCK_CONTENDED) != 0;
}

/* Whether some thread is behind it. Relaxed: a hint. */
HAK_INLINE bool gate_is_shut(const hak_gate_t *gate) { return atomic32_load_relaxed(&gate->lock.state) != 0; }

/* Whether the calling thread forks: it holds all gates, and passes each. */
bool gates_are_held_by_this_fork(void);
/* Closes all gates, which are given in locking order, before a fork. Who is behind one of the last `leaves` enters no
 * other. */
void gates_close(hak_gate_t *const gates[], size_t count, size_t leaves);
/* Opens them again in the parent. */
void gates_open(hak_gate_t *const gates[], size_t count);
/* Opens them in the child, those too that were missed. */
void gates_open_in_child(hak_gate_t *const gates[], size_t count);

HAK_C_END
#endif
