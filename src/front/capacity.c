/* See capacity.h. SPDX-License-Identifier: MIT */
#include "capacity.h"

#include "../support/limit.h"
#include "../support/profile.h"

/* Of large blocks, what is taken to be in memory at the least: the first and the last page are not looked at. */
enum { ENDS_SHARE = 8 };

/* Near a limit: for the first capacities of small blocks. */
static const size_t budget_near_limit = HAK_KIB(64);

static size_t block_bytes(unsigned size_class) { return size_classes[size_class].block_bytes; }
static size_t twice(size_t capacity) { return capacity * 2 + 1; }

size_t capacity_budget(size_t threads, bool is_attended) {
  if (limit_exists() && limit_is_near(0)) return budget_near_limit;
  if (threads <= 1) return BUDGET_LONE_BYTES;
  return max_size((is_attended ? BUDGET_BYTES : BUDGET_UNATTENDED_BYTES) / threads, BUDGET_LEAST_BYTES);
}

size_t capacity_small(size_t out_bytes) { return max_size(4 * out_bytes, SMALL_FLOOR_BYTES); }

size_t capacity_large_floor(size_t threads, size_t others_bytes) {
  size_t floor = max_size(LARGE_FLOOR_BYTES, profile_scale.trusted_bytes);
  size_t left = floor - min_size(others_bytes, floor);
  return max_size(left, max_size(floor / max_size(threads, 1), LARGE_FLOOR_LEAST_BYTES));
}

size_t capacity_large(size_t wide_bytes, size_t others_bytes, size_t floor_bytes, unsigned looked_at,
                      unsigned resident) {
  if (looked_at > 0 && resident == 0) return SIZE_MAX;
  size_t floor = looked_at > 0 ? floor_bytes / resident * looked_at : floor_bytes;
  size_t most = others_bytes == 0 ? wide_bytes / 5 * 4 /* four times the fifth that is out */ : wide_bytes / 2;
  return max_size(most - min_size(others_bytes, most), floor);
}

size_t capacity_absent(size_t large_bytes, unsigned looked_at, unsigned resident) {
  size_t present = max_size(resident, looked_at / ENDS_SHARE);
  return looked_at > 0 ? large_bytes / looked_at * (looked_at - present) : 0;
}

/* A tiny block is a bit; a mid one is a good part of a slab, which comes and goes; a
 * large one is a slab. */
size_t capacity_block_cost(unsigned size_class) {
  return size_class < TINY_CLASS_COUNT ? 1 : size_class < MID_CLASS_END ? 8 : 64;
}

size_t capacity_first(unsigned size_class) {
  size_t blocks = FIRST_BYTES / block_bytes(size_class), capacity = FIRST_CAPACITY;
  while (capacity > 1 && capacity > blocks) capacity /= 2;
  return capacity;
}

size_t capacity_least(unsigned size_class) { return size_class_is_single(size_class) ? 0 : capacity_first(size_class); }

/* Less than a fair batch. Mid blocks would come one by one where nothing but bytes counted. */
static bool is_small(unsigned size_class, size_t capacity, size_t batch_bytes) {
  size_t bytes = capacity * block_bytes(size_class);
  if (capacity < BATCH_CAPACITY && bytes < batch_bytes) return true;
  return !size_class_is_single(size_class) && capacity < MID_BATCH_CAPACITY && bytes < MID_BATCH_BYTES;
}

size_t capacity_batch_bytes(size_t threads, bool is_one_way) {
  if (!is_one_way) return BATCH_BYTES;
  return max_size(min_size(BATCH_ALL_BYTES / max_size(threads, 1), BATCH_ONE_WAY_BYTES), BATCH_BYTES);
}

size_t capacity_when_empty(unsigned size_class, size_t capacity, size_t batch_bytes, bool missed, bool gave) {
  if (capacity == 0) return gave || !size_class_is_single(size_class) ? capacity_first(size_class) : 0;
  return missed && is_small(size_class, capacity, batch_bytes) ? twice(capacity) : capacity;
}

size_t capacity_when_full(unsigned size_class, size_t capacity, bool missed) {
  if (capacity == 0) return size_class_is_single(size_class) ? 0 : capacity_first(size_class);
  return missed && twice(capacity) <= MAX_CAPACITY ? twice(capacity) : capacity;
}

size_t capacity_when_sent(unsigned size_class, size_t capacity, size_t batch_bytes) {
  if (capacity == 0) return capacity_first(size_class);
  return is_small(size_class, capacity, batch_bytes) ? twice(capacity) : capacity;
}

size_t capacity_refill(size_t capacity) { return max_size((capacity + 1) / 2, 1); }

size_t capacity_flush(unsigned size_class, size_t capacity) {
  size_t most = min_size(FLUSH_COST / capacity_block_cost(size_class), FLUSH_BYTES / block_bytes(size_class));
  return min_size((capacity + 1) / 2, max_size(most, 1));
}
