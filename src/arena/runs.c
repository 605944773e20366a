/* See runs.h. SPDX-License-Identifier: MIT */
#include "runs.h"

HAK_INLINE unit_record_t *record(unit_t run) { return map_record(run); }

/* Fibonacci hashing (Knuth, TAOCP 6.4) then a fold: spreads neighbours. */
HAK_INLINE uint32_t priority(unit_t run) {
  uint64_t mixed = run * 0x9E3779B97F4A7C15u;
  return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed;
}

HAK_INLINE bool is_before(size_t units, unit_t first, unit_t other) {
  return units != record(other)->run_units ? units < record(other)->run_units : first < other;
}

void runs_insert(unit_t *root, unit_t run) {
  size_t units = record(run)->run_units;
  unit_t *link = root;
  while (*link != 0 && priority(*link) >= priority(run))
    link = is_before(units, run, *link) ? &record(*link)->free.left : &record(*link)->free.right;
  /* Split what hangs here into what comes before the run and what after. */
  unit_t rest = *link, *before = &record(run)->free.left, *after = &record(run)->free.right;
  *link = run;
  while (rest != 0) {
    if (is_before(units, run, rest)) {
      *after = rest;
      after = &record(rest)->free.left;
      rest = *after;
    } else {
      *before = rest;
      before = &record(rest)->free.right;
      rest = *before;
    }
  }
  *before = *after = 0;
}

void runs_remove(unit_t *root, unit_t run) {
  size_t units = record(run)->run_units;
  unit_t *link = root;
  while (*link != run) {
    HAK_ASSERT(*link != 0);
    link = is_before(units, run, *link) ? &record(*link)->free.left : &record(*link)->free.right;
  }
  /* Join its two subtrees in its place. */
  unit_t before = record(run)->free.left, after = record(run)->free.right;
  while (before != 0 && after != 0) {
    if (priority(before) >= priority(after)) {
      *link = before;
      link = &record(before)->free.right;
      before = *link;
    } else {
      *link = after;
      link = &record(after)->free.left;
      after = *link;
    }
  }
  *link = before != 0 ? before : after;
}

unit_t runs_not_before(unit_t root, size_t units, unit_t first) {
  unit_t best = 0;
  for (unit_t run = root; run != 0;) {
    bool fits = record(run)->run_units != units ? record(run)->run_units > units : run >= first;
    if (fits) best = run;
    run = fits ? record(run)->free.left : record(run)->free.right;
  }
  return best;
}

size_t runs_check(unit_t root, size_t *units) {
  if (root == 0) return 0;
  unit_t left = record(root)->free.left, right = record(root)->free.right;
  HAK_CHECK(left == 0 || (is_before(record(left)->run_units, left, root) && priority(left) <= priority(root)));
  HAK_CHECK(right == 0 || (!is_before(record(right)->run_units, right, root) && priority(right) <= priority(root)));
  *units += record(root)->run_units;
  return 1 + runs_check(left, units) + runs_check(right, units);
}
