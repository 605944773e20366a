/*
 * Owners and threads, as in src/slab/pool.c and src/front/thread.c: threads that
 * attach an owner, work, adopt from pooled owners and detach, or end without a
 * word, and one that forks meanwhile. Looked for: an owner that two threads use, or nobody can find; a
 * visit to an owner that is not pooled; and in the child, an owner that is taken
 * for whole although its thread was changing it.
 *
 * Changes of an owner's lists and bitmaps are a flag, torn, that is set while
 * they are half done. The child is looked at, not run: what its fork handler
 * makes of the memory as it was at the fork.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef LIVES
#define LIVES 2 /* of each thread: how often it ends and another starts */
#endif
#define OWNERS 3
#define THREADS 2 /* and the one that forks */

#define NEW 0
#define ATTACHED 1
#define POOLED 2
#define LOST 3

/* Index 0 is nil, as in the code. */
byte state[OWNERS + 1], next[OWNERS + 1];
bit busy[OWNERS + 1];
byte made, top, next_visit;

bit torn[OWNERS + 1];  /* its lists or bitmaps are half changed */
byte users[OWNERS + 1];
byte thread_of[OWNERS + 1];
bit gone[THREADS + 2]; /* the thread does not exist any more */
byte running = THREADS + 1;

/* ---- The gate: src/os/lock.c -----------------------------------------------------*/
bit locked;
byte forking; /* the thread that holds the gate for a fork; 0: none */
byte inside;

inline enter() {
  if
  :: forking == me
  :: forking != me -> atomic { !locked -> locked = 1 }
  fi;
  d_step { inside++; assert(inside == 1) }
}
inline leave() {
  inside--;
  if
  :: forking == me
  :: forking != me -> locked = 0
  fi
}

/* ---- The pool: src/slab/pool.c ------------------------------------------------------*/
inline change(o) {
  d_step { assert(!torn[o]); torn[o] = 1 };
  torn[o] = 0
}

inline push(o) {
  state[o] = POOLED;
  next[o] = top;
  top = o
}

/* Of a thread that has ended without a word. */
inline pool_the_forgotten() {
  visit = 1;
  do
  :: visit <= made ->
     if
#ifdef BUG_LIVING_ARE_FORGOTTEN
     :: state[visit] == ATTACHED && !busy[visit] ->
#elif defined(BUG_FORGOTTEN_WHILE_BUSY)
     :: state[visit] == ATTACHED && gone[thread_of[visit]] ->
#else
     :: state[visit] == ATTACHED && gone[thread_of[visit]] && !busy[visit] ->
#endif
        users[visit]--;
        push(visit)
     :: else
     fi;
     visit++
  :: else -> break
  od;
  visit = 0
}

inline attach() {
  enter();
  if
  :: top == 0 -> pool_the_forgotten()
  :: else
  fi;
  if
  :: top != 0 ->
     own = top;
     top = next[own];
#ifndef BUG_NEXT_VISIT_KEPT
     if
     :: next_visit == own -> next_visit = 0
     :: else
     fi;
#endif
     state[own] = ATTACHED; thread_of[own] = me
  :: else ->
     own = made + 1;
     made = own;
     state[own] = ATTACHED; thread_of[own] = me
  fi;
  leave();
  d_step { users[own]++; assert(users[own] == 1) }
}

/* thread_enter ... thread_leave around any work at the batch boundary */
inline work() {
#ifdef BUG_BUSY_TOO_LATE
  d_step { assert(!torn[own]); torn[own] = 1 };
  busy[own] = 1;
  torn[own] = 0;
#else
  busy[own] = 1;
  change(own);
#endif
  if
  :: adopt()
  :: skip
  fi;
  busy[own] = 0
}

/* adopt: one visit; then the slab that it found changes hands. */
inline adopt() {
  enter();
  visit = next_visit;
  if
  :: visit == 0 -> visit = top
  :: else
  fi;
  if
  :: visit != 0 ->
     assert(state[visit] == POOLED && users[visit] == 0);
     d_step { assert(!torn[visit] && !torn[own]); torn[visit] = 1; torn[own] = 1 };
     d_step { torn[visit] = 0; torn[own] = 0 };
     if
     :: visit = next[visit] /* nothing found */
     :: skip
     fi
  :: else
  fi;
  next_visit = visit;
  leave();
  visit = 0
}

inline detach() {
  busy[own] = 1;
#ifdef BUG_POOLED_BEFORE_FLUSH
  users[own]--;
  enter();
  busy[own] = 0;
  push(own);
  leave();
  change(own);
#else
  change(own); /* magazines flushed and dropped */
  enter();
  change(own); /* remote frees collected, empty slabs released */
  users[own]--;
  busy[own] = 0;
  push(own);
  leave();
#endif
  own = 0
}

proctype thread(byte me) {
  byte own, visit, lives = LIVES;
  do
  :: lives > 1 -> attach(); work(); detach(); lives--
  :: lives == 1 ->
     attach(); work(); lives--;
     if
     :: detach()
     :: own = 0 /* it ends without a word */
     :: busy[own] = 1; d_step { torn[own] = 1; own = 0 } /* in the middle of a change */
     fi
  :: lives == 0 -> break
  od;
  gone[me] = 1;
  running--
}

/* ---- The fork: src/api/life.c and pool_after_fork -----------------------------------*/
inline look_at_child() {
  d_step {
    /* The handler */
    o = 1;
    do
    :: o <= made ->
       if
       :: o != own && state[o] == ATTACHED ->
#ifndef BUG_FORK_TRUSTS_BUSY
          if
          :: busy[o] -> child_state[o] = LOST
          :: else -> child_state[o] = POOLED; child_next[o] = child_top; child_top = o
          fi
#else
          child_state[o] = POOLED; child_next[o] = child_top; child_top = o
#endif
       :: else -> child_state[o] = state[o]; child_next[o] = next[o]
       fi;
       o++
    :: else -> break
    od;
    /* What it promises: every owner is one of three, the pooled ones are whole
     * and in the stack once. */
    o = 1;
    do
    :: o <= made ->
       assert(child_state[o] == LOST || child_state[o] == POOLED || o == own);
       assert(child_state[o] == LOST || !torn[o]);
       if
       :: child_state[o] == POOLED -> count++
       :: else
       fi;
       o++
    :: else -> break
    od;
    o = child_top;
    do
    :: o != 0 && count > 0 -> assert(child_state[o] == POOLED); o = child_next[o]; count--
    :: else -> break
    od;
    assert(o == 0 && count == 0);
    assert(next_visit == 0 || child_state[next_visit] == POOLED);
    child_top = 0; o = 0; count = 0;
    child_state[1] = 0; child_state[2] = 0; child_state[3] = 0;
    child_next[1] = 0; child_next[2] = 0; child_next[3] = 0
  }
}

proctype forker(byte me) {
  byte own, visit, o, count, child_top;
  byte child_state[OWNERS + 1], child_next[OWNERS + 1];
  attach();
#ifndef BUG_FORK_LEAVES_GATE_OPEN
  atomic { !locked -> locked = 1 };
#endif
  forking = me;
  if
  :: work() /* another library's handler allocates */
  :: skip
  fi;
  d_step { child_top = top };
  look_at_child();
#ifndef BUG_FORKER_PASSES_FOR_EVER
  forking = 0;
#endif
#ifndef BUG_FORK_LEAVES_GATE_OPEN
  locked = 0;
#endif
  work();
  detach();
  running--
}

init {
  byte o, count;
  atomic { run thread(1); run thread(2); run forker(3) };
  running == 0;
  /* Nobody is left: every owner waits in the pool, once, or its thread has ended
   * without a word: while nobody has needed it, or in the middle of a change. */
  d_step {
    o = top;
    do
    :: o != 0 && count < made -> assert(state[o] == POOLED && users[o] == 0 && !torn[o] && !busy[o]); count++; o = next[o]
    :: else -> break
    od;
    assert(o == 0);
    o = 1;
    do
    :: o <= made ->
       if
       :: state[o] == ATTACHED -> assert(users[o] == 1 && torn[o] == busy[o]); count++
       :: else -> assert(state[o] == POOLED)
       fi;
       o++
    :: else -> break
    od;
    assert(count == made && made <= OWNERS)
  }
}
