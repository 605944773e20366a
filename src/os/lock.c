/*
 * The slow path of the lock: three states as in U. Drepper, "Futexes Are
 * Tricky" (2011), the held ones with the holder's number in them.
 * SPDX-License-Identifier: MIT
 */
#include "lock.h"

#include "../base/probe.h"
#include "os.h"

/* The holder is in a critical section of about a microsecond, if it runs. */
enum { SPINS = 100 };

/* ---- Threads' numbers ----------------------------------------------------------*/
__thread uint32_t the_thread_number __attribute__((tls_model("initial-exec")));

/* The last that was given. Relaxed: only that they differ matters, and that who waits for a lock has had one before. */
static atomic32 last_number;

HAK_COLD uint32_t thread_number_make(void) {
  do the_thread_number = (atomic32_add_relaxed(&last_number, 1) + 1) & ~LOCK_CONTENDED;
  while (the_thread_number == 0);
  return the_thread_number;
}
/* So nobody waits for a lock. */
static bool is_alone(void) { return atomic32_load_relaxed(&last_number) <= 1; }

/* ---- Waiting -------------------------------------------------------------------*/
HAK_INLINE void spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

/* Acquire: pairs with the release in lock_release. */
HAK_INLINE bool acquire_within_spin(hak_lock_t *lock, uint32_t self) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t nobody = 0;
    if (atomic32_load_relaxed(&lock->state) == 0 && atomic32_cas_acquire(&lock->state, &nobody, self)) return true;
    spin_pause();
  }
  return false;
}

HAK_NOINLINE void hak_lock_wait(hak_lock_t *lock) {
  uint32_t self = thread_number();
  if (HAK_UNLIKELY(lock_is_mine(lock))) hak_reentered();
  if (acquire_within_spin(lock, self)) return;
  for (;;) {
    uint32_t state = atomic32_load_relaxed(&lock->state);
    if (state == 0) {
      /* Taken as contended: we cannot know whether others sleep as well. */
      if (atomic32_cas_acquire(&lock->state, &state, self | LOCK_CONTENDED)) return;
    } else if ((state & LOCK_CONTENDED) != 0 || atomic32_cas_acquire(&lock->state, &state, state | LOCK_CONTENDED)) {
      HAK_PROBE(lock_sleep, lock, state & ~LOCK_CONTENDED);
      os_futex_wait(&lock->state, state | LOCK_CONTENDED, OS_FOR_EVER);
      HAK_PROBE(lock_wake, lock);
    }
  }
}

/* Not by taking the lock: a handler that interrupts us between that and letting go again
 * would wait for us. Acquire: pairs with the release in lock_release. */
HAK_NOINLINE void lock_await(hak_lock_t *lock) {
  for (int i = 0; i < SPINS; i++) {
    if (atomic32_load_acquire(&lock->state) == 0) return;
    spin_pause();
  }
  for (uint32_t state; (state = atomic32_load_acquire(&lock->state)) != 0;)
    if ((state & LOCK_CONTENDED) != 0 || atomic32_cas_acquire(&lock->state, &state, state | LOCK_CONTENDED))
      os_futex_wait(&lock->state, state | LOCK_CONTENDED, OS_FOR_EVER);
}

HAK_COLD void hak_lock_wake(hak_lock_t *lock) { os_futex_wake(&lock->state, LOCK_WOKEN); }

/* ---- Gates ---------------------------------------------------------------------*/

/* The number of the thread that has closed the gates for a fork; 0 if none has. */
static atomic32 forking_thread;

/* A fork that is going on. There is more than one where a handler of a signal, or
 * another library's fork handler, forks between our own handlers. */
typedef struct {
  uint32_t closed, missed; /* gates that this fork closed, and could not close: a bit each */
} fork_t;
enum { FORKS_MOST = 8 };
/* Written by the forking thread while it holds the gates; the signal handlers of which may fork at any
 * instruction. Such a fork has the entry at the depth that it finds: one in use has to be below. */
static struct {
  fork_t stack[FORKS_MOST];
  uint32_t depth;
} forks;

/* Relaxed: only the forking thread itself ever finds its own number here. */
bool gates_are_held_by_this_fork(void) {
  uint32_t holder = atomic32_load_relaxed(&forking_thread);
  return HAK_UNLIKELY(holder != 0) && holder == the_thread_number;
}

bool gate_enter(hak_gate_t *gate) {
  if (gates_are_held_by_this_fork()) return false;
  lock_acquire(&gate->lock);
  return true;
}
/* A try a millisecond, of which `tries` are left. It sleeps, but never on the lock's word: a wake-up there is
 * meant for one that waits until it has the lock, and would be lost. */
enum { TRY_MS = 1 };
static bool acquire_if_soon(hak_lock_t *lock, int *tries) {
  for (; !acquire_within_spin(lock, thread_number()); --*tries) {
    if (*tries == 0) return false;
    os_sleep(TRY_MS);
  }
  return true;
}
bool gate_enter_within(hak_gate_t *gate, int milliseconds) {
  int tries = milliseconds / TRY_MS;
  return gates_are_held_by_this_fork() || (!lock_is_mine(&gate->lock) && acquire_if_soon(&gate->lock, &tries));
}
bool gate_enter_soon(hak_gate_t *gate) { return gate_enter_within(gate, 0); }
bool gate_is_mine(const hak_gate_t *gate) { return !gates_are_held_by_this_fork() && lock_is_mine(&gate->lock); }
void gate_leave(hak_gate_t *gate) {
  if (!gates_are_held_by_this_fork()) lock_release(&gate->lock);
}

/* ---- Forking -------------------------------------------------------------------*/

/* All the gates whose holders may wait for us together; and a leaf, whose holder waits for us only if it forks in a
 * handler as well. */
enum { TRIES = 10, LEAF_TRIES = 250 };

static bool one_is_mine(hak_gate_t *const gates[], size_t from, size_t count) {
  for (size_t i = from; i < count; i++)
    if (lock_is_mine(&gates[i]->lock)) return true;
  return false;
}

/* The code that a signal handler interrupted may have been woken for a gate just now,
 * and cannot take it while the handler waits for another: somebody else may. */
static void pass_on_wake_ups(hak_gate_t *const gates[], size_t count) {
  for (size_t i = 0; i < count && !is_alone(); i++) hak_lock_wake(&gates[i]->lock);
}

void gates_close(hak_gate_t *const gates[], size_t count, size_t leaves) {
  fork_t this_fork = {0};
  int tries = TRIES;
  pass_on_wake_ups(gates, count);
  for (size_t i = 0; i < count; i++) {
    hak_lock_t *lock = &gates[i]->lock;
    if (lock_is_mine(lock)) continue; /* by the code that a signal handler interrupted, or an outer fork */
    bool closed = true;
    if (i == count - leaves) tries = LEAF_TRIES;
    if (one_is_mine(gates, i + 1, count)) closed = acquire_if_soon(lock, &tries);
    else lock_acquire(lock);
    *(closed ? &this_fork.closed : &this_fork.missed) |= 1u << i;
  }
  HAK_ASSERT(forks.depth < FORKS_MOST);
  uint32_t at = forks.depth;
  forks.depth = at + 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  forks.stack[at % FORKS_MOST] = this_fork;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  atomic32_store_relaxed(&forking_thread, thread_number());
}

static fork_t end_of_fork(void) {
  uint32_t at = forks.depth - 1;
  fork_t this_fork = forks.stack[at % FORKS_MOST];
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  forks.depth = at;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (at == 0) atomic32_store_relaxed(&forking_thread, 0);
  return this_fork;
}

static void open_gates(hak_gate_t *const gates[], size_t count, uint32_t closed) {
  while (count-- > 0)
    if ((closed >> count & 1) != 0) lock_release(&gates[count]->lock);
}

void gates_open(hak_gate_t *const gates[], size_t count) { open_gates(gates, count, end_of_fork().closed); }

void gates_open_in_child(hak_gate_t *const gates[], size_t count) {
  fork_t this_fork = end_of_fork();
  open_gates(gates, count, this_fork.closed | this_fork.missed);
}
