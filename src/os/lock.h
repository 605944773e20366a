/*
 * A mutual-exclusion lock of four bytes: a short spin, then a futex. Not
 * recursive. Statically zero is unlocked, so it works before any constructor.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "../base/base.h"

HAK_C_BEGIN

typedef struct {
  atomic32 state; /* 0 free, 1 held, 2 held and somebody may sleep */
} hak_lock_t;

void hak_lock_wait(hak_lock_t *lock);
void hak_lock_wake(hak_lock_t *lock);

/* Acquire: pairs with the release in lock_release. */
HAK_INLINE void lock_acquire(hak_lock_t *lock) {
  uint32_t expected = 0;
  if (HAK_UNLIKELY(!__atomic_compare_exchange_n(&lock->state.value, &expected, 1u, false, __ATOMIC_ACQUIRE,
                                                __ATOMIC_RELAXED)))
    hak_lock_wait(lock);
}
/* Release: pairs with the acquire in lock_acquire and hak_lock_wait. */
HAK_INLINE void lock_release(hak_lock_t *lock) {
  if (HAK_UNLIKELY(atomic32_exchange_release(&lock->state, 0) == 2)) hak_lock_wake(lock);
}

/*
 * A gate is a lock that fork(2) closes: the forking thread holds every gate
 * while the process is copied, so that no child inherits a half-done change.
 * Meanwhile that one thread passes freely: other libraries' fork handlers may
 * allocate between our handlers and the fork itself.
 */
typedef struct {
  hak_lock_t lock;
} hak_gate_t;

void gate_enter(hak_gate_t *gate);
void gate_leave(hak_gate_t *gate);
/* From now on the calling thread passes every gate, held or not: it is about to
 * abort, and a handler of SIGABRT may still want memory. */
void gates_pass_for_ever(void);
/* All gates, in locking order; open in parent and child alike. */
void gates_close(hak_gate_t *const gates[], size_t count);
void gates_open(hak_gate_t *const gates[], size_t count);

HAK_C_END
#endif
