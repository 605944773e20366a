/* See metadata.h. SPDX-License-Identifier: MIT */
#include "metadata.h"

#include "../support/limit.h"
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
  size_t committed_bytes; /* of both */
} metadata = {.arrays = {.used = 2048}};

const inspect_field_t metadata_inspected[1] = {
    HAK_INSPECT_VARIABLE("metadata.committed_bytes", metadata.committed_bytes)};

/* Makes [start + offset, … + bytes) of a part writable: what follows what is used. */
static os_mapped_t use(part_t *part, char *start, char *end, size_t offset, size_t bytes) {
  size_t to = offset + bytes;
  if (to > (size_t)(end - start)) return OS_REFUSED;
  if (to > part->committed) {
    size_t wanted = align_up(to, max_size(step_bytes, os_page_bytes())) - part->committed;
    if (!limit_charge(wanted)) return OS_REFUSED;
    os_mapped_t mapped = map_commit(start + part->committed, wanted);
    if (mapped != OS_MAPPED) limit_credit(wanted);
    if (mapped != OS_MAPPED) return mapped;
    part->committed += wanted;
    metadata.committed_bytes += wanted;
  }
  part->used = to;
  return OS_MAPPED;
}

/* Fresh memory for arrays; behind what may lie in the way. */
static void *take_fresh(size_t bytes) {
  part_t *part = &metadata.arrays;
  for (size_t skip = step_bytes;; skip *= 2) {
    size_t offset = part->used;
    os_mapped_t mapped = use(part, the_map.metadata, the_map.metadata_end, offset, bytes);
    if (mapped == OS_MAPPED) return the_map.metadata + offset;
    if (mapped == OS_REFUSED) return NULL;
    part->used = part->committed = align_up(part->committed + skip, max_size(step_bytes, os_page_bytes()));
  }
}

void *metadata_take(size_t bytes) {
  HAK_ASSERT(is_power_of_two(bytes) && bytes >= HAK_CACHE_LINE);
  unsigned size = log2_floor(bytes);
  gate_enter(&metadata_gate);
  void *array = metadata.free[size];
  if (array != NULL) metadata.free[size] = *(void **)array;
  else array = take_fresh(bytes);
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
  os_mapped_t mapped = use(&metadata.heaps, the_map.heaps, the_map.heaps_end, index * bytes, bytes);
  gate_leave(&metadata_gate);
  return mapped == OS_MAPPED ? the_map.heaps + index * bytes : NULL;
}

bool metadata_piece(unsigned index, char **at, size_t *bytes) {
  if (index > 1) return false;
  gate_enter(&metadata_gate);
  *at = index == 0 ? the_map.heaps : the_map.metadata;
  *bytes = index == 0 ? metadata.heaps.committed : metadata.arrays.committed;
  gate_leave(&metadata_gate);
  return true;
}

size_t metadata_committed_bytes(void) {
  gate_enter(&metadata_gate);
  size_t bytes = metadata.committed_bytes;
  gate_leave(&metadata_gate);
  return bytes;
}
