/* See census.h. SPDX-License-Identifier: MIT */
#include "census.h"

#include "../arena/arena_look.h"
#include "../arena/metadata.h"
#include "../front/magazine.h"
#include "../region/cache.h"
#include "../slab/depot.h"
#include "../slab/parcel.h"
#include "residency.h"

#include <string.h>

typedef struct {
  census_t *census;
  char *end; /* of the extent that the walk is in */
  residency_t known;
} walk_t;

static size_t mapped_bytes(const census_t *census) { return census->committed + census->metadata; }

/* What is in memory of some whole pages, in the walk's order of addresses. */
static size_t resident_of(walk_t *walk, char *at, size_t bytes) {
  return walk->census->is_measured ? residency_of(&walk->known, at, bytes, walk->end) : bytes;
}

/* ---- A slab of several blocks -----------------------------------------------------*/

static HAK_LOOKS_ON uint64_t free_word(unit_t slab, size_t word) {
  return HAK_LOOK(the_map.free_bits[slab][word]) | atomic64_load_relaxed(&the_map.remote_bits[slab][word]);
}

static bool is_free(unit_t slab, size_t number) { return (free_word(slab, number / 64) >> number % 64 & 1) != 0; }

/* Free blocks from number `from` to before `to`. */
static size_t count_free(unit_t slab, size_t from, size_t to) {
  size_t count = 0;
  for (size_t next = from, end; next < to; next = end) {
    end = min_size(to, (next / 64 + 1) * 64);
    uint64_t bits = free_word(slab, next / 64) >> next % 64;
    if (end - next < 64) bits &= ((uint64_t)1 << (end - next)) - 1;
    count += (size_t)__builtin_popcountll(bits);
  }
  return count;
}

/* Bytes of free blocks in [from, to), offsets into the part of the slab that has blocks. */
static size_t free_bytes_between(unit_t slab, const size_class_t *c, size_t from, size_t to) {
  if (from >= to) return 0;
  size_t first = size_class_block_at(c, from), last = size_class_block_at(c, to - 1);
  if (first == last) return is_free(slab, first) ? to - from : 0;
  size_t bytes = count_free(slab, first + 1, last) * c->block_bytes;
  if (is_free(slab, first)) bytes += (first + 1) * c->block_bytes - from;
  if (is_free(slab, last)) bytes += to - last * c->block_bytes;
  return bytes;
}

/* Each resident page, by what lies on it. */
static void measure_slab(walk_t *walk, unit_t slab, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  class_census_t *found = &walk->census->classes[size_class];
  size_t page = os_page_bytes(), blocks_end = (size_t)c->capacity * c->block_bytes;
  for (size_t from = 0; from < size_class_slab_bytes(c); from += page) {
    if (resident_of(walk, map_address(slab) + from, page) == 0) continue;
    size_t to = min_size(from + page, max_size(from, blocks_end));
    size_t free = free_bytes_between(slab, c, from, to), tail = from + page - to;
    found->free_resident_bytes += free;
    found->tail_resident_bytes += tail;
    found->out_resident_bytes += page - free - tail;
  }
}

static HAK_LOOKS_ON void count_slab(walk_t *walk, unit_t slab, unsigned size_class, size_t free_count) {
  const size_class_t *c = &size_classes[size_class];
  class_census_t *found = &walk->census->classes[size_class];
  found->slabs++;
  size_t remote = 0;
  for (size_t w = 0; w < size_class_bitmap_words(size_class); w++)
    remote += (size_t)__builtin_popcountll(atomic64_load_relaxed(&the_map.remote_bits[slab][w]));
  found->free += min_size(free_count, c->capacity) + remote;
}

/* ---- Runs -----------------------------------------------------------------------*/

/* Units that are no block: what is dirty; what nobody has used since it was clean; and what
 * lies on the shelf, or is between two layers just now, which has been used. */
static HAK_LOOKS_ON void count_free_units(walk_t *walk, unit_t first, size_t units) {
  census_t *census = walk->census;
  for (unit_t unit = first; unit < first + units; unit++) {
    const superslab_t *s = map_superslab(unit / SUPERSLAB_UNITS);
    bool is_clean = ((HAK_LOOK(s->used) | HAK_LOOK(s->dirty)) >> unit % SUPERSLAB_UNITS & 1) == 0;
    if (is_clean && !census->is_measured) continue;
    size_t resident = resident_of(walk, map_address(unit), UNIT_BYTES);
    *(is_clean ? &census->slack_resident_bytes : &census->dirty_resident_bytes) += resident;
  }
}

static HAK_LOOKS_ON void count_huge(walk_t *walk, unit_t first, size_t units) {
  census_t *census = walk->census;
  census->huge_count++;
  census->huge_bytes += units << UNIT_SHIFT;
  size_t asked = HAK_LOOK(map_record(first)->huge.asked_units);
  census->huge_spare_bytes += (units - min_size(units, asked)) << UNIT_SHIFT;
  census->huge_resident_bytes += resident_of(walk, map_address(first), units << UNIT_SHIFT);
}

/* What lies at a unit of a region. A lone block counts as a huge one. Returns how many units were met. */
static HAK_LOOKS_ON size_t count_of_region(walk_t *walk, unit_t first, unit_t end, bool measured) {
  census_t *census = walk->census;
  unsigned what = word_what(atomic32_load_relaxed(map_word(first)));
  const unit_record_t *r = map_record(first);
  if (what < MID_CLASS_END) {
    size_t units = min_size(size_classes[what].slab_units, end - first);
    count_slab(walk, first, what, HAK_LOOK(r->region.free_count));
    if (measured && units == size_classes[what].slab_units) measure_slab(walk, first, what);
    return units;
  }
  if (what_is_lone(what)) {
    size_t units = min_size(max_size(HAK_LOOK(r->region.units), 1), end - first);
    census->huge_count++;
    census->huge_bytes += units << UNIT_SHIFT;
    size_t asked = HAK_LOOK(r->region.asked_units);
    census->huge_spare_bytes += (units - min_size(units, asked)) << UNIT_SHIFT;
    census->huge_resident_bytes += resident_of(walk, map_address(first), units << UNIT_SHIFT);
    return units;
  }
  census->spare_units++;
  census->spare_resident_bytes += resident_of(walk, map_address(first), UNIT_BYTES);
  return 1;
}

/* A run's record can change between the look at its word and the use of its length, so no
 * length is trusted. Returns how many units were met. */
static HAK_LOOKS_ON size_t count_run(walk_t *walk, unit_t first, unit_t end, bool measured) {
  uint32_t word = atomic32_load_relaxed(map_word(first));
  unsigned kind = word_kind(word);
  bool is_class = word_owner(word) != 0 && kind < SIZE_CLASS_COUNT;
  size_t run_units = max_size(HAK_LOOK(map_record(first)->run_units), 1);
  size_t units = min_size(is_class || word_is_shelved(word) ? size_classes[kind].slab_units : run_units, end - first);
  if (is_class && size_class_is_single(kind)) {
    walk->census->classes[kind].slabs++;
    walk->census->classes[kind].out_resident_bytes += resident_of(walk, map_address(first), units << UNIT_SHIFT);
  } else if (is_class) {
    count_slab(walk, first, kind, HAK_LOOK(map_record(first)->slab.free_count));
    if (measured && units == size_classes[kind].slab_units) measure_slab(walk, first, kind);
  } else if (word_is_region(word)) {
    units = count_of_region(walk, first, end, measured);
  } else if (word == word_make(0, KIND_HUGE)) {
    count_huge(walk, first, units);
  } else if (word == 0 || word_is_shelved(word)) {
    if (measured) count_free_units(walk, first, units);
  } else { /* inner: out of use for good (huge.c, purging.c); or of a block that is being changed */
    units = 1;
    walk->census->lost_bytes += UNIT_BYTES;
    walk->census->huge_resident_bytes += resident_of(walk, map_address(first), UNIT_BYTES);
  }
  return units;
}

static void count_zone(walk_t *walk, zone_id_t zone, bool measured) {
  for (unit_t first = 0, end = 0; arena_next_extent(zone, &first, &end);) {
    walk->end = map_address(end);
    residency_begin(&walk->known, mapped_bytes(walk->census));
    for (unit_t unit = first; unit < end;) unit += (unit_t)count_run(walk, unit, end, measured);
  }
}

/* ---- What threads hold, and the allocator itself ------------------------------------*/

static HAK_LOOKS_ON void count_entries(census_t *census, const outbox_entry_t *entries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = HAK_LOOK(entries[i].bits);
    unsigned c = HAK_LOOK(entries[i].size_class);
    if (bits != 0 && c < MID_CLASS_END) census->classes[c].in_outboxes += (size_t)__builtin_popcountll(bits);
  }
}

static HAK_LOOKS_ON void count_cache(census_t *census, const region_cache_t *cache) {
  for (unsigned c = 0; c < MID_CLASS_END; c++) census->classes[c].cached += cache_count(cache, c);
}

static void count_caches(census_t *census) {
  for (uint32_t number = 1; number <= registry_made(); number++) {
    region_t *region = registry_enter_number(number);
    if (region == NULL) continue;
    for (const region_cache_t *cache = region->caches; cache != NULL; cache = cache->next) count_cache(census, cache);
    registry_leave(region);
  }
}

/* The owner may take them meanwhile, and they be filled for another: then the figures are
 * not of one moment, but there is always a parcel. */
static HAK_LOOKS_ON void count_parcels(census_t *census, uint32_t first, unsigned most) {
  const parcel_t *parcel;
  for (unsigned i = 0; i < most && (parcel = parcel_by_number(first)) != NULL; i++) {
    count_entries(census, parcel->entries, min_size(HAK_LOOK(parcel->count), PARCEL_ENTRIES));
    first = HAK_LOOK(parcel->next);
  }
}

static HAK_LOOKS_ON void count_heap(census_t *census, const heap_t *heap) {
  const owner_t *owner = &heap->owner;
  const outbox_t *outbox = HAK_LOOK(owner->outbox);
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) census->classes[c].cached += magazine_count_of_others(heap, c);
  if (outbox != NULL) count_entries(census, outbox->entries, OUTBOX_ENTRIES);
  for (unsigned i = 0; i < OUTBOX_PARCELS; i++) count_parcels(census, HAK_LOOK(owner->parcels[i]), 1);
  count_parcels(census, HAK_LOOK(owner->mail_taken), MAIL_MOST);
  count_parcels(census, parcel_mail_first(HAK_LOOK(owner->pending.mail.value)), MAIL_MOST);
}

typedef bool next_piece_fn(unsigned index, char **at, size_t *bytes);

static size_t resident_in_pieces(walk_t *walk, next_piece_fn *next_piece) {
  char *at;
  size_t bytes, resident = 0;
  for (unsigned i = 0; next_piece(i, &at, &bytes); i++) {
    walk->end = at + bytes;
    residency_begin(&walk->known, mapped_bytes(walk->census));
    resident += resident_of(walk, at, bytes);
  }
  return resident;
}

/* A page that is mapped, to ask about. */
static bool can_measure(void) {
  for (zone_id_t zone = 0; zone < ZONE_COUNT; zone++) {
    unit_t first = 0, end = 0;
    if (arena_next_extent(zone, &first, &end)) return residency_can_be_had(map_address(first));
  }
  return false;
}

void census_take(census_t *census, bool measured) {
  memset(census, 0, sizeof *census);
  census->is_measured = measured;
  arena_usage_t usage = arena_usage();
  if (usage.committed == 0) return;
  pool_settle();
  census->is_measured = measured && can_measure();
  census->committed = usage.committed;
  census->used = usage.used;
  census->peak = usage.peak;
  census->dirty = usage.dirty;
  census->metadata = usage.metadata + metadata_committed_bytes();
  walk_t walk = {.census = census};
  for (zone_id_t zone = 0; zone < ZONE_COUNT; zone++) count_zone(&walk, zone, measured);
  FOR_EACH_HEAP(heap) count_heap(census, heap);
  for (unsigned c = 0; c < MID_CLASS_END; c++) census->classes[c].in_outboxes += depot_count(c);
  count_caches(census);
  if (!measured) return;
  census->metadata_resident_bytes = census->metadata;
  if (!census->is_measured) return;
  census->metadata_resident_bytes = resident_in_pieces(&walk, map_table_piece);
  census->metadata_resident_bytes += resident_in_pieces(&walk, metadata_piece);
}

/* ---- What follows from it ------------------------------------------------------*/
size_t census_blocks(const census_t *census, unsigned size_class) {
  return census->classes[size_class].slabs * size_classes[size_class].capacity;
}

size_t census_live(const census_t *census, unsigned size_class) {
  const class_census_t *c = &census->classes[size_class];
  size_t all = census_blocks(census, size_class), unused = c->free + c->cached + c->in_outboxes;
  return all > unused ? all - unused : 0;
}

size_t census_tail_bytes(const census_t *census, unsigned size_class) {
  return census->classes[size_class].slabs * size_class_tail_bytes(&size_classes[size_class]);
}

size_t census_resident_share(const census_t *census, unsigned size_class, size_t blocks) {
  const class_census_t *c = &census->classes[size_class];
  size_t all = census_blocks(census, size_class), out = all > c->free ? all - c->free : 0;
  if (blocks == 0 || out == 0) return 0;
  double share = (double)min_size(blocks, out) / (double)out;
  return min_size((size_t)((double)c->out_resident_bytes * share), c->out_resident_bytes);
}
