/*
 * The rounds of src/front/rounds.h: several threads want one at once, and go for each other. spin finds a call that
 * returns without a round that began after it, two that go round at once though nobody's place was taken, or a state
 * in which nobody can move (a lost wake-up: here nobody wakes because time has passed).
 *
 * The futex: wait compares and falls asleep in one step, wake takes one sleeper or none, and a sleeper may wake without
 * reason. Who has waited too long takes the runner's place, at any moment, TAKES times in all.
 *
 * Every access takes effect at once and in order.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef TAKES
#define TAKES 0
#endif
#define ME (_pid + 1)

byte runner;
byte begun, ended;
bit asleep[THREADS];
byte inside;
byte spurious = 1; /* wake-ups without reason; more would hide one that is lost */
byte takes = TAKES;

inline wake_one() { /* os_futex_wake, at its least: any of the sleepers */
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

inline wait(expected) { /* os_futex_wait */
#ifdef BUG_WAIT_WITHOUT_LOOKING
  asleep[_pid] = 1;
#else
  atomic {
    if
    :: runner == expected -> asleep[_pid] = 1
    :: else
    fi
  };
#endif
  if
  :: !asleep[_pid]
  :: atomic { asleep[_pid] && spurious > 0 -> spurious--; asleep[_pid] = 0 }
  :: atomic { asleep[_pid] && takes > 0 -> asleep[_pid] = 0 } /* time has passed */
  fi
}

inline leave() {
  atomic {
    left = (runner == ME);
    if
    :: left -> runner = 0
    :: else
    fi
  };
#ifndef BUG_NOBODY_WOKEN
  if
  :: left -> wake_one()
  :: else
  fi
#endif
}

inline go_round() {
  atomic { begun++; its = begun };
  inside++;
  assert(TAKES > 0 || inside == 1);
  skip; /* heaps are looked at */
  inside--;
  atomic {
    if
    :: ended < its -> ended = its
    :: else
    fi
  };
  leave()
}

/* Rounds that had begun when the call did: what it wants to be seen was there then. */
#ifdef BUG_ROUND_UNDER_WAY_COUNTS
#define HAS_ENDED_SINCE (ended >= before && before > 0)
#else
#define HAS_ENDED_SINCE (ended > before)
#endif

active [THREADS] proctype thread() {
  byte calls, before, seen, last, its;
  bit left, done, taken;
  do
  :: calls == CALLS -> break
  :: else ->
     calls++;
     before = begun;
     last = 0;
     done = 0;
     do
     :: done -> break
     :: else ->
        seen = runner;
        if
        :: seen != last ->
#ifndef BUG_WOKEN_WAKES_NOBODY
           if
           :: last != 0 -> wake_one()
           :: else
           fi;
#endif
           last = seen
        :: else
        fi;
        if
        :: HAS_ENDED_SINCE -> done = 1
        :: else ->
           taken = 0;
           atomic {
             if
             :: seen == 0 && runner == 0 -> runner = ME; taken = 1
             :: seen != 0 && runner == seen && takes > 0 -> takes--; runner = ME; taken = 1
             :: seen == 0 && runner != 0
             :: seen != 0
             fi
           };
           if
           :: taken ->
              if
              :: HAS_ENDED_SINCE -> leave()
              :: else -> go_round()
              fi;
              done = 1
           :: !taken && seen != 0 -> wait(seen)
           :: else
           fi
        fi
     od;
     assert(ended > before) /* the invariant: such a round began after the call, and has ended */
  od
}
