/*
 * The rings of samples in src/front/record.c, and who drains them from outside
 * (tools/hak/src/profile/ring.rs): threads that take numbers, stacks and events, and write
 * them to their places, and a reader that reads what is complete, says how far it has
 * read, and gives up a place whose writer takes too long. Looked for: two who write the same place, an
 * event or a stack that the reader takes for whole and is not, or not the one that it
 * should be, an event that is lost although nobody was given up, and stacks that keep their
 * places for ever.
 *
 * What is written are two words, so that half of it can be seen. Nobody waits for
 * anybody: a state in which nobody can move is an error, too.
 *
 * Here every access takes effect at once and in order. The reader's are system calls, of which each copies
 * word by word, upwards.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* samples of each */
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef STACKS
#define STACKS 1
#endif
#ifndef GIVEN_UP
#define GIVEN_UP 0 /* how often the reader's patience ends, at most */
#endif
#define BUSY 255
#define NONE 255

byte count, drained, stack_count, stacks_drained, stacks_begun;

/* A place: its number, and what is written there. */
byte number[PLACES], first[PLACES], second[PLACES], stack_of[PLACES];
byte stack_number[STACKS], stack_first[STACKS], stack_second[STACKS];
byte writing[PLACES], stack_writing[STACKS];

byte given_up; /* places of events */
byte told, heard, lost;
byte ended;

/* number_take: mine is NONE where there is no room. */
inline take_number(counter, read, places) {
  mine = counter;
  do
  :: true ->
#ifndef BUG_NUMBER_WITHOUT_LOOKING
     if
     :: mine - read >= places -> mine = NONE; break
     :: else
     fi;
#endif
#ifdef BUG_NUMBER_IN_TWO_STEPS
     counter = mine + 1;
     break
#else
     atomic {
       if
       :: counter == mine -> counter = mine + 1; break
       :: else -> mine = counter
       fi
     }
#endif
  od
}

/* place_take: mine is NONE where the place is another's. */
inline take_place(its_number) {
#ifdef BUG_PLACE_NOT_ASKED
  its_number = BUSY;
#else
  was = its_number;
#ifdef BUG_PLACE_IN_TWO_STEPS
  if
  :: was <= mine -> its_number = BUSY
  :: else -> mine = NONE
  fi;
#else
  if
  :: was > mine -> mine = NONE
  :: else ->
     atomic {
       if
       :: its_number == was -> its_number = BUSY
       :: else -> mine = NONE
       fi
     }
  fi;
#endif
#endif
  was = 0
}

/* stack_number_take: where all have been read, the first place is next again. */
inline take_stack_number() {
  was = stack_count;
  do
  :: true ->
     mine = stacks_drained;
     is_first = was == mine;
     if
     :: mine < stacks_begun -> mine = stacks_begun
     :: else
     fi;
     if
     :: was - mine >= STACKS -> mine = NONE; is_first = 0; break
     :: else
     fi;
     mine = (is_first -> (was + STACKS - 1) / STACKS * STACKS : was);
     atomic {
       if
       :: stack_count == was -> stack_count = mine + 1; break
       :: else -> was = stack_count
       fi
     }
  od;
  if
  :: is_first -> stacks_begun = mine; is_first = 0
  :: else
  fi;
  was = 0
}

/* take_stack: what is written is who took it, and which of its rounds it is. */
inline take_stack() {
  stack = 0;
  take_stack_number();
  if
  :: mine != NONE ->
     place = mine % STACKS;
     take_place(stack_number[place]);
     if
     :: mine != NONE ->
        d_step { stack_writing[place]++; assert(stack_writing[place] == 1) };
        stack_first[place] = token;
        stack_second[place] = token;
        d_step { stack_writing[place]--; stack_number[place] = mine + 1; stack = mine + 1 }
     :: else
     fi
  :: else
  fi
}

/* add_event */
inline add_event() {
  take_number(count, drained, PLACES);
  if
  :: mine != NONE ->
     place = mine % PLACES;
     take_place(number[place]);
     if
     :: mine != NONE ->
        d_step { writing[place]++; assert(writing[place] == 1) };
#ifdef BUG_COMPLETE_TOO_EARLY
        number[place] = mine + 1;
#endif
        first[place] = token;
        stack_of[place] = stack;
        second[place] = token;
        d_step { writing[place]--; number[place] = mine + 1; told++ }
     :: else -> assert(given_up > 0) /* else the number is the place */
     fi
  :: else
  fi
}

proctype writer(byte me) {
  byte round, mine, was, place, stack, token;
  bit is_first;
  do
  :: round < ROUNDS ->
     token = me * ROUNDS + round + 1;
     take_stack();
     add_event();
     d_step { mine = 0; place = 0; stack = 0; token = 0 };
     round++
  :: else -> break
  od;
  ended++
}

/* Ring::stack: whole, and of the event, or none. */
inline read_stack() {
  place = (seen_stack - 1) % STACKS;
  is_whole = stack_number[place] == seen_stack;
  one = stack_first[place];
  other = stack_second[place];
#ifndef BUG_STACK_NUMBER_READ_ONCE
  is_whole = is_whole && stack_number[place] == seen_stack;
#endif
  assert(!is_whole || (one == token && other == token));
  d_step { one = 0; other = 0; is_whole = 0 }
}

/* Ring::take of the place of `next`. What is read is complete, or it is looked at again in the next round. */
inline read_place() {
  place = next % PLACES;
  seen = number[place];
#ifdef BUG_DRAINED_TOO_EARLY
  drained = next + 1;
#endif
  if
  :: seen == next + 1 ->
     token = first[place];
     seen_stack = stack_of[place];
     other = second[place];
     assert(token != 0 && token == other);
     assert(!(was_heard & (1 << token)));
     d_step { was_heard = was_heard | (1 << token); other = 0; heard++ };
     if
     :: seen_stack != 0 ->
        if
        :: next_stack < seen_stack -> next_stack = seen_stack
        :: else
        fi;
        read_stack()
     :: else
     fi;
     d_step { next++; token = 0; seen_stack = 0 }
  :: seen > next + 1 && seen != BUSY -> d_step { lost++; next++; assert(given_up > 0) }
  :: else ->
     if
     :: given_up < GIVEN_UP -> d_step { given_up++; lost++; next++ }
     :: is_waiting = 1
     fi
  fi;
  d_step { seen = 0; place = 0 }
}

/* Ring::drain */
inline drain() {
  stacks = stack_count;
  end = count;
  is_waiting = 0;
  do
  :: next < end && !is_waiting -> read_place()
  :: else -> break
  od;
#ifndef BUG_STACKS_ARE_KEPT
  if
  :: next == end && next_stack < stacks_before -> next_stack = stacks_before
  :: else
  fi;
#endif
  stacks_drained = next_stack;
  drained = next;
  d_step { is_waiting = 0; end = 0; stacks_before = stacks; stacks = 0 }
}

proctype reader() {
  byte next, next_stack, end, stacks, stacks_before, place, seen, seen_stack, token, one, other;
  int was_heard;
  bit is_waiting, is_whole;
  do
  :: ended < WRITERS -> drain()
  :: ended == WRITERS -> break
  od;
  /* Nobody writes any more. What was told is heard; what was given up has no place to be looked for. */
  if
  :: given_up == 0 -> drain(); drain(); assert(next == count && lost == 0 && heard == told)
  :: else
  fi;
  assert(heard <= told);
  assert(given_up > 0 || stacks_drained == stack_count)
}

init {
  byte i;
  atomic {
    run reader();
    do
    :: i < WRITERS -> run writer(i); i++
    :: else -> break
    od
  }
}
