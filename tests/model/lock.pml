/*
 * The lock of src/os/lock.h: three states and a futex. Several threads take it
 * again and again; spin finds a state in which two are inside, or one in which
 * nobody can move (a lost wake-up).
 *
 * The futex: wait compares and falls asleep in one step, wake takes one sleeper
 * or none, and a sleeper may wake without reason.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define FREE 0
#define HELD 1
#define CONTENDED 2 /* held, and somebody may sleep */

byte state = FREE;
byte inside;
bit asleep[THREADS];
byte spurious = 1; /* wake-ups without reason; more would hide one that is lost */

inline wait(expected) { /* os_futex_wait */
#ifdef BUG_WAIT_WITHOUT_LOOKING
  asleep[_pid] = 1;
#else
  atomic {
    if
    :: state == expected -> asleep[_pid] = 1
    :: else
    fi
  };
#endif
  if
  :: !asleep[_pid]
  :: atomic { asleep[_pid] && spurious > 0 -> spurious--; asleep[_pid] = 0 }
  fi
}

inline wake_one() { /* os_futex_wake_one: any of the sleepers */
  atomic {
    if
    :: asleep[0] -> asleep[0] = 0
    :: asleep[1] -> asleep[1] = 0
#if THREADS > 2
    :: asleep[2] -> asleep[2] = 0
#endif
    :: else
    fi
  }
}

inline acquire() {
  if
  :: atomic { state == FREE -> state = HELD } /* lock_acquire, and while hak_lock_wait spins */
  :: skip ->                                  /* it gives up spinning */
     do
     :: atomic {
#ifdef BUG_WAITER_TAKES_IT_AS_HELD
          seen = state;
          if
          :: state == FREE -> state = HELD; break
          :: else -> state = CONTENDED
          fi
#else
          seen = state; state = CONTENDED; /* exchange */
          if
          :: seen == FREE -> break
          :: else
          fi
#endif
        };
        wait(CONTENDED)
     od
  fi
}

inline release() {
#ifdef BUG_RELEASE_IN_TWO_STEPS
  seen = state;
  state = FREE;
#else
  atomic { seen = state; state = FREE };
#endif
#ifdef BUG_WAKES_WHEN_HELD_ONLY
  if
  :: seen == HELD -> wake_one()
  :: else
  fi
#else
  if
  :: seen == CONTENDED -> wake_one()
  :: else
  fi
#endif
}

active [THREADS] proctype thread() {
  byte rounds = 0, seen;
  do
  :: rounds < ROUNDS ->
     acquire();
     inside++;
     assert(inside == 1); /* mutual exclusion */
     inside--;
     release();
     rounds++
  :: else -> break
  od
}
