/* See metadata.h. SPDX-License-Identifier: MIT */
#include "metadata.h"

#include "../os/os.h"
#include "map.h"

hak_gate_t metadata_gate;

enum { SIZE_COUNT = 48 };
static const size_t step_bytes = HAK_KIB(64);

/* A part of the window that is committed from its start as it is used. */
typedef struct {
  size_t used, committed;
} part_t;

/* Guarded by metadata_gate. The first arrays start in the middle of a page: the
 * first blocks of slabs start at its beginning, and where the low 12 bits of two
 * addresses are equal, processors take a load for one of what was just stored. */
static struct {
  void *free[SIZE_COUNT]; /* by log2 of the size; the first word is the link */
  part_t arrays, heaps;
} metadata = {.arrays = {.used = 2048}};

static bool use_up_to(part_t *part, char *start, char *end, size_t bytes) {
  if (bytes > (size_t)(end - start)) return false;
  if (bytes > part->committed) {
    size_t wanted = align_up(bytes, max_size(step_bytes, os_page_bytes())) - part->committed;
    if (!map_commit(start + part->committed, wanted)) return false;
    part->committed += wanted;
  }
  part->used = bytes;
  return true;
}

void *metadata_take(size_t bytes) {
  HAK_ASSERT(is_power_of_two(bytes) && bytes >= HAK_CACHE_LINE);
  unsigned size = log2_floor(bytes);
  gate_enter(&metadata_gate);
  void *array = metadata.free[size];
  if (array != NULL) {
    metadata.free[size] = *(void **)array;
  } else {
    size_t offset = metadata.arrays.used;
    if (use_up_to(&metadata.arrays, the_map.metadata, the_map.metadata_end, offset + bytes))
      array = the_map.metadata + offset;
  }
  gate_leave(&metadata_gate);
  return array;
}

void metadata_give(void *array, size_t bytes) {
  unsigned size = log2_floor(bytes);
  gate_enter(&metadata_gate);
  *(void **)array = metadata.free[size];
  metadata.free[size] = array;
  gate_leave(&metadata_gate);
}

void *metadata_heap_record(size_t index, size_t bytes) {
  gate_enter(&metadata_gate);
  bool there = use_up_to(&metadata.heaps, the_map.heaps, the_map.heaps_end, (index + 1) * bytes);
  gate_leave(&metadata_gate);
  return there ? the_map.heaps + index * bytes : NULL;
}

size_t metadata_committed_bytes(void) {
  gate_enter(&metadata_gate);
  size_t bytes = metadata.arrays.committed + metadata.heaps.committed;
  gate_leave(&metadata_gate);
  return bytes;
}
