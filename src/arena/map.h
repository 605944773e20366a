/*
 * The window: where everything is.
 *
 * All memory of the allocator lies in one range of addresses, the window, cut
 * into units of 64 KiB. It begins with the page map, one word a unit; the
 * tables that are indexed by unit number follow, then the thread heaps, and
 * the two zones that blocks come from. Guard gaps lie between the parts.
 *
 *   base
 *   | page map | unit records | shared | free bits | remote bits | SuperSlabs |
 *   | thread heaps | metadata | ...gap... | zone SMALL ... | zone HUGE ...      |
 *
 * The window is planned, not reserved: it is put where nothing lies and where the
 * system puts nothing of itself, and its parts are mapped as they are needed, each
 * at its planned place. So the process has no more address space in use than its
 * heap, which is what limits, locked memory and core files count. Should the program
 * map something there itself, the heap goes on behind it (zone.h). Where there is no
 * such place (emulators, sanitizers), the window is reserved as a whole, "held".
 * Addresses are written once, by map_init, and then read-only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_MAP_H
#define HAK_MAP_H

#include "../base/inspected.h"
#include "../os/os.h"
#include "unit_record.h"

HAK_C_BEGIN

enum {
  UNIT_SHIFT = 16,
  UNIT_BYTES = 1 << UNIT_SHIFT,
  SUPERSLAB_UNITS = 32,  /* 2 MiB: one huge page */
  LARGE_MOST_UNITS = 64, /* the longest large block: what is longer is huge */
  /* Bits in a unit's bitmap: one for each 16 bytes. */
  UNIT_BITMAP_WORDS = UNIT_BYTES / 16 / 64,
};

/* ---- The page-map word -----------------------------------------------------
 * owner << 8 | kind. The kind is a size class when it is below the number of
 * classes; the owner is the thread heap whose slab the unit belongs to.
 *   0                   nothing: free, or never ours
 *   owner | class       a unit of a slab of that class
 *   0 | class           the first unit of a free large block that lies on the shelf
 *   KIND_HUGE           the first unit of a huge block
 *   KIND_INNER          a later unit of a large, huge or lone block; the first one of a large or huge block that is
 *                       being changed, and of a run that is lost to the system: no block
 *   owner | KIND_REGION a unit of a region: region/region_word.h
 * Invariant: the word of a unit with a live block changes only when its slab
 * changes hands, so a thread that may free the block reads either a word that
 * stays or one whose change the hand-over has ordered.                       */
enum { KIND_BITS = 8, KIND_REGION = 252, KIND_INNER = 253, KIND_HUGE = 254 };
HAK_INLINE uint32_t word_make(uint32_t owner, unsigned kind) {
  HAK_ASSERT(kind < 1u << KIND_BITS && owner <= UINT32_MAX >> KIND_BITS);
  return owner << KIND_BITS | kind;
}
HAK_INLINE uint32_t word_owner(uint32_t word) { return word >> KIND_BITS; }
HAK_INLINE unsigned word_kind(uint32_t word) { return word & ((1u << KIND_BITS) - 1); }
HAK_INLINE bool word_is_shelved(uint32_t word) { return word != 0 && word < KIND_INNER; }

/* ---- SuperSlabs ------------------------------------------------------------*/

/* A SuperSlab: which of its units are in use; which free ones hold pages; which
 * of those in use did when they were taken, and so did not read as zero; whether
 * the system was asked for a huge page (huge_pages.c for huge blocks, zone.c and dense.c
 * for what the small zone grows by; read without the gate there: relaxed, a hint); whether one touch may
 * have made free units resident that count as clean, which outlasts the asking: dirty.c; and
 * whether a block that grew has been there, perhaps with pages of another place, since all of it was
 * mapped anew: set under the arena's gate, taken back by who holds all of it.
 * Invariant: used & dirty = 0, and it is in the dirty list <=> dirty != 0.    */
typedef struct {
  uint32_t used, dirty, stale;
  uint32_t dirty_previous, dirty_next; /* SuperSlab numbers                    */
  bool huge_page, has_slack, has_grown;
  uint64_t dirtied_ms; /* when a unit was last given back      */
} __attribute__((aligned(32))) superslab_t;
static_assert(sizeof(superslab_t) == 32, "the table's size in docs/design.md");

/* ---- The window ------------------------------------------------------------*/

typedef enum { ZONE_SMALL, ZONE_HUGE, ZONE_COUNT } zone_id_t;

typedef struct {
  char *base;   /* first byte of the window, and of the page map; MAP_NOWHERE until it is found */
  size_t units; /* of the window; 0 until then                                                 */
  unit_record_t *records;
  unit_shared_t *shared;
  uint64_t (*free_bits)[UNIT_BITMAP_WORDS];
  atomic64 (*remote_bits)[UNIT_BITMAP_WORDS];
  superslab_t *superslabs;
  char *heaps, *heaps_end;
  char *metadata, *metadata_end;
  unit_t zone_first[ZONE_COUNT], zone_end[ZONE_COUNT];
  bool is_held; /* reserved as a whole */
} map_t;

/* Until map_init has succeeded no address is inside. A thread that frees meanwhile, before it has ever allocated, may
 * see the window's size and not its base: every address lies too far from this one for any size. Plain variables all
 * the same: as atomics they cost free two instructions more. */
#define MAP_NOWHERE ((char *)((uintptr_t)1 << 63))
extern map_t the_map;

/* Finds the window. Not thread-safe: called once under the arena's gate. */
bool map_init(void);
/* Makes part of the window writable; page-aligned. Reads as zero. Unless it is
 * OS_MAPPED, nothing has changed. */
os_mapped_t map_commit(void *at, size_t bytes);
/* The same for part of the window that has been so already, whatever lies there now. */
bool map_commit_again(void *at, size_t bytes);
/* The same for part of it from which the pages were moved away, so that nothing lies there. */
os_mapped_t map_commit_moved(void *at, size_t bytes);
/* The same for the units [from, to) of a zone and their elements in the tables. `from`
 * is where the last call ended or, behind something of the program's, farther. */
os_mapped_t map_commit_units(zone_id_t zone, unit_t from, unit_t to);
/* The bitmaps of units that nobody uses go back to the system, as far as they fill pages.
 * What a slab needs of them is written when it is made, or has to be zero. */
void map_purge_bitmaps(unit_t first, size_t units);
/* Bytes of the tables that may be written. */
size_t map_table_bytes(void);
/* How much of the tables so many units in a row use, and what may be resident besides, where
 * such a row begins and ends. */
size_t map_table_bytes_of(size_t units);
size_t map_table_bytes_of_ends(void);
/* One of the pieces that these lie in, from 0 on, as it was a moment ago; there may be holes
 * in it. false: there are no more. When the window has been found. */
bool map_table_piece(unsigned index, char **at, size_t *bytes);
extern const inspect_field_t map_inspected[1];

HAK_INLINE atomic32 *map_word(size_t unit) { return (atomic32 *)the_map.base + unit; }
/* SIZE_MAX-like values for addresses outside: compare with the_map.units. */
HAK_INLINE size_t map_unit_of(const void *address) {
  return ((uintptr_t)address - (uintptr_t)the_map.base) >> UNIT_SHIFT;
}
HAK_INLINE unit_record_t *map_record(unit_t unit) {
  HAK_ASSERT(unit < the_map.units);
  return &the_map.records[unit];
}
/* A run whose holder cuts it in two, outside the arena's gate: `rest` units lie behind the first `units`. A
 * child that is forked meanwhile finds one run or two there, and never less: release, so that the second is
 * there before the first ends. */
HAK_INLINE void map_split_run(unit_t first, size_t units, size_t rest) {
  map_record((unit_t)(first + units))->run_units = (uint32_t)rest;
  __atomic_store_n(&map_record(first)->run_units, (uint32_t)units, __ATOMIC_RELEASE);
}
HAK_INLINE superslab_t *map_superslab(size_t number) { return &the_map.superslabs[number]; }
HAK_INLINE bool map_wants_huge_page(size_t number) {
  return __atomic_load_n(&map_superslab(number)->huge_page, __ATOMIC_RELAXED);
}
HAK_INLINE void map_note_huge_page(size_t number, bool is_wanted) {
  __atomic_store_n(&map_superslab(number)->huge_page, is_wanted, __ATOMIC_RELAXED);
}
HAK_INLINE bool map_has_grown(size_t number) {
  return __atomic_load_n(&map_superslab(number)->has_grown, __ATOMIC_RELAXED);
}
HAK_INLINE void map_note_grown(size_t number, bool has_grown) {
  __atomic_store_n(&map_superslab(number)->has_grown, has_grown, __ATOMIC_RELAXED);
}
/* Words `from` to `to` of a run's units. Relaxed: what hands a block over to another thread orders the words, too. */
HAK_INLINE void map_write_words(unit_t first, size_t from, size_t to, uint32_t word) {
  for (size_t i = from; i < to; i++) atomic32_store_relaxed(map_word(first + i), word);
}
HAK_INLINE size_t map_units_for(size_t bytes) { return (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT; }
HAK_INLINE char *map_address(unit_t unit) { return the_map.base + ((size_t)unit << UNIT_SHIFT); }
/* SuperSlabs [from, to), whose units are the caller's or guarded by the arena's gate: whether the system
 * may put huge pages behind them. */
void map_want_huge_pages(size_t from, size_t to);
void map_refuse_huge_pages(size_t from, size_t to);
/* The word of any address; 0 outside the window. Relaxed: see the invariant. */
HAK_INLINE uint32_t map_lookup(const void *address) {
  size_t unit = map_unit_of(address);
  return HAK_LIKELY(unit < the_map.units) ? atomic32_load_relaxed(map_word(unit)) : 0;
}

HAK_C_END
#endif
