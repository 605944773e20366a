/* See slab.h. SPDX-License-Identifier: MIT */
#include "slab.h"

#include "../arena/arena.h"
#include "../support/error.h"
#include "pool.h"
#include "remote.h"

/* Slabs whose remote frees one refill collects: bounds the time of a malloc. */
enum { COLLECTS_PER_REFILL = 16 };

HAK_INLINE unit_record_t *record(unit_t slab) { return map_record(slab); }

/* ---- Lists ---------------------------------------------------------------------
 * A slab that gets its first free block goes to the front: refills then fill
 * the fullest slabs first, and the others get a chance to become empty. One empty
 * slab of a class is kept (blocks_came_back); it was alone when it became empty, so
 * it is the last. To find that one, the first slab's `previous` is the last.      */
static bool is_empty(unit_t slab) { return record(slab)->slab.free_count == record(slab)->slab.capacity; }

void slab_list(owner_t *owner, unit_t slab) {
  unit_record_t *r = record(slab);
  unit_t first = owner->slabs[r->slab.size_class];
  r->slab.next = first;
  r->slab.previous = first != 0 ? record(first)->slab.previous : slab;
  if (first != 0) record(first)->slab.previous = slab;
  owner->slabs[r->slab.size_class] = slab;
  r->slab.listed = true;
}

void slab_unlist(owner_t *owner, unit_t slab) {
  unit_record_t *r = record(slab);
  unit_t *first = &owner->slabs[r->slab.size_class];
  if (owner->next_look == slab) owner->next_look = r->slab.next;
  if (r->slab.next != 0) record(r->slab.next)->slab.previous = r->slab.previous;
  else record(*first)->slab.previous = r->slab.previous;
  if (slab == *first) *first = r->slab.next;
  else record(r->slab.previous)->slab.next = r->slab.next;
  r->slab.listed = false;
}

/* ---- From the arena and back -----------------------------------------------------*/

void slab_tell_arena(owner_t *owner) {
  int64_t change = owner->free_bytes - owner->free_bytes_told;
  if (change == 0) return;
  arena_note_free_in_slabs(change);
  owner->free_bytes_told = owner->free_bytes;
}

static void write_words(unit_t first, size_t units, uint32_t first_word, uint32_t later_words) {
  atomic32_store_relaxed(map_word(first), first_word);
  for (size_t i = 1; i < units; i++) atomic32_store_relaxed(map_word(first + i), later_words);
}

static unit_t make_slab(owner_t *owner, unsigned size_class, bool *is_zero) {
  const size_class_t *c = &size_classes[size_class];
  bool single = size_class_is_single(size_class);
  unit_t slab = arena_take(ZONE_SMALL, c->slab_units, single ? 1 : c->slab_units, is_zero);
  if (slab == 0) return 0;
  if (single) arena_note_large(c->slab_units);
  unit_record_t *r = record(slab);
  r->slab.capacity = r->slab.free_count = c->capacity;
  r->slab.first_word = 0;
  r->slab.size_class = (uint8_t)size_class;
  r->slab.listed = false;
  r->slab.idle_looks = 0;
  uint64_t *bits = the_map.free_bits[slab];
  size_t whole = c->capacity / 64;
  for (size_t w = 0; w < whole; w++) bits[w] = UINT64_MAX;
  if (c->capacity % 64 != 0) bits[whole] = ((uint64_t)1 << c->capacity % 64) - 1;
  uint32_t word = word_make(owner->id, size_class);
  write_words(slab, c->slab_units, word, single ? word_make(0, KIND_INNER) : word);
  /* A thread that has just withdrawn the unit's announcement (remote.c) must see the
   * slab when it looks again: partner of the loads in announce and remote_collect. */
  atomic32_store_seq(map_word(slab), word);
  return slab;
}

/* Bits that are still there when every block is free are of blocks that were freed
 * twice, here and by another thread; they must not outlive the slab. */
static void clear_remote_bits(unit_t slab, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  for (unsigned w = 0; w < (c->capacity + 63u) / 64; w++) {
    if (HAK_LIKELY(atomic64_load_relaxed(&the_map.remote_bits[slab][w]) == 0)) continue;
    uint64_t twice = atomic64_exchange_seq(&the_map.remote_bits[slab][w], 0);
    for (; twice != 0; twice &= twice - 1)
      error_note(ERROR_DOUBLE_FREE,
                   slab_block_address(slab, size_class, w * 64 + (unsigned)__builtin_ctzll(twice)), c->block_bytes, 0);
  }
}

/* Every block is free and the slab is in no list. */
static void unmake_slab(unit_t slab, unsigned size_class) {
  size_t units = size_classes[size_class].slab_units;
  if (size_class_is_single(size_class)) arena_note_large(-(int64_t)units);
  else clear_remote_bits(slab, size_class);
  write_words(slab, units, 0, 0);
  arena_give(slab, units);
}

void slab_release(owner_t *owner, unit_t slab) {
  unsigned size_class = record(slab)->slab.size_class;
  slab_unlist(owner, slab);
  owner->free_bytes -= (int64_t)record(slab)->slab.free_count * size_classes[size_class].block_bytes;
  unmake_slab(slab, size_class);
}

void slab_release_empty(owner_t *owner) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    if (owner->slabs[c] == 0) continue;
    unit_t last = record(owner->slabs[c])->slab.previous;
    if (is_empty(last)) slab_release(owner, last);
  }
  slab_tell_arena(owner);
}

/* ---- Refill ----------------------------------------------------------------------*/

/* Takes up to `wanted` blocks, lowest addresses first. */
static size_t take_blocks(owner_t *owner, unit_t slab, unsigned size_class, void **blocks, size_t wanted) {
  unit_record_t *r = record(slab);
  uint64_t *bits = the_map.free_bits[slab];
  size_t block_bytes = size_classes[size_class].block_bytes;
  size_t count = min_size(wanted, r->slab.free_count);
  size_t taken = 0;
  unsigned w = r->slab.first_word;
  while (taken < count) {
    uint64_t word = bits[w];
    char *base = (char *)slab_block_address(slab, size_class, w * 64);
    while (word != 0 && taken < count) {
      blocks[taken++] = base + (size_t)__builtin_ctzll(word) * block_bytes;
      word &= word - 1;
    }
    bits[w] = word;
    if (word == 0 && taken < count) w++;
  }
  r->slab.first_word = (uint16_t)w;
  r->slab.idle_looks = 0;
  r->slab.free_count = (uint16_t)(r->slab.free_count - count);
  owner->free_bytes -= (int64_t)(count * block_bytes);
  if (r->slab.free_count == 0) slab_unlist(owner, slab);
  return count;
}

/* Memory is short: perhaps it waits in what others have freed. */
static void regain(owner_t *owner) {
  remote_collect(owner, SIZE_MAX);
  slab_release_empty(owner);
  pool_sweep(NULL);
}

/* A slab of the class with a free block at the head of the owner's list. */
static bool get_slab(owner_t *owner, unsigned size_class) {
  slab_tell_arena(owner);
  if (pool_adopt(owner, size_class)) return true;
  unit_t slab = make_slab(owner, size_class, NULL);
  if (slab == 0) {
    regain(owner);
    if (owner->slabs[size_class] != 0) return true;
    slab = make_slab(owner, size_class, NULL);
    if (slab == 0) return false;
  }
  slab_list(owner, slab);
  owner->free_bytes += (int64_t)record(slab)->slab.capacity * size_classes[size_class].block_bytes;
  return true;
}

static size_t refill_single(owner_t *owner, unsigned size_class, void **blocks, bool *is_zero) {
  unit_t slab = make_slab(owner, size_class, is_zero);
  if (slab == 0) {
    regain(owner);
    slab = make_slab(owner, size_class, is_zero);
    if (slab == 0) return 0;
  }
  record(slab)->slab.free_count = 0;
  the_map.free_bits[slab][0] = 0;
  blocks[0] = map_address(slab);
  return 1;
}

static void reverse(void **blocks, size_t count) {
  for (size_t i = 0, j = count; i + 1 < j; i++) {
    void *block = blocks[i];
    blocks[i] = blocks[--j];
    blocks[j] = block;
  }
}

size_t slab_refill(owner_t *owner, unsigned size_class, void **blocks, size_t wanted, bool *is_zero) {
  counter_add(&owner->refills, 1);
  if (size_class_is_single(size_class)) return refill_single(owner, size_class, blocks, is_zero);
  if (is_zero != NULL) *is_zero = false;
  if (remote_has_pending(owner)) remote_collect(owner, COLLECTS_PER_REFILL);
  size_t taken = 0;
  while (taken < wanted) {
    unit_t slab = owner->slabs[size_class];
    if (slab == 0) {
      /* Some will do: fresh memory is for those who have none. */
      if (taken > 0 || !get_slab(owner, size_class)) break;
      slab = owner->slabs[size_class];
    }
    taken += take_blocks(owner, slab, size_class, blocks + taken, wanted - taken);
  }
  reverse(blocks, taken);
  return taken;
}

/* ---- Flush -----------------------------------------------------------------------*/

/* `count` bits of the slab were set. One empty slab of a class is kept, so that
 * a lone block that comes and goes does not take a slab each time. */
static void blocks_came_back(owner_t *owner, unit_t slab, unsigned size_class, size_t count) {
  unit_record_t *r = record(slab);
  r->slab.free_count = (uint16_t)(r->slab.free_count + count);
  r->slab.idle_looks = 0;
  owner->free_bytes += (int64_t)(count * size_classes[size_class].block_bytes);
  if (!r->slab.listed) slab_list(owner, slab);
  if (!is_empty(slab)) return;
  bool is_only = owner->slabs[size_class] == slab && r->slab.next == 0;
  if (!is_only) slab_release(owner, slab);
}

void slab_put_bits(owner_t *owner, unit_t slab, unsigned word, uint64_t bits) {
  unit_record_t *r = record(slab);
  unsigned size_class = r->slab.size_class;
  uint64_t twice = the_map.free_bits[slab][word] & bits;
  bits &= ~twice;
  for (; HAK_UNLIKELY(twice != 0); twice &= twice - 1)
    error_note(ERROR_DOUBLE_FREE, slab_block_address(slab, size_class, word * 64 + (unsigned)__builtin_ctzll(twice)),
                 size_classes[size_class].block_bytes, 0);
  the_map.free_bits[slab][word] |= bits;
  if (word < r->slab.first_word) r->slab.first_word = (uint16_t)word;
  if (bits == 0) return;
  bool is_one = (bits & (bits - 1)) == 0; /* as in every flush; the baseline has no instruction to count more */
  blocks_came_back(owner, slab, size_class, is_one ? 1 : (size_t)__builtin_popcountll(bits));
}

/* A block of the magazine whose word is not our own: of a slab that is another's,
 * or one that is gone, which only a second free can have brought. */
static HAK_NOINLINE void flush_stray(owner_t *owner, unsigned size_class, void *block, uint32_t word) {
  if (word_owner(word) != 0 && word_owner(word) != owner->id && word_kind(word) == size_class &&
      !size_class_is_single(size_class))
    remote_free(owner, block, word);
  else
    error_note(ERROR_DOUBLE_FREE, block, size_classes[size_class].block_bytes, 0);
}

/* The word is claimed: a thread that frees the block a second time just now may
 * take it over (slab_take_over_single). One of the two gets it. */
static void flush_single(unsigned size_class, void *block, uint32_t word) {
  unit_t slab = (unit_t)map_unit_of(block);
  if (block != map_address(slab))
    error_note(ERROR_INTERIOR_FREE, block, size_classes[size_class].block_bytes, 0);
  else if (!slab_free_single(slab, word))
    error_note(ERROR_DOUBLE_FREE, block, size_classes[size_class].block_bytes, 0);
}

void slab_flush(owner_t *owner, unsigned size_class, void *const *blocks, size_t count) {
  counter_add(&owner->flushes, 1);
  uint32_t own_word = word_make(owner->id, size_class);
  for (size_t i = 0; i < count; i++) {
    void *block = blocks[i];
    unit_t unit = (unit_t)map_unit_of(block);
    uint32_t word = map_lookup(block);
    if (HAK_UNLIKELY(word != own_word)) {
      flush_stray(owner, size_class, block, word);
      continue;
    }
    if (size_class_is_single(size_class)) {
      flush_single(size_class, block, own_word);
      continue;
    }
    unit_t slab = slab_first_unit(unit, size_class);
    int number = slab_block_number(block, slab, size_class);
    if (HAK_UNLIKELY(number < 0))
      error_note(ERROR_INTERIOR_FREE, block, size_classes[size_class].block_bytes, 0);
    else
      slab_put_bits(owner, slab, (unsigned)number / 64, (uint64_t)1 << number % 64);
  }
}

/* ---- Single blocks -----------------------------------------------------------------*/
bool slab_take_over_single(owner_t *owner, unit_t slab, uint32_t word) {
  return atomic32_cas_acq_rel(map_word(slab), &word, word_make(owner->id, word_kind(word)));
}

bool slab_free_single(unit_t slab, uint32_t word) {
  if (!atomic32_cas_acq_rel(map_word(slab), &word, word_make(0, KIND_INNER))) return false;
  unmake_slab(slab, word_kind(word));
  return true;
}

void slab_lose_single(unit_t slab) { atomic32_store_relaxed(map_word(slab), word_make(0, KIND_INNER)); }

bool slab_extend_single(unit_t slab, uint32_t word, unsigned new_class) {
  size_t old_units = size_classes[word_kind(word)].slab_units, new_units = size_classes[new_class].slab_units;
  uint32_t now = word;
  /* Claimed while it grows, so that a thread that frees it meanwhile, by mistake,
   * finds no block and does not give back a run that is being changed. */
  if (!atomic32_cas_acq_rel(map_word(slab), &now, word_make(0, KIND_INNER))) return false;
  bool extended = arena_extend(slab, old_units, new_units);
  if (extended) {
    record(slab)->slab.size_class = (uint8_t)new_class;
    arena_note_large((int64_t)new_units - (int64_t)old_units);
    for (size_t i = old_units; i < new_units; i++) atomic32_store_relaxed(map_word(slab + i), word_make(0, KIND_INNER));
  }
  atomic32_store_release(map_word(slab), word_make(word_owner(word), extended ? new_class : word_kind(word)));
  return extended;
}

/* ---- Checking ------------------------------------------------------------------------*/
static size_t count_bits(const uint64_t *bits, size_t words) {
  size_t count = 0;
  for (size_t w = 0; w < words; w++) count += (size_t)__builtin_popcountll(bits[w]);
  return count;
}

void slab_check(const owner_t *owner) {
  int64_t free_bytes = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    unit_t first = owner->slabs[c], previous = 0;
    for (unit_t slab = first; slab != 0; previous = slab, slab = record(slab)->slab.next) {
      const unit_record_t *r = record(slab);
      HAK_CHECK(r->slab.listed && r->slab.size_class == c);
      HAK_CHECK(slab == first || r->slab.previous == previous);
      HAK_CHECK(r->slab.next != 0 || record(first)->slab.previous == slab);
      HAK_CHECK(r->run_units == size_classes[c].slab_units && r->slab.capacity == size_classes[c].capacity);
      HAK_CHECK(slab_first_unit(slab, c) == slab);
      for (unsigned i = 0; i < r->run_units; i++)
        HAK_CHECK(atomic32_load_relaxed(map_word(slab + i)) == word_make(owner->id, c));
      size_t words = ((size_t)r->slab.capacity + 63) / 64;
      HAK_CHECK(r->slab.free_count > 0 && count_bits(the_map.free_bits[slab], words) == r->slab.free_count);
      HAK_CHECK(count_bits(the_map.free_bits[slab], r->slab.first_word) == 0);
      for (size_t w = 0; w < words && error_ends_program(); w++)
        HAK_CHECK((the_map.free_bits[slab][w] & atomic64_load_relaxed(&the_map.remote_bits[slab][w])) == 0);
      HAK_CHECK(!is_empty(slab) || r->slab.next == 0); /* the one that is kept is the last */
      free_bytes += (int64_t)r->slab.free_count * size_classes[c].block_bytes;
    }
  }
  HAK_CHECK(free_bytes == owner->free_bytes);
  HAK_CHECK(owner->next_look == 0 || (record(owner->next_look)->slab.listed &&
                                      word_owner(atomic32_load_relaxed(map_word(owner->next_look))) == owner->id));
  size_t outbox = 0;
  for (size_t i = 0; i < OUTBOX_ENTRIES; i++) outbox += owner->outbox[i].bits != 0;
  HAK_CHECK(outbox == owner->outbox_count);
}
