/* See dense.h. SPDX-License-Identifier: MIT */
#include "dense.h"

#include "../support/limit.h"
#include "../support/profile.h"
#include "huge_credit.h"
#include "pages.h"
#include "zone.h"

enum {
  /* A dense one is credit for as much as is in use, or for eight of the largest steps; but the first one after a
   * sparse one for 32 MiB, and each further one for twice as much as the one before, or 8 MiB that are dense now
   * and then would keep 512 resident of which little is used. A longer one would say little more, and be faulted
   * in page by page. */
  WITNESS_UNITS = 4 * SUPERSLAB_UNITS,
  CREDIT_FIRST_UNITS = 4 * WITNESS_UNITS,
  CREDIT_MOST_UNITS = 256 * SUPERSLAB_UNITS,
  /* SuperSlabs whose advice changes together: each change is a mapping of its own, and there may
   * be 65 530. */
  TOGETHER = 16,
};
/* Below this much heap, what huge pages keep resident of slabs that are partly free is a good part of it, and
 * what they save is too little to be measured. The second is for a heap that is wide blocks in the main: there
 * is little of such, and a witness tells of the blocks themselves. */
static const size_t from_bytes = HAK_MIB(64), wide_from_bytes = HAK_MIB(16);
/* Of what the profile trusts unseen: most programs never need more, and then a huge page would be all they have. */
static const size_t trusted_from_bytes = HAK_MIB(1);

/* Relaxed: sums of what threads report, looked at as an estimate; with nothing beside them that is only read. */
static struct {
  atomic64 free_in_slabs_bytes, unfilled_units, wide_units;
} __attribute__((aligned(HAK_CACHE_LINE))) told;

/* Guarded by the arena's gate. */
static struct {
  size_t credit_units;
  size_t last_units; /* what the last one was credit for at the most; 0: it was sparse, or there was none */
  unit_t first, end; /* the witness; 0: none */
} witness;

/* When the small zone grew the last time. Guarded by the arena's gate. */
static struct { int64_t used_bytes, unused_bytes; } last_growth;

void dense_note_free_in_slabs(int64_t change_bytes) {
  atomic64_add_relaxed(&told.free_in_slabs_bytes, (uint64_t)change_bytes);
}
size_t dense_free_in_slabs(void) {
  int64_t bytes = (int64_t)atomic64_load_relaxed(&told.free_in_slabs_bytes);
  return bytes > 0 ? (size_t)bytes : 0;
}
void dense_note_unfilled(int64_t change_units) { atomic64_add_relaxed(&told.unfilled_units, (uint64_t)change_units); }
size_t dense_unfilled_units(void) {
  int64_t units = (int64_t)atomic64_load_relaxed(&told.unfilled_units);
  return units > 0 ? (size_t)units : 0;
}
void dense_note_wide(int64_t change_units) { atomic64_add_relaxed(&told.wide_units, (uint64_t)change_units); }
size_t dense_wide_units(void) {
  int64_t units = (int64_t)atomic64_load_relaxed(&told.wide_units);
  return units > 0 ? (size_t)units : 0;
}

static void becomes_witness(unit_t first, size_t units) {
  witness.first = first;
  witness.end = (unit_t)(first + units);
}

/* One that has not been heard stays: who extends a block does not ask. */
static bool has_credit(unit_t first, size_t units) {
  if (witness.credit_units >= units) {
    witness.credit_units -= units;
    return true;
  }
  if (witness.first == 0) becomes_witness(first, units);
  return false;
}

/* Of what is free in slabs, no more than that may never have been used. Huge pages make it resident; the rest
 * the program has had, and may have written to: of a heap whose blocks change their size most lies free in
 * slabs that were full once. */
static int64_t unused_in_slabs(void) {
  return (int64_t)min_size(dense_free_in_slabs(), dense_unfilled_units() << UNIT_SHIFT);
}

/* Whether slabs are used, or what was taken since the last growth went into used ones:
 * the first slab of each class is mostly unused, and there are 146 classes. */
static bool slabs_are_dense(int64_t used_bytes) {
  int64_t unused_bytes = unused_in_slabs();
  int64_t more_used = used_bytes - last_growth.used_bytes, more_unused = unused_bytes - last_growth.unused_bytes;
  last_growth.used_bytes = used_bytes;
  last_growth.unused_bytes = unused_bytes;
  return unused_bytes < used_bytes / 4 || (more_unused < more_used / 4 && unused_bytes < used_bytes / 4 * 3);
}

void dense_thins_out(unit_t first, size_t units) {
  size_t end = (first + units - 1) / SUPERSLAB_UNITS + 1;
  for (size_t n = first / SUPERSLAB_UNITS; n < end; n++) {
    if (HAK_LIKELY(!map_wants_huge_page(n))) continue;
    size_t from = n, to = n + 1;
    while (from % TOGETHER != 0 && map_wants_huge_page(from - 1)) from--;
    while (to % TOGETHER != 0 && map_wants_huge_page(to)) to++;
    map_refuse_huge_pages(from, to);
  }
}

static bool is_small(size_t used_units) { return used_units << UNIT_SHIFT < from_bytes; }

/* A good part of what is in use; of a small heap, half: beside fewer, what is free in slabs would become
 * resident as well. */
static bool blocks_are_wide(size_t used_units) {
  return dense_wide_units() >= used_units / (is_small(used_units) ? 2 : 8);
}

static bool is_trusted(size_t used_units) {
  size_t used_bytes = used_units << UNIT_SHIFT;
  return used_bytes >= trusted_from_bytes && used_bytes < profile_scale.trusted_bytes;
}

static bool counts_credit(size_t used_units) {
  return used_units << UNIT_SHIFT >= wide_from_bytes && blocks_are_wide(used_units) && !is_trusted(used_units);
}

/* Where there are more huge blocks than all of these, what is known of them holds for the few wide ones beside them. */
static bool huge_blocks_vouch(size_t units, size_t used_units) {
  return zone_used_units(ZONE_HUGE) >= used_units && limit_allows_huge_pages(units << UNIT_SHIFT) &&
         huge_credit_spend(units / SUPERSLAB_UNITS);
}

bool dense_asks(dense_question_t *question, size_t units, size_t used_units) {
  question->count = 0;
  if (witness.first == 0 || witness.credit_units >= units || !counts_credit(used_units)) return false;
  unit_t step = (witness.end - witness.first) / DENSE_PROBES;
  for (unit_t i = 0; i < DENSE_PROBES; i++) {
    /* Not at even distances: of blocks of 65 KiB every other unit is hardly used. Nor the same part of each unit:
     * many blocks are used at their beginning alone, and may begin anywhere. */
    unit_t unit = witness.first + i * step + i % step;
    size_t offset = (i * 5 + 3) % DENSE_PROBES * (UNIT_BYTES / DENSE_PROBES);
    if (!zone_is_free(unit)) question->pages[question->count++] = map_address(unit) + offset;
  }
  /* Of blocks of 100 KB a quarter is never used: of a small heap that is not to be resident. */
  question->absent_most = question->count / (is_small(used_units) ? 16 : 4);
  witness.first = 0;
  if (question->count == 0) witness.credit_units = 0;
  return question->count > 0;
}

bool dense_is_resident(const dense_question_t *question) {
  unsigned absent = 0;
  for (unsigned i = 0; i < question->count && absent <= question->absent_most; i++)
    absent += !page_is_resident(question->pages[i]);
  return absent <= question->absent_most;
}

void dense_hear(bool is_resident, size_t used_units) {
  size_t most = min_size(max_size(2 * witness.last_units, CREDIT_FIRST_UNITS), CREDIT_MOST_UNITS);
  witness.last_units = is_resident ? most : 0;
  witness.credit_units = min_size(used_units, witness.last_units);
}

size_t dense_step_units(size_t step_units, size_t used_units) {
  if (!counts_credit(used_units)) return step_units;
  return witness.credit_units >= step_units ? step_units : min_size(step_units, WITNESS_UNITS);
}

bool dense_wants_huge_pages(unit_t first, size_t units, size_t used_units) {
  size_t used_bytes = used_units << UNIT_SHIFT;
  if (is_trusted(used_units)) return limit_allows_huge_pages(units << UNIT_SHIFT);
  if (!slabs_are_dense((int64_t)used_bytes)) return false;
  bool is_wide = blocks_are_wide(used_units);
  if (used_bytes >= (is_wide ? wide_from_bytes : from_bytes))
    return limit_allows_huge_pages(units << UNIT_SHIFT) && (!is_wide || has_credit(first, units));
  if (!is_wide) return false;
  if (huge_blocks_vouch(units, used_units)) return true;
  becomes_witness(first, units);
  return false;
}

/* Free as a whole, and back at the system since it was in use; without huge pages. */
static bool is_back(size_t superslab) {
  const superslab_t *s = map_superslab((uint32_t)superslab);
  return (s->used | s->dirty) == 0 && s->dirtied_ms != 0 && !map_wants_huge_page(superslab);
}

bool dense_is_growth(unit_t first, size_t run_units, size_t *from) {
  size_t last = (first + run_units - 1) / SUPERSLAB_UNITS;
  for (*from = first / SUPERSLAB_UNITS; HAK_LIKELY(!is_back(*from)); ++*from)
    if (*from == last) return false;
  return true;
}

void dense_grows_again(size_t from) {
  size_t used_units = zone_used_units(ZONE_SMALL);
  /* As far as a step of growth would go, which is an eighth of what is there; and as the credit goes. */
  size_t most = min_size(used_units / 8 / SUPERSLAB_UNITS, TOGETHER);
  if (blocks_are_wide(used_units)) most = min_size(most, witness.credit_units / SUPERSLAB_UNITS);
  size_t to = from + 1,
         end = min_size(zone_extent((unit_t)(from * SUPERSLAB_UNITS))->end / SUPERSLAB_UNITS, from + most);
  while (to < end && is_back(to)) to++;
  unit_t begin = (unit_t)(from * SUPERSLAB_UNITS), units = (unit_t)((to - from) * SUPERSLAB_UNITS);
  if (!dense_wants_huge_pages(begin, units, used_units)) return;
  /* Purged in parts, it has kept its tables of small pages, and without this would get small pages
   * again (Linux 6.14 on gives up such a table when all of it is purged). */
  os_purge(map_address(begin), (size_t)units << UNIT_SHIFT);
  map_want_huge_pages(from, to);
}
