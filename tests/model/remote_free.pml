/*
 * The protocol of src/slab/remote.h, explored exhaustively: freers, the owning
 * thread, a thread that ends and whose slabs are taken over, slabs that go back
 * to the arena and are made again by somebody else.
 *
 * What is as in the code: every access to announced, pending_next, a pending
 * stack, a page-map word and the remote bits is one step, in the code's order.
 * What is simpler: two units; a slab is one unit and has two blocks, each in a
 * bitmap word of its own; what only the owning thread touches (its free bits,
 * its lists) changes in one step with the access that leads to it.
 *
 * A lost block shows at the end, when everybody has collected: it is in no
 * bitmap. A block put into a slab that is another's, or nobody's, shows at once.
 *
 * BUG_... plants a mistake, one at a time, that spin has to find: see run.py.
 *
 * SPDX-License-Identifier: MIT
 */

#ifndef HANDS
#define HANDS 2 /* blocks that may be handed out beyond those out at the start */
#endif
#ifndef UNITS
#define UNITS 1
#endif
#define ALL 3 /* the blocks of a slab, a bit each */

/* Index 0 is nil, as in the code. */
byte word[UNITS + 1];         /* the unit's owner; 0: it starts no slab */
bit announced[UNITS + 1];
byte pending_next[UNITS + 1];
byte head[3], taken[3];       /* of owners 1 and 2 */
byte remote[UNITS + 1];       /* the remote bitmap */
byte free[UNITS + 1];         /* the free bitmap */

/* What the program holds. A block between the two steps of its free is in none. */
byte out[UNITS + 1];
bit stacked[UNITS + 1];       /* on a stack, or taken from one and not yet looked at */
byte hands = HANDS;
bit gate;                     /* of the pool */
bit pooled;                   /* owner 1 */
byte freers = 2, threads = 2;

/* ---- announce() in remote.c ----------------------------------------------------*/
inline push(u, o) {
  h = head[o];
  do
  :: pending_next[u] = h;
     atomic {
       if
       :: head[o] == h -> assert(!stacked[u]); stacked[u] = 1; head[o] = u; break
       :: else -> h = head[o]
       fi
     }
  od
}

inline announce(u) {
  do
#ifdef BUG_CHECK_THEN_SET
  :: if
     :: announced[u] -> break
     :: else
     fi;
     announced[u] = 1;
#else
  :: skip;
#ifdef EARLY_LOOK /* relaxed: a weakly ordered machine may read it here. Still right */
     w = word[u];
#endif
     atomic { /* R2 */
       if
       :: announced[u] -> break
       :: else -> announced[u] = 1
       fi
     };
#endif
#ifndef EARLY_LOOK
     w = word[u];
#endif
     if
     :: w != 0 -> push(u, w); break
     :: else
     fi;
#ifdef BUG_LOOK_BEFORE_WITHDRAWAL
     w = word[u];
     announced[u] = 0;
#else
     announced[u] = 0;
     w = word[u];
#endif
#ifdef BUG_NO_LOOK_AFTER_WITHDRAWAL
     break
#endif
     if
     :: w == 0 -> break
     :: else
     fi
  od;
  atomic { w = 0; h = 0 }
}

/* ---- A thread that frees, of an owner without slabs -------------------------------*/
inline free_remotely(u, b) {
  assert(word[u] != 0); /* a live block keeps its slab */
#ifdef BUG_PLAIN_OR
  h = remote[u];
  remote[u] = h | b; /* W1 */
#else
  d_step {
    assert((remote[u] & b) == 0 && (free[u] & b) == 0);
    remote[u] = remote[u] | b /* W1 */
  };
#endif
  announce(u)
}

/* Takes some block that is out, into u and b; the guard of an atomic sequence. */
inline pick(u, b) {
  if
  :: out[1] & 1 -> u = 1; b = 1
  :: out[1] & 2 -> u = 1; b = 2
#if UNITS > 1
  :: out[2] & 1 -> u = 2; b = 1
  :: out[2] & 2 -> u = 2; b = 2
#endif
  fi;
  out[u] = out[u] & ~b
}

proctype freer() {
  byte u, b, w, h;
  do
  :: atomic { pick(u, b) };
     free_remotely(u, b);
     d_step { u = 0; b = 0 }
  :: break
  od;
  freers--
}

/* ---- The owning thread -------------------------------------------------------------*/

/* slab_put_bits: the slab may be empty then, and given back. */
inline put(o, u, b) {
  atomic {
    assert(word[u] == o);
    assert((free[u] & b) == 0);
    free[u] = free[u] | b;
    if
    :: free[u] == ALL -> give_back(u)
    :: skip
    fi
  }
}

inline give_back(u) {
  d_step { assert(remote[u] == 0); word[u] = 0; free[u] = 0 }
}

inline fetch(o, u, b) {
#ifdef BUG_PLAIN_FETCH
  w = remote[u] & b;
  if
  :: w -> remote[u] = 0; put(o, u, w)
  :: else
  fi
#else
  atomic {
    w = remote[u] & b;
    remote[u] = remote[u] & ~b; /* R2 */
    if
    :: w -> put(o, u, w)
    :: else
    fi
  }
#endif
}

/* remote_collect for one slab; the caller is owner o's owning thread. */
inline collect(o) {
  if
  :: taken[o] == 0 -> d_step { taken[o] = head[o]; head[o] = 0 }
  :: else
  fi;
  s = taken[o];
  if
  :: s == 0
  :: else ->
#ifdef BUG_NEXT_AFTER_CLEAR
     d_step { stacked[s] = 0; announced[s] = 0 };
     taken[o] = pending_next[s];
     w = word[s];
#elif defined(BUG_LOOK_BEFORE_CLEAR)
     taken[o] = pending_next[s];
     w = word[s];
     d_step { stacked[s] = 0; announced[s] = 0 };
#elif defined(BUG_CLEAR_AFTER_FETCH)
     d_step { taken[o] = pending_next[s]; stacked[s] = 0 };
     w = word[s];
#else
     taken[o] = pending_next[s];
     d_step { stacked[s] = 0; announced[s] = 0 }; /* R1 */
     w = word[s];
#endif
     if
     :: w == 0
#ifdef BUG_OWNER_NOT_READ
     :: w != 0 ->
#else
     :: w == o ->
#endif
        fetch(o, s, 1);
#ifdef BUG_STAYS_WHEN_GONE
        fetch(o, s, 2)
#else
        if
        :: word[s] == o -> fetch(o, s, 2)
        :: else
        fi
#endif
#ifndef BUG_OWNER_NOT_READ
     :: w != 0 && w != o ->
#ifndef BUG_ANOTHERS_DROPPED
        announce(s)
#else
        skip
#endif
#endif
     fi;
#ifdef BUG_CLEAR_AFTER_FETCH
     announced[s] = 0
#endif
  fi;
  atomic { w = 0; s = 0 }
}

#define HAS_PENDING(o) (taken[o] != 0 || head[o] != 0)

inline work(o) {
  if
  :: HAS_PENDING(o) -> collect(o)
  /* malloc, from a slab in use or from a new one */
  :: d_step { hands > 0 && word[1] == o && free[1] & 1 -> hands--; free[1] = free[1] & ~1; out[1] = out[1] | 1 }
  :: d_step { hands > 0 && word[1] == o && free[1] & 2 -> hands--; free[1] = free[1] & ~2; out[1] = out[1] | 2 }
#if UNITS > 1
  :: d_step { hands > 0 && word[2] == o && free[2] & 1 -> hands--; free[2] = free[2] & ~1; out[2] = out[2] | 1 }
  :: d_step { hands > 0 && word[2] == o && free[2] & 2 -> hands--; free[2] = free[2] & ~2; out[2] = out[2] | 2 }
#endif
  :: d_step { hands > 0 && word[1] == 0 -> word[1] = o; free[1] = ALL }
#if UNITS > 1
  :: d_step { hands > 0 && word[2] == 0 -> word[2] = o; free[2] = ALL }
#endif
  /* free, of an own block */
  :: atomic { word[1] == o && out[1] & 1 -> out[1] = out[1] & ~1; put(o, 1, 1) }
  :: atomic { word[1] == o && out[1] & 2 -> out[1] = out[1] & ~2; put(o, 1, 2) }
#if UNITS > 1
  :: atomic { word[2] == o && out[2] & 1 -> out[2] = out[2] & ~1; put(o, 2, 1) }
  :: atomic { word[2] == o && out[2] & 2 -> out[2] = out[2] & ~2; put(o, 2, 2) }
#endif
  :: atomic { word[1] == o && free[1] == ALL -> give_back(1) }
#if UNITS > 1
  :: atomic { word[2] == o && free[2] == ALL -> give_back(2) }
#endif
  fi
}

/* The thread that ends: its owner is pooled. */
proctype ending() {
  byte s, w, h;
  do
  :: work(1)
  :: break
  od;
  atomic { gate == 0 -> gate = 1 };
  do
  :: HAS_PENDING(1) -> collect(1)
  :: else -> break
  od;
  pooled = 1;
  gate = 0;
  threads--
}

/* adopt: of any slab of the pooled owner with a free block. */
inline hand_over() {
  if
  :: word[1] == 1 && free[1] -> word[1] = 2
#if UNITS > 1
  :: word[2] == 1 && free[2] -> word[2] = 2
#endif
  :: else
  fi
}

proctype staying() {
  byte s, w, h;
  do
  :: work(2)
  :: atomic { pooled && gate == 0 -> gate = 1 };
     if
     :: HAS_PENDING(1) -> collect(1)
     :: skip
     fi;
     hand_over();
     gate = 0
  :: freers == 0 -> break
  od;
  threads--
}

/* Everybody collects until nothing waits; what is passed on needs a second turn. */
init {
  byte s, w, h;
  atomic {
    word[1] = 1; out[1] = 1; free[1] = 2;
#if UNITS > 1
    word[2] = 1; out[2] = 3;
#endif
    run freer(); run freer(); run ending(); run staying()
  };
  freers == 0 && threads == 0;
  atomic {
    do
    :: HAS_PENDING(1) -> collect(1)
    :: HAS_PENDING(2) -> collect(2)
    :: else -> break
    od;
    for (s : 1 .. UNITS) {
      assert(remote[s] == 0); /* else a freed block is lost */
      assert(!announced[s]);  /* else all later ones will be */
      assert(word[s] == 0 || (free[s] | out[s]) == ALL);
      assert((free[s] & out[s]) == 0)
    }
  }
}
