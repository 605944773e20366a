/*
 * The depot: free blocks that pass from thread to thread, many at a time, and not by way of their slabs.
 *
 * Where one thread allocates what another frees, what the one's magazines are short of is what the other's have too
 * much of. A magazine that has got another thread's blocks and runs full puts some into the depot; one that runs empty
 * takes them out. No bitmap is touched on either side, no page is needed for one thread while another's lie free, and
 * whoever holds a block may hand it out, whoever's slab it is of. What nobody takes soon goes home (depot_send_home),
 * and so does what finds no room.
 *
 * For each class there are some crates, each with room for some blocks. A crate is one thread's for a moment, or
 * nobody's, and its state says which, and how many blocks lie there. Invariant: blocks lie in one crate at the most,
 * and who has made a crate BUSY is the only one to look into it. Its state changes by these steps alone, each atomic:
 *   put   P1  some, or none -> BUSY, by compare-and-swap   acquire: pairs with T2 and P2
 *         P2  BUSY -> more                                 release: pairs with T1 and P1; what was done with the
 *                                                          blocks comes before
 *   take  T1  some -> BUSY, by compare-and-swap            acquire: pairs with P2 and T2
 *         T2  BUSY -> what is left, or none                release: pairs with P1 and T1
 * Nobody waits: a crate that is BUSY is passed by. In a forked child one that another thread had in hand stays so, and
 * what is in it is out of use, as all that other threads had in hand; the forking thread itself may be in the middle of
 * a step, where a signal handler forks, and goes on with it.
 * tests/model/weak/src/protocols/depot.rs explores the protocol (docs/weak_memory.md).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DEPOT_H
#define HAK_DEPOT_H

#include "../base/inspected.h"
#include "size_class.h"

HAK_C_BEGIN

enum {
  DEPOT_CRATES = 128, /* of each class                                            */
  RACK_CRATES = 4,    /* so many of a class lie together, from when they are used */
  CRATE_BLOCKS = 31,  /* at the most                                              */
};
/* And so many bytes of blocks: of a class no more than 64 MiB lies there, whatever its magazines hold. */
#define CRATE_BYTES HAK_KIB(512)

/* The state is EMPTY, BUSY, or of a crate with blocks the milliseconds since when it has some, of which the
 * lower half is enough, << 32 | how many are in it. */
enum { CRATE_EMPTY = 0, CRATE_BUSY = CRATE_BLOCKS + 1 };
typedef struct {
  atomic64 state;
  void *blocks[CRATE_BLOCKS];
} __attribute__((aligned(HAK_CACHE_LINE))) crate_t;
static_assert(sizeof(crate_t) == 256, "four lines");
typedef struct {
  crate_t crates[RACK_CRATES];
} rack_t;

/* What travels are blocks of several to a slab. */
HAK_INLINE bool depot_serves(unsigned size_class) { return size_class < MID_CLASS_END; }

/* A bit for each class of which some blocks may be there. Relaxed: a hint, which a
 * class may lack whose blocks have just come. */
extern atomic64 depot_filled[(MID_CLASS_END + 63) / 64];
HAK_INLINE bool depot_may_have(unsigned size_class) {
  return size_class < MID_CLASS_END &&
         (atomic64_load_relaxed(&depot_filled[size_class / 64]) >> size_class % 64 & 1) != 0;
}

/* Whether a block that was freed can be one of the class still, by its word: its slab is some owner's. If not,
 * all of its blocks were free meanwhile, so this one was freed twice. */
HAK_INLINE bool depot_may_hold(uint32_t word, unsigned size_class) {
  return word_owner(word) != 0 && word_kind(word) == size_class;
}

/* Puts blocks of a class there that it serves, the first ones first. Returns how many there was room for. The gate of
 * metadata is entered where a rack is made. */
size_t depot_put(unsigned size_class, void *const *blocks, size_t count);
/* Takes up to `most` blocks out, of which the caller looks whether they may be there (depot_may_hold). Returns how many
 * there were. */
size_t depot_take(unsigned size_class, void **blocks, size_t most);

/* Sends all blocks to their slabs, by their remote bits: what is free there then may be collected. One that is free
 * already is noted as freed twice; error_settle is the caller's. */
void depot_send_home(void);
/* The same of what nobody has taken for a quarter of a second (profile_wait); of a bounded number and, when
 * there was no more, not before 50 ms have passed. Returns whether there was something. */
bool depot_tick(uint64_t now_ms);

/* How many blocks there are; a moment old, and not of one. */
size_t depot_count(unsigned size_class);
/* Aborts through HAK_CHECK unless what lies there are blocks of the class, in use as their slabs see them;
 * where mistakes do not end the program, there may be others. Nothing may be put or taken meanwhile. */
void depot_check(void);

extern const inspect_field_t depot_inspected[3];

HAK_C_END
#endif
