/* See depot.h. SPDX-License-Identifier: MIT */
#include "depot.h"

#include "../arena/metadata.h"
#include "../os/os.h"
#include "../support/error.h"
#include "../support/profile.h"
#include "remote.h"
#include "slab.h"

#include <string.h>

enum {
  AGE_MS = 250,     /* what nobody has taken for so long goes home */
  LOOK_MS = 50,     /* between two looks for such                  */
  TICK_CRATES = 32, /* of one look: a tenth of a millisecond      */
  PUT_TRIES = 32,   /* without room, after which no more are looked at */
};

enum { RACKS = DEPOT_CRATES / RACK_CRATES };
static_assert(DEPOT_CRATES % RACK_CRATES == 0, "all racks are whole");

/* Addresses of rack_t; 0: there is none yet. Who makes one says so by a compare-and-swap, release: pairs with the load
 * of who looks, acquire (tests/model/weak/src/protocols/publication.rs). A rack stays. */
static HAK_RARELY_USED atomic64 racks[MID_CLASS_END][RACKS];
/* Of each class; relaxed. What is before the level is full mostly, and what is behind it empty. */
static struct {
  atomic32 level; /* where blocks were put or taken last: a hint                                         */
  atomic32 used;  /* crates in which anything ever was, all others are empty: who looks later finds them */
} rows[MID_CLASS_END];
/* Stands for all that were never made. */
static crate_t no_crate = {.state = {CRATE_BUSY}};

atomic64 depot_filled[(MID_CLASS_END + 63) / 64];
/* Classes of which any crate was ever used, a bit each. Relaxed, as `used`. */
static atomic64 reached[(MID_CLASS_END + 63) / 64];

const inspect_field_t depot_inspected[3] = {
    HAK_INSPECT_ARRAY("depot.racks", racks[0][0], MID_CLASS_END *RACKS, sizeof(atomic64)),
    HAK_INSPECT_MEMBERS("rack.state", rack_t, crates[0].state, RACK_CRATES, sizeof(crate_t)),
    HAK_INSPECT_NUMBER("depot.crate_blocks", CRATE_BLOCKS),
};

HAK_INLINE crate_t *crate_of(unsigned size_class, unsigned number) {
  rack_t *rack = (rack_t *)(uintptr_t)atomic64_load_acquire(&racks[size_class][number / RACK_CRATES]);
  return rack != NULL ? &rack->crates[number % RACK_CRATES] : &no_crate;
}

/* With its rack; two threads may try. It is no_crate still where there is no memory. */
static HAK_NOINLINE crate_t *make_crate(unsigned size_class, unsigned number) {
  rack_t *fresh = metadata_take(sizeof *fresh);
  if (fresh == NULL) return &no_crate;
  uint64_t none = 0;
  for (unsigned i = 0; i < RACK_CRATES; i++) atomic64_store_relaxed(&fresh->crates[i].state, CRATE_EMPTY);
  if (!atomic64_cas_acq_rel(&racks[size_class][number / RACK_CRATES], &none, (uintptr_t)fresh))
    metadata_give(fresh, sizeof *fresh);
  return crate_of(size_class, number);
}

static uint64_t state_of(uint64_t ms, size_t count) { return ms << 32 | count; }
/* 0 of one that is empty, or busy. */
HAK_INLINE size_t count_in(uint64_t state) {
  size_t count = (uint32_t)state;
  return count <= CRATE_BLOCKS ? count : 0;
}
static bool is_until(uint64_t state, uint64_t until_ms) { return ms_is_until((uint32_t)(state >> 32), until_ms); }

static bool has_bit(const atomic64 *bits, unsigned size_class) {
  return (atomic64_load_relaxed(&bits[size_class / 64]) >> size_class % 64 & 1) != 0;
}
static void set_bit(atomic64 *bits, unsigned size_class) {
  if (HAK_UNLIKELY(!has_bit(bits, size_class)))
    atomic64_or_relaxed(&bits[size_class / 64], (uint64_t)1 << size_class % 64);
}
static void clear_bit(atomic64 *bits, unsigned size_class) {
  if (has_bit(bits, size_class)) atomic64_and_relaxed(&bits[size_class / 64], ~((uint64_t)1 << size_class % 64));
}

static unsigned level_of(unsigned size_class) { return atomic32_load_relaxed(&rows[size_class].level); }
static void note_level(unsigned size_class, unsigned number) {
  if (number != level_of(size_class)) atomic32_store_relaxed(&rows[size_class].level, number);
}
static unsigned used_of(unsigned size_class) { return atomic32_load_relaxed(&rows[size_class].used); }
static void note_used(unsigned size_class, unsigned number) {
  uint32_t used = used_of(size_class);
  if (HAK_UNLIKELY(used == 0)) set_bit(reached, size_class);
  while (HAK_UNLIKELY(number >= used) && !atomic32_cas_relaxed(&rows[size_class].used, &used, number + 1)) continue;
}

size_t depot_put(unsigned size_class, void *const *blocks, size_t count) {
  size_t put = 0, room = min_size(CRATE_BLOCKS, CRATE_BYTES / size_classes[size_class].block_bytes);
  for (unsigned number = level_of(size_class), missed = 0; missed < PUT_TRIES && put < count; number++, missed++) {
    crate_t *crate = crate_of(size_class, number %= DEPOT_CRATES);
    if (HAK_UNLIKELY(crate == &no_crate)) crate = make_crate(size_class, number);
    uint64_t state = atomic64_load_relaxed(&crate->state);
    size_t there = (uint32_t)state; /* of one that is busy, more than there is room for */
    if (there >= room || !atomic64_cas_acquire(&crate->state, &state, CRATE_BUSY)) continue; /* P1 */
    size_t fits = min_size(count - put, room - there);
    note_used(size_class, number); /* first: a child that is forked meanwhile may have a full crate */
    memcpy(crate->blocks + there, blocks + put, fits * sizeof *blocks);
    /* What has waited longest says when all of it goes home. */
    atomic64_store_release(&crate->state, there == 0 ? state_of(os_now_ms(), fits) : state + fits); /* P2 */
    put += fits;
    missed = 0;
    note_level(size_class, number);
  }
  if (put > 0) set_bit(depot_filled, size_class);
  return put;
}

size_t depot_take(unsigned size_class, void **blocks, size_t most) {
  size_t taken = 0;
  unsigned used = used_of(size_class), level = level_of(size_class);
  for (unsigned i = 0; i < used && taken < most; i++) {
    unsigned number = (level + used - i) % used; /* downwards; in the end those above */
    crate_t *crate = crate_of(size_class, number);
    uint64_t state = atomic64_load_relaxed(&crate->state);
    size_t count = count_in(state), found = min_size(count, most - taken);
    if (count == 0 || !atomic64_cas_acquire(&crate->state, &state, CRATE_BUSY)) continue; /* T1 */
    memcpy(blocks + taken, crate->blocks + count - found, found * sizeof *blocks);
    atomic64_store_release(&crate->state, found < count ? state - found : CRATE_EMPTY); /* T2 */
    taken += found;
    note_level(size_class, number);
  }
  if (taken < most) clear_bit(depot_filled, size_class);
  return taken;
}

/* Its slab is some owner's, or gone, as all of its blocks were free. */
static void send_block(void *block, unsigned size_class) {
  uint32_t word = map_lookup(block);
  if (depot_may_hold(word, size_class)) remote_free_directly(block, word);
  else error_note(ERROR_DOUBLE_FREE, block, size_classes[size_class].block_bytes, 0);
}

static void send_crate(crate_t *crate, unsigned size_class, uint64_t state) {
  if (!atomic64_cas_acquire(&crate->state, &state, CRATE_BUSY)) return; /* T1 */
  for (size_t i = 0; i < count_in(state); i++) send_block(crate->blocks[i], size_class);
  atomic64_store_release(&crate->state, CRATE_EMPTY); /* T2 */
}

/* Of the class; `until_ms` NULL: whenever it came. Returns of how many crates. */
static size_t send_class(unsigned size_class, const uint64_t *until_ms, size_t most) {
  size_t sent = 0;
  for (unsigned i = 0, used = used_of(size_class); i < used && sent < most; i++) {
    crate_t *crate = crate_of(size_class, i);
    uint64_t state = atomic64_load_relaxed(&crate->state);
    if (count_in(state) == 0 || (until_ms != NULL && !is_until(state, *until_ms))) continue;
    send_crate(crate, size_class, state);
    sent++;
  }
  return sent;
}

static size_t send_until(const uint64_t *until_ms, size_t most) {
  size_t sent = 0;
  for (unsigned i = 0; i < sizeof reached / sizeof *reached; i++)
    for (uint64_t bits = atomic64_load_relaxed(&reached[i]); bits != 0 && sent < most; bits &= bits - 1)
      sent += send_class(i * 64 + (unsigned)__builtin_ctzll(bits), until_ms, most - sent);
  return sent;
}

void depot_send_home(void) { send_until(NULL, SIZE_MAX); }

bool depot_tick(uint64_t now_ms) {
  static atomic64 looked_ms; /* relaxed: two that look at once find less each */
  uint64_t age_ms = profile_wait(AGE_MS);
  if (now_ms < atomic64_load_relaxed(&looked_ms) + LOOK_MS || now_ms < age_ms) return false;
  uint64_t until_ms = now_ms - age_ms;
  size_t sent = send_until(&until_ms, TICK_CRATES);
  if (sent < TICK_CRATES) atomic64_store_relaxed(&looked_ms, now_ms);
  return sent > 0;
}

size_t depot_count(unsigned size_class) {
  size_t count = 0;
  if (!depot_serves(size_class)) return 0;
  for (unsigned i = 0, used = used_of(size_class); i < used; i++)
    count += count_in(atomic64_load_relaxed(&crate_of(size_class, i)->state));
  return count;
}

static void check_crate(const crate_t *crate, unsigned size_class, size_t count) {
  for (size_t k = 0; k < count; k++) {
    uint32_t word = map_lookup(crate->blocks[k]);
    HAK_CHECK(depot_may_hold(word, size_class));
    unit_t slab = slab_first_unit((unit_t)map_unit_of(crate->blocks[k]), size_class);
    unsigned number;
    HAK_CHECK(slab_block_number(crate->blocks[k], slab, size_class, &number));
    HAK_CHECK((the_map.free_bits[slab][number / 64] >> number % 64 & 1) == 0);
  }
}

void depot_check(void) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    for (unsigned i = 0; i < DEPOT_CRATES; i++) {
      const crate_t *crate = crate_of(c, i);
      size_t count = count_in(atomic64_load_relaxed(&crate->state));
      HAK_CHECK(count == 0 || i < used_of(c));
      if (error_ends_program()) check_crate(crate, c, count);
    }
  }
}
