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

/* A purged array has no page for a link. So one of them, which has its pages, names others. */
typedef struct directory {
  struct directory *next;
  size_t count;
  void *arrays[];
} directory_t;

/* Guarded by metadata_gate. The first arrays start in the middle of a page: the
 * first blocks of slabs start at its beginning, and where the low 12 bits of two
 * addresses are equal, processors take a load for one of what was just stored. */
static struct {
  void *free[SIZE_COUNT];          /* by log2 of the size; the first word is the link */
  directory_t *purged[SIZE_COUNT]; /* used where there are no others                  */
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

/* The fence keeps an array that a child, which another thread's handler forks just now, finds in the directory from
 * being handed out there twice. */
static void *pop_purged(unsigned size) {
  directory_t *directory = metadata.purged[size];
  if (directory == NULL) return NULL;
  if (directory->count == 0) {
    metadata.purged[size] = directory->next;
    return directory;
  }
  void *array = directory->arrays[directory->count - 1];
  directory->count--;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return array;
}

static void push_purged(unsigned size, void *array) {
  directory_t *directory = metadata.purged[size];
  size_t room = (((size_t)1 << size) - sizeof *directory) / sizeof(void *);
  if (directory != NULL && directory->count < room) {
    directory->arrays[directory->count] = array;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    directory->count++;
    return;
  }
  directory_t *first = array;
  first->next = directory;
  first->count = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  metadata.purged[size] = first;
}

void *metadata_take(size_t bytes) {
  HAK_ASSERT(is_power_of_two(bytes) && bytes >= HAK_CACHE_LINE);
  unsigned size = log2_floor(bytes);
  gate_enter(&metadata_gate);
  void *array = metadata.free[size];
  if (array != NULL) metadata.free[size] = *(void **)array;
  else array = pop_purged(size);
  if (array == NULL) array = take_fresh(bytes);
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

/* ---- Pages of freed arrays -------------------------------------------------------*/

/* Two lists in order of their addresses become one. */
static void *merge(void *one, void *other) {
  void *all = NULL;
  for (void **end = &all;; end = *end) {
    if (one == NULL || (other != NULL && other < one)) {
      void *least = other;
      other = one;
      one = least;
    }
    *end = one;
    if (one == NULL) return all;
    one = *(void **)one;
  }
}

/* parts[i] is of 2^i arrays. */
static void *sort(void *list) {
  void *parts[SIZE_COUNT] = {NULL};
  while (list != NULL) {
    void *part = list;
    list = *(void **)list;
    *(void **)part = NULL;
    unsigned i = 0;
    for (; parts[i] != NULL; parts[i++] = NULL) part = merge(parts[i], part);
    parts[i] = part;
  }
  for (unsigned i = 0; i < SIZE_COUNT; i++) list = merge(parts[i], list);
  return list;
}

/* Purges the first of the sorted arrays, and as many as lie behind each other, a step's at the most: the list
 * without them. */
static void *purge_row(void *list, unsigned size, size_t *purged) {
  enum { STEP_ARRAYS = 1024 };
  size_t bytes = (size_t)1 << size, page = os_page_bytes();
  char *start = list, *end = start;
  for (int i = 0; i < STEP_ARRAYS && list == end; i++, end += bytes) list = *(void **)list;
  char *from = start + align_up((uintptr_t)start, page) - (uintptr_t)start;
  char *to = end - (uintptr_t)end % page;
  if (from < to && os_purge(from, (size_t)(to - from))) *purged += (size_t)(to - from);
  gate_enter(&metadata_gate);
  for (char *array = start; array < end; array += bytes) push_purged(size, array);
  gate_leave(&metadata_gate);
  return list;
}

size_t metadata_purge(void) {
  size_t purged = 0;
  for (unsigned size = log2_floor(os_page_bytes()); size < SIZE_COUNT; size++) {
    gate_enter(&metadata_gate);
    void *list = metadata.free[size];
    metadata.free[size] = NULL;
    gate_leave(&metadata_gate);
    for (list = sort(list); list != NULL;) list = purge_row(list, size, &purged);
  }
  return purged;
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
