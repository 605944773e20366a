/*
 * The slow path of the lock: three states as in U. Drepper, "Futexes Are
 * Tricky" (2011). SPDX-License-Identifier: MIT
 */
#include "lock.h"

#include "os.h"

#include <pthread.h>

/* The holder is in a critical section of about a microsecond, if it runs. */
enum { SPINS = 100 };

HAK_INLINE void spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

HAK_NOINLINE void hak_lock_wait(hak_lock_t *lock) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t expected = 0;
    if (atomic32_load_relaxed(&lock->state) == 0 &&
        __atomic_compare_exchange_n(&lock->state.value, &expected, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return;
    spin_pause();
  }
  /* From here on the lock is taken in state 2: we cannot know whether others
   * sleep as well. */
  while (atomic32_exchange_acquire(&lock->state, 2) != 0) os_futex_wait(&lock->state, 2);
}

HAK_COLD void hak_lock_wake(hak_lock_t *lock) { os_futex_wake_one(&lock->state); }

/* ---- Forking -------------------------------------------------------------*/
static atomic64 forking_thread; /* 0, or the thread that holds every gate for a fork */

static uint64_t this_thread(void) { return (uint64_t)pthread_self(); }

/* Relaxed: only the forking thread itself ever finds its own value here. */
static bool held_by_this_fork(void) {
  uint64_t holder = atomic64_load_relaxed(&forking_thread);
  return HAK_UNLIKELY(holder != 0) && holder == this_thread();
}

void gate_enter(hak_gate_t *gate) {
  if (!held_by_this_fork()) lock_acquire(&gate->lock);
}
void gate_leave(hak_gate_t *gate) {
  if (!held_by_this_fork()) lock_release(&gate->lock);
}

void gates_pass_for_ever(void) { atomic64_store_relaxed(&forking_thread, this_thread()); }

void gates_close(hak_gate_t *const gates[], size_t count) {
  for (size_t i = 0; i < count; i++) lock_acquire(&gates[i]->lock);
  atomic64_store_relaxed(&forking_thread, this_thread());
}
void gates_open(hak_gate_t *const gates[], size_t count) {
  atomic64_store_relaxed(&forking_thread, 0);
  while (count > 0) lock_release(&gates[--count]->lock);
}
