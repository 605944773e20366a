/* See slab.h. SPDX-License-Identifier: MIT */
#include "slab.h"

#include "../arena/arena.h"
#include "../arena/dense.h"
#include "../base/probe.h"
#include "../support/error.h"
#include "bits.h"
#include "purged.h"
#include "slab_list.h"

static uint32_t units_of(unit_t slab) { return map_record(slab)->run_units; }
static int64_t bytes_of(unit_t slab) {
  const unit_record_t *r = map_record(slab);
  return (int64_t)r->slab.capacity * size_classes[r->slab.size_class].block_bytes;
}

/* ---- From the arena and back -----------------------------------------------------*/

void slab_tell_arena(owner_t *owner) {
  int64_t change = owner->free_bytes - owner->free_bytes_told;
  if (change == 0) return;
  dense_note_free_in_slabs(change);
  owner->free_bytes_told = owner->free_bytes;
}

/* When most of its blocks are free. */
static uint16_t first_look_at(unsigned capacity) { return (uint16_t)(capacity - capacity / 8 * 3); }

static HAK_NOINLINE unit_t take_run(size_t units, size_t align_units, bool *is_zero) {
  unit_t run = HAK_UNLIKELY(arena_is_shut()) ? arena_take_cut(units, align_units) : 0;
  if (HAK_LIKELY(run == 0)) return arena_take(ZONE_SMALL, units, align_units, is_zero);
  *is_zero = false;
  return run;
}

unit_t slab_make(owner_t *owner, unsigned size_class, bool *is_zero) {
  const size_class_t *c = &size_classes[size_class];
  bool single = size_class_is_single(size_class);
  bool is_clean = false;
  unit_t slab = take_run(c->slab_units, single ? 1 : c->slab_units, &is_clean);
  if (is_zero != NULL) *is_zero = is_clean;
  if (slab == 0) return 0;
  if (size_class_is_wide(size_class)) dense_note_wide(c->slab_units);
  if (!single) dense_note_unfilled(c->slab_units); /* until note_full, or slab_unmake */
  unit_record_t *r = map_record(slab);
  r->slab.capacity = c->capacity;
  r->slab.free_count = single ? 0 : c->capacity;
  r->slab.first_word = 0;
  r->slab.size_class = (uint8_t)size_class;
  r->slab.listed = false;
  r->slab.was_full = false;
  r->slab.idle_looks = 0;
  r->slab.look_at = first_look_at(c->capacity);
  r->slab.has_pieces = false;
  r->slab.was_clean = is_clean;
  bits_fill(slab, c, r->slab.free_count);
  uint32_t word = word_make(owner->id, size_class);
  map_write_words(slab, 1, c->slab_units, single ? word_make(0, KIND_INNER) : word);
  /* Last: a thread may free an earlier block of this place a second time, and takes a
   * single one over as soon as it sees the word; its compare-and-swap pairs with this.
   * A thread that has just withdrawn the unit's announcement (remote.c) must see the
   * slab when it looks again: partner of the loads in announce and remote_collect. */
  atomic32_store_seq(map_word(slab), word);
  HAK_PROBE(slab_take, map_address(slab), size_class_slab_bytes(c), c->block_bytes);
  return slab;
}

void slab_report_twice(unit_t slab, unsigned size_class, unsigned word, uint64_t bits) {
  for (; bits != 0; bits &= bits - 1)
    error_note(ERROR_DOUBLE_FREE, slab_block_address(slab, size_class, word * 64 + (unsigned)__builtin_ctzll(bits)),
               size_classes[size_class].block_bytes, 0);
}

/* Bits that are still there when every block is free are of blocks that were freed
 * twice, here and by another thread; they must not outlive the slab. The word says
 * already that the slab is gone, and the load is sequentially consistent, as that store
 * is: who sets a bit that we miss sees the word, and takes it back (remote.c). */
static void clear_remote_bits(unit_t slab, unsigned size_class) {
  for (unsigned w = 0; w < size_class_bitmap_words(size_class); w++) {
    if (HAK_LIKELY(atomic64_load_seq(&the_map.remote_bits[slab][w]) == 0)) continue;
    slab_report_twice(slab, size_class, w, atomic64_exchange_relaxed(&the_map.remote_bits[slab][w], 0));
  }
}

void slab_unmake(unit_t slab, unsigned size_class) {
  size_t units = size_classes[size_class].slab_units;
  HAK_PROBE(slab_give, map_address(slab), units << UNIT_SHIFT, size_classes[size_class].block_bytes);
  atomic32_store_relaxed(map_word(slab), 0);
  map_write_words(slab, 1, units, 0);
  if (size_class_is_wide(size_class)) dense_note_wide(-(int64_t)units);
  if (!size_class_is_single(size_class)) {
    if (!map_record(slab)->slab.was_full) dense_note_unfilled(-(int64_t)units);
    atomic32_store_seq(map_word(slab), 0);
    clear_remote_bits(slab, size_class);
  }
}

static void give_to_arena(unit_t slab, size_t gone_bytes) {
  if (HAK_UNLIKELY(gone_bytes != 0)) arena_give_clean(slab, units_of(slab), gone_bytes);
  else arena_give(slab, units_of(slab));
}

void slab_give(owner_t *owner, unit_t slab, size_t gone_bytes) {
  if (HAK_UNLIKELY(owner != NULL && owner->puts_aside)) {
    map_record(slab)->returned.gone_bytes = (uint32_t)gone_bytes;
    map_record(slab)->returned.next = owner->put_aside;
    owner->put_aside = slab;
  } else {
    give_to_arena(slab, gone_bytes);
  }
}

/* ---- Empty slabs -----------------------------------------------------------------
 * One of a class stays in any case, the last of its list, so that a lone block that comes and goes does not take
 * and give a slab each time. Where blocks come and go by the slab, as mid blocks from other threads do, more of them
 * are worth keeping: as many as were given to the arena and then made again.                          */
enum { EMPTY_UNITS_MOST = 16 };

static void note_given(owner_t *owner, uint32_t units) {
  owner->given_units = (uint32_t)min_size(owner->given_units + units, EMPTY_UNITS_MOST);
}
static void note_made(owner_t *owner, uint32_t units) {
  if (owner->given_units < units) return;
  owner->given_units -= units;
  owner->empty_most = (uint32_t)min_size(owner->empty_most + units, EMPTY_UNITS_MOST);
}
void slab_age_empty(owner_t *owner) {
  owner->empty_most /= 2;
  owner->given_units = 0;
}

unit_t slab_add(owner_t *owner, unsigned size_class) {
  unit_t slab = slab_make(owner, size_class, NULL);
  if (slab == 0) return 0;
  slab_enlist(owner, slab);
  note_made(owner, units_of(slab));
  owner->empty_units += units_of(slab);
  int64_t bytes = slab_free_bytes(slab);
  owner->slab_bytes += bytes;
  owner->free_bytes += bytes;
  return slab;
}

void slab_release(owner_t *owner, unit_t slab) {
  unsigned size_class = slab_record(owner, slab)->slab.size_class;
  slab_unlist(owner, slab);
  owner->empty_units -= units_of(slab);
  owner->released_units += units_of(slab);
  size_t gone_bytes = map_record(slab)->slab.purged_pages != 0 ? purged_note_released(owner, slab) : 0;
  int64_t bytes = slab_free_bytes(slab);
  owner->slab_bytes -= bytes;
  owner->free_bytes -= bytes;
  slab_unmake(slab, size_class);
  slab_give(owner, slab, gone_bytes);
}

void slab_give_aside(unit_t first) {
  for (unit_t slab = first, next; slab != 0; slab = next) {
    next = map_record(slab)->returned.next;
    give_to_arena(slab, map_record(slab)->returned.gone_bytes);
  }
}

void slab_release_empty(owner_t *owner) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    while (owner->slabs[c] != 0) {
      unit_t last = map_record(owner->slabs[c])->slab.previous;
      if (!slab_is_empty(last)) break;
      slab_release(owner, last);
    }
  }
  owner->empty_most = owner->given_units = 0;
  slab_tell_arena(owner);
}

/* ---- Blocks out and in ------------------------------------------------------------*/

/* For the first time. */
static HAK_COLD void note_full(unit_t slab) {
  map_record(slab)->slab.was_full = true;
  dense_note_unfilled(-(int64_t)units_of(slab));
}

static bool may_be_taken(owner_t *owner, unit_t slab, bool makes_room) {
  unit_record_t *r = map_record(slab);
  if (r->slab.purged_pages == 0) return true;
  if (!purged_may_be_taken(owner, slab, makes_room)) return false;
  r->slab.look_at = first_look_at(r->slab.capacity);
  return true;
}

/* The first one's pages have gone back in part. */
HAK_COLD unit_t slab_to_take_of(owner_t *owner, unit_t first, bool makes_room) {
  enum { LOOKS_MOST = 64 }; /* behind the pool's gate; the next ones are the first to be looked at the next time */
  unit_t slab = first;
  for (unsigned looks = 0; slab != 0; looks++) {
    if (!makes_room && looks >= LOOKS_MOST && !slab_is_empty(slab)) {
      slab_begin_with(owner, slab);
      return 0;
    }
    if (may_be_taken(owner, slab, makes_room && slab == first)) break;
    slab = map_record(slab)->slab.next;
  }
  if (slab != 0) slab_begin_with(owner, slab);
  return slab;
}

HAK_COLD unit_t slab_to_take_this(owner_t *owner, unit_t slab) {
  if (!may_be_taken(owner, slab, true)) return 0;
  slab_begin_with(owner, slab);
  return slab;
}

size_t slab_take_blocks(owner_t *owner, unit_t slab, unsigned size_class, void **end, size_t wanted) {
  unit_record_t *r = slab_record(owner, slab);
  HAK_ASSERT(r->slab.purged_pages == 0);
  const size_class_t *c = &size_classes[size_class];
  size_t count = min_size(wanted, r->slab.free_count);
  if (slab_is_empty(slab)) owner->empty_units -= units_of(slab);
  r->slab.first_word = (uint16_t)bits_take(slab, c, r->slab.first_word, end, count);
  r->slab.idle_looks = 0;
  r->slab.free_count = (uint16_t)(r->slab.free_count - count);
  owner->free_bytes -= (int64_t)(count * c->block_bytes);
  if (r->slab.free_count == 0) {
    slab_unlist(owner, slab);
    if (HAK_UNLIKELY(!r->slab.was_full)) note_full(slab);
  }
  return count;
}

/* For surplus.h. */
static HAK_NOINLINE void note_mostly_free(owner_t *owner, unit_t slab) {
  map_record(slab)->slab.look_at = LOOK_IS_DUE;
  if (owner->has_surplus && owner->mostly_free_count < MOSTLY_FREE_MOST)
    owner->mostly_free[owner->mostly_free_count++] = slab;
  else owner_look_for_surplus(owner);
}

/* To a slab that is not listed yet, mostly free or empty. */
static HAK_NOINLINE void blocks_came_back(owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  if (!r->slab.listed) slab_enlist(owner, slab);
  if (r->slab.free_count >= r->slab.look_at) note_mostly_free(owner, slab);
  if (!slab_is_empty(slab)) return;
  owner->empty_units += units_of(slab);
  bool is_only = owner->slabs[r->slab.size_class] == slab && r->slab.next == 0;
  if (is_only) return;
  if (owner->empty_units <= owner->empty_most) {
    slab_unlist(owner, slab);
    slab_enlist(owner, slab); /* the last */
  } else {
    note_given(owner, units_of(slab));
    slab_release(owner, slab);
  }
}

/* Some of them are set already. */
static HAK_COLD void put_some(owner_t *owner, unit_t slab, unsigned word, uint64_t bits) {
  uint64_t twice = the_map.free_bits[slab][word] & bits;
  slab_report_twice(slab, map_record(slab)->slab.size_class, word, twice);
  if (bits != twice) slab_put_bits(owner, slab, word, bits & ~twice, bits_count(bits & ~twice));
}

/* What is rare is apart, and called last, so that no register has to be kept for it. */
void slab_put_bits(owner_t *owner, unit_t slab, unsigned word, uint64_t bits, size_t count) {
  unit_record_t *r = slab_record(owner, slab);
  uint64_t *its = &the_map.free_bits[slab][word];
  HAK_ASSERT(bits != 0 && count > 0);
  if (HAK_UNLIKELY((*its & bits) != 0)) {
    put_some(owner, slab, word, bits);
    return;
  }
  *its |= bits;
  if (word < r->slab.first_word) r->slab.first_word = (uint16_t)word;
  unsigned free_count = r->slab.free_count + (unsigned)count;
  r->slab.free_count = (uint16_t)free_count;
  r->slab.idle_looks = 0;
  owner->free_bytes += (int64_t)(count * size_classes[r->slab.size_class].block_bytes);
  bool is_usual = r->slab.listed && free_count < r->slab.look_at && free_count != r->slab.capacity;
  if (!is_usual) blocks_came_back(owner, slab);
}

/* ---- From one owner to another ------------------------------------------------------*/

void slab_hand_over(owner_t *from, owner_t *to, unit_t slab, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  slab_unlist(from, slab);
  purged_note_moved(from, to, slab);
  int64_t free_bytes = slab_free_bytes(slab);
  from->free_bytes -= free_bytes;
  to->free_bytes += free_bytes;
  from->slab_bytes -= bytes_of(slab);
  to->slab_bytes += bytes_of(slab);
  uint32_t empty_units = slab_is_empty(slab) ? c->slab_units : 0;
  from->empty_units -= empty_units;
  to->empty_units += empty_units;
  /* Threads that free a block of this slab now may read either owner: both ways
   * lead the block here, see remote.h. */
  map_write_words(slab, 0, c->slab_units, word_make(to->id, size_class));
  slab_enlist(to, slab);
}

int64_t slab_free_bytes(unit_t slab) {
  const unit_record_t *r = map_record(slab);
  return (int64_t)r->slab.free_count * size_classes[r->slab.size_class].block_bytes;
}
bool slab_is_half_free(unit_t slab) { return map_record(slab)->slab.free_count >= map_record(slab)->slab.capacity / 2; }

bool slab_is_hardly_used(unit_t slab) {
  const unit_record_t *r = map_record(slab);
  return r->slab.free_count >= r->slab.capacity - r->slab.capacity / 4;
}
