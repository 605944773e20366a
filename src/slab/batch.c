/* See batch.h. SPDX-License-Identifier: MIT */
#include "batch.h"

#include "../base/probe.h"
#include "../support/error.h"
#include "adopt.h"
#include "depot.h"
#include "orphanage.h"
#include "pool.h"
#include "remote.h"
#include "single.h"
#include "slab.h"
#include "tidy.h"

#include <string.h>

enum {
  /* Slabs and parcels whose remote frees one refill collects: bounds the time of a malloc. */
  COLLECTS_PER_REFILL = 16,
  /* Blocks between two looks at how much a flush has made free, and bytes of slabs from which on they are wanted. */
  FLUSH_LOOK = 16,
  FLUSH_LOOK_FROM = 4 * 1024 * 1024,
  /* Slabs that one takes over where there is no memory, if pages of them may not come back. */
  ADOPTIONS_AT_THE_END = 64,
};

bool batch_collect(owner_t *owner) {
  if (!remote_has_pending(owner)) return true;
  remote_collect(owner, COLLECTS_PER_REFILL);
  return !remote_has_pending(owner);
}

/* ---- Refill ----------------------------------------------------------------------*/

/* Memory is short: perhaps it waits in what others have freed. */
static void regain(owner_t *owner) {
  depot_send_home();
  remote_collect(owner, SIZE_MAX);
  slab_release_empty(owner);
  tidy_sweep(NULL);
}

/* The owner has no slab of the class from which it may take a block: one that it gets, or 0. */
static unit_t get_slab(owner_t *owner, unsigned size_class) {
  slab_tell_arena(owner);
  unit_t slab = 0;
  if (adopt(owner, size_class) || slab_add(owner, size_class)) slab = slab_to_take(owner, size_class, true);
  if (HAK_LIKELY(slab != 0)) return slab;
  regain(owner);
  slab = slab_to_take(owner, size_class, true);
  if (slab == 0 && slab_add(owner, size_class)) slab = slab_to_take(owner, size_class, true);
  /* Of each that is taken over only itself is looked at, all others have been; and not of all that wait. */
  for (int i = 0; slab == 0 && i < ADOPTIONS_AT_THE_END; i++) {
    unit_t adopted = adopt_any(owner, size_class);
    if (adopted == 0) break;
    slab = slab_to_take_this(owner, adopted);
  }
  return slab;
}

static size_t refill_single(owner_t *owner, unsigned size_class, void **blocks, bool *is_zero) {
  blocks[0] = slab_make_single(owner, size_class, is_zero);
  if (blocks[0] == NULL) {
    regain(owner);
    blocks[0] = slab_make_single(owner, size_class, is_zero);
  }
  return blocks[0] != NULL ? 1 : 0;
}

size_t batch_refill(owner_t *owner, unsigned size_class, void **blocks, size_t wanted, bool *is_zero) {
  atomic64_add_alone(&owner->refills, 1);
  if (size_class_is_single(size_class)) {
    size_t taken = refill_single(owner, size_class, blocks, is_zero);
    HAK_PROBE(refill, owner->id, size_classes[size_class].block_bytes, taken);
    return taken;
  }
  if (is_zero != NULL) *is_zero = false;
  batch_collect(owner);
  size_t taken = 0;
  while (taken < wanted) {
    unit_t slab = slab_to_take(owner, size_class, true);
    /* Some will do: fresh memory is for those who have none. */
    if (slab == 0 && taken == 0) slab = get_slab(owner, size_class);
    if (slab == 0) break;
    taken += slab_take_blocks(owner, slab, size_class, blocks + wanted - taken, wanted - taken);
  }
  if (HAK_UNLIKELY(taken < wanted)) memmove(blocks, blocks + wanted - taken, taken * sizeof *blocks);
  HAK_PROBE(refill, owner->id, size_classes[size_class].block_bytes, taken);
  return taken;
}

size_t batch_borrow(owner_t *owner, unsigned size_class, void **blocks, size_t wanted) {
  size_t taken = orphanage_lend(owner, size_class, blocks, wanted);
  if (taken == 0) return 0;
  atomic64_add_alone(&owner->refills, 1);
  HAK_PROBE(refill, owner->id, size_classes[size_class].block_bytes, taken);
  return taken;
}

/* ---- By way of the depot -----------------------------------------------------------*/

/* Nobody looked at a block when it was put there, and it may have been freed twice. Where its slab has gone
 * since it would be handed out as what it is not: such ones are noted, and dropped. Returns how many are left. */
static size_t without_strays(unsigned size_class, void **blocks, size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    if (HAK_LIKELY(depot_may_hold(map_lookup(blocks[i]), size_class))) blocks[left++] = blocks[i];
    else error_note(ERROR_DOUBLE_FREE, blocks[i], size_classes[size_class].block_bytes, 0);
  }
  return left;
}

size_t batch_fetch(owner_t *owner, unsigned size_class, void **blocks, size_t wanted) {
  size_t taken = without_strays(size_class, blocks, depot_take(size_class, blocks, wanted));
  if (taken == 0) return 0;
  batch_collect(owner); /* who is served here comes to no batch_refill, for as long as it goes on */
  atomic64_add_alone(&owner->refills, 1);
  HAK_PROBE(refill, owner->id, size_classes[size_class].block_bytes, taken);
  return taken;
}

size_t batch_send(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  size_t sent = depot_put(size_class, blocks, count);
  if (sent == 0) return 0;
  atomic64_add_alone(&owner->flushes, 1);
  HAK_PROBE(flush, owner->id, size_classes[size_class].block_bytes, sent);
  return sent;
}

/* ---- Flush -----------------------------------------------------------------------*/

/* The word is claimed: a thread that frees the block a second time just now may
 * take it over (slab_take_over_single). One of the two gets it. */
static void flush_single(owner_t *owner, unsigned size_class, void *block, uint32_t word) {
  unit_t slab = (unit_t)map_unit_of(block);
  if (block != map_address(slab)) error_note(ERROR_INTERIOR_FREE, block, size_classes[size_class].block_bytes, 0);
  else if (!slab_free_single(owner, slab, word))
    error_note(ERROR_DOUBLE_FREE, block, size_classes[size_class].block_bytes, 0);
}

void batch_flush_single(owner_t *owner, unsigned size_class, void *block, uint32_t word) {
  atomic64_add_alone(&owner->flushes, 1);
  HAK_PROBE(flush, owner->id, size_classes[size_class].block_bytes, (size_t)1);
  flush_single(owner, size_class, block, word);
}

/* Blocks that were taken together mostly come back together: a row are those that follow each other in one word of a
 * slab's bitmap. One that is there twice ends it. */
typedef struct {
  unit_t slab;
  unsigned word;
  uint64_t bits;
  size_t count; /* 0: the first address is no block's, which is noted */
} block_row_t;

/* The row that `blocks` begin with. */
HAK_INLINE block_row_t row_of(unsigned size_class, void *const *blocks, size_t count) {
  const size_class_t *c = &size_classes[size_class];
  slab_place_t first;
  if (HAK_UNLIKELY(!slab_find_place(blocks[0], size_class, &first))) {
    error_note(ERROR_INTERIOR_FREE, blocks[0], c->block_bytes, 0);
    return (block_row_t){0};
  }
  block_row_t row = {.slab = first.slab, .word = first.bitmap_word, .bits = first.bit};
  const char *start = slab_block_address(row.slab, size_class, row.word * 64);
  for (row.count = 1; row.count < count; row.count++) {
    const char *next = blocks[row.count];
    if ((size_t)(next - start) >= (size_t)c->block_bytes * 64) break;
    unsigned number;
    if (!slab_block_number(next, row.slab, size_class, &number) || (row.bits >> number % 64 & 1) != 0) break;
    row.bits |= (uint64_t)1 << number % 64;
  }
  return row;
}

/* Returns how many blocks at the front were dealt with. */
HAK_INLINE size_t flush_row(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  block_row_t row = row_of(size_class, blocks, count);
  if (HAK_UNLIKELY(row.count == 0)) return 1;
  slab_put_bits(owner, row.slab, row.word, row.bits, row.count);
  return row.count;
}

/* Blocks of the magazine of which the first has a word that is not our own: of a slab that is another's,
 * or one that is gone, which only a second free can have brought. Returns how many at the front were dealt with. */
static size_t flush_strays(owner_t *owner, unsigned size_class, void *const *blocks, size_t count, uint32_t word) {
  if (word_owner(word) == 0 || word_owner(word) == owner->id || word_kind(word) != size_class ||
      size_class_is_single(size_class)) {
    error_note(ERROR_DOUBLE_FREE, blocks[0], size_classes[size_class].block_bytes, 0);
    return 1;
  }
  block_row_t row = row_of(size_class, blocks, count);
  if (HAK_UNLIKELY(row.count == 0)) return 1;
  /* A claimer waits for no gate, as a new outbox may have to. */
  if (owner->puts_aside) remote_free_row_directly(size_class, row.slab, row.word, row.bits);
  else remote_free_row(owner, size_class, row.slab, row.word, row.bits, row.count);
  return row.count;
}

/* Of slabs that threads share, as many of the first blocks as are: home in one visit. Where the gate is shut,
 * or the slab is another's by now, or gone, by its remote bits. Returns how many. */
static size_t flush_lent(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  size_t lent = 1;
  while (lent < count && orphanage_has_lent(owner, size_class, map_lookup(blocks[lent]))) lent++;
  owner_t *orphanage = orphanage_enter(owner);
  uint32_t its_word = word_make(orphanage != NULL ? orphanage->id : 0, size_class);
  for (size_t i = 0; i < lent;) {
    if (HAK_LIKELY(orphanage != NULL && map_lookup(blocks[i]) == its_word))
      i += flush_row(orphanage, size_class, blocks + i, lent - i);
    else remote_free_directly(blocks[i++], its_word);
  }
  if (orphanage != NULL) orphanage_leave(owner, orphanage);
  return lent;
}

/* Returns how many blocks at the front were dealt with, of which the first has that word. */
static HAK_NOINLINE size_t flush_others(owner_t *owner, unsigned size_class, void *const *blocks, size_t count,
                                        uint32_t word) {
  if (orphanage_has_lent(owner, size_class, word)) return flush_lent(owner, size_class, blocks, count);
  return flush_strays(owner, size_class, blocks, count, word);
}

static HAK_NOINLINE void flush_blocks(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  uint32_t own_word = word_make(owner->id, size_class);
  for (size_t i = 0; i < count;) {
    uint32_t word = map_lookup(blocks[i]);
    if (HAK_UNLIKELY(word != own_word)) i += flush_others(owner, size_class, blocks + i, count - i, word);
    else if (size_class_is_single(size_class)) flush_single(owner, size_class, blocks[i++], own_word);
    else i += flush_row(owner, size_class, blocks + i, count - i);
  }
}

void batch_flush(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  atomic64_add_alone(&owner->flushes, 1);
  HAK_PROBE(flush, owner->id, size_classes[size_class].block_bytes, count);
  flush_blocks(owner, size_class, blocks, count);
}

/* Each block may free a slab where most of them are nearly free; elsewhere few do. A look between costs a row of blocks
 * its length. */
static size_t between_looks(const owner_t *owner, size_t count) {
  bool may_be_many = owner->slab_bytes > (int64_t)FLUSH_LOOK_FROM && owner->free_bytes > owner->slab_bytes / 2;
  return may_be_many ? min_size(count, FLUSH_LOOK) : count;
}

size_t batch_flush_some(owner_t *owner, unsigned size_class, void *const *blocks, size_t count, uint32_t most_units) {
  uint32_t before = owner->released_units;
  size_t done = 0;
  atomic64_add_alone(&owner->flushes, 1);
  while (done < count && owner->released_units - before < most_units) {
    size_t some = between_looks(owner, count - done);
    flush_blocks(owner, size_class, blocks + done, some);
    done += some;
  }
  HAK_PROBE(flush, owner->id, size_classes[size_class].block_bytes, done);
  return done;
}

/* Not inline: what it needs in registers is in the way of who calls it for each magazine. */
HAK_NOINLINE bool batch_is_sound(const owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  const size_class_t *c = &size_classes[size_class];
  const size_t slab_bytes = size_class_slab_bytes(c);
  const char *start = NULL; /* of the slab in which the last block lies: mostly that of the next */
  const uint64_t *free_bits = NULL;
  uint64_t seen = 0; /* bits of blocks, whatever their slab and word: one that is not there is not there twice */
  HAK_ASSERT(!size_class_is_single(size_class));
  for (size_t i = 0; i < count; i++) {
    const char *block = blocks[i];
    if ((size_t)(block - start) >= slab_bytes) {
      if (map_lookup(block) != word_make(owner->id, size_class)) return false;
      unit_t slab = slab_first_unit((unit_t)map_unit_of(block), size_class);
      start = map_address(slab);
      free_bits = the_map.free_bits[slab];
    }
    unsigned number;
    if (!size_class_starts_block(c, (size_t)(block - start), &number)) return false;
    uint64_t bit = (uint64_t)1 << number % 64;
    if ((free_bits[number / 64] & bit) != 0) return false;
    for (size_t k = 0; (seen & bit) != 0 && k < i; k++)
      if (blocks[k] == block) return false;
    seen |= bit;
  }
  return true;
}
