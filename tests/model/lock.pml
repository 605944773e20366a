/*
 * The lock of src/os/lock.h: a word that is 0 or its holder's number, with a bit that
 * says that somebody may sleep, and a futex. Several threads take it again and again;
 * spin finds a state in which two are inside, or one in which nobody can move (a lost
 * wake-up).
 *
 * The futex: wait compares and falls asleep in one step, wake takes one sleeper
 * or none, and a sleeper may wake without reason.
 *
 * Here every access takes effect at once and in order; tests/model/weak checks the
 * same lock where it does not.
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
#define WAITERS 8 /* somebody may sleep; the other bits are the holder's number */
#define ME (_pid + 1)

byte word = FREE;
byte inside;
bit asleep[THREADS];
byte spurious = 1; /* wake-ups without reason; more would hide one that is lost */

inline wait(expected) { /* os_futex_wait */
#ifdef BUG_WAIT_WITHOUT_LOOKING
  asleep[_pid] = 1;
#else
  atomic {
    if
    :: word == expected -> asleep[_pid] = 1
    :: else
    fi
  };
#endif
  if
  :: !asleep[_pid]
  :: atomic { asleep[_pid] && spurious > 0 -> spurious--; asleep[_pid] = 0 }
  fi
}

inline wake_one() { /* hak_lock_wake, at its least: any of the sleepers */
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

/* One turn of the loop in hak_lock_wait, without spinning; taken says whether the lock is ours. */
inline turn() {
  seen = word;
  if
  :: seen == FREE ->
     atomic {
       if
#ifdef BUG_WAITER_TAKES_IT_WITHOUT_THE_BIT
       :: word == FREE -> word = ME; taken = 1
#else
       :: word == FREE -> word = ME | WAITERS; taken = 1
#endif
       :: else
       fi
     }
  :: else ->
#ifndef BUG_NO_BIT
     if
     :: (seen & WAITERS) == 0 ->
#ifdef BUG_BIT_IN_TWO_STEPS
        word = seen | WAITERS;
        seen = seen | WAITERS
#else
        atomic {
          if
          :: word == seen -> word = seen | WAITERS; seen = word
          :: else -> seen = FREE /* it has changed: look again */
          fi
        }
#endif
     :: else
     fi;
#endif
     if
     :: seen != FREE -> wait(seen)
     :: else
     fi
  fi
}

inline acquire() {
  taken = 0;
  if
  :: atomic { word == FREE -> word = ME; taken = 1 } /* lock_acquire, and while hak_lock_wait spins */
  :: skip                                            /* it gives up spinning */
  fi;
  do
  :: taken -> break
  :: else -> turn()
  od
}

inline release() {
#ifdef BUG_RELEASE_IN_TWO_STEPS
  seen = word;
  word = FREE;
#else
  atomic { seen = word; word = FREE };
#endif
#ifdef BUG_WAKES_WITHOUT_THE_BIT_ONLY
  if
  :: (seen & WAITERS) == 0 -> wake_one()
  :: else
  fi
#else
  if
  :: (seen & WAITERS) != 0 -> wake_one()
  :: else
  fi
#endif
}

active [THREADS] proctype thread() {
  byte rounds = 0, seen;
  bit taken;
  do
  :: rounds < ROUNDS ->
     acquire();
     inside++;
     assert(inside == 1); /* mutual exclusion */
     assert((word & ~WAITERS) == ME);
     inside--;
     release();
     rounds++
  :: else -> break
  od
}
