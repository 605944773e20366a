/* See stats.h. SPDX-License-Identifier: MIT */
#include "stats.h"

#include "../arena/arena.h"
#include "../arena/metadata.h"
#include "../front/magazine.h"
#include "../os/os.h"
#include "../slab/pool.h"
#include "../support/config.h"
#include "../support/error.h"

#include <stdio.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

const char *stats_version(void) {
  return STRING(HAK_VERSION_MAJOR) "." STRING(HAK_VERSION_MINOR) "." STRING(HAK_VERSION_PATCH);
}

/* ---- Collecting ----------------------------------------------------------------*/

/* Other threads allocate while we walk: a run's record can change between the
 * look at its word and the use of its length, so no length is trusted. */
static HAK_LOOKS_ON void add_units(hak_stats_t *stats, unit_t first, unit_t end) {
  for (unit_t unit = first; unit < end;) {
    const unit_record_t *r = &the_map.records[unit];
    uint32_t word = atomic32_load_relaxed(map_word(unit));
    unsigned kind = word_kind(word);
    size_t units = 1;
    if (word_owner(word) != 0 && kind < SIZE_CLASS_COUNT) {
      const size_class_t *c = &size_classes[kind];
      units = c->slab_units;
      if (size_class_is_single(kind)) {
        stats->large_bytes += c->block_bytes;
      } else {
        stats->slab_bytes += (size_t)c->capacity * c->block_bytes;
        stats->slab_count++;
        size_t words = size_class_bitmap_words(kind), remote = 0;
        for (size_t w = 0; w < words; w++)
          remote += (size_t)__builtin_popcountll(atomic64_load_relaxed(&the_map.remote_bits[unit][w]));
        stats->free_in_slabs += (min_size(HAK_LOOK(r->slab.free_count), c->capacity) + remote) * c->block_bytes;
      }
    } else if (word == word_make(0, KIND_HUGE)) {
      units = max_size(HAK_LOOK(r->run_units), 1);
      stats->huge_bytes += units << UNIT_SHIFT;
    } else if (word == 0) {
      units = max_size(HAK_LOOK(r->run_units), 1);
    }
    unit += (unit_t)min_size(units, end - unit);
  }
}

void stats_collect(hak_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->struct_bytes = sizeof *stats;
  stats->errors = error_count();
  arena_usage_t usage = arena_usage();
  if (usage.committed == 0) return;
  pool_settle();
  stats->reserved = the_map.units << UNIT_SHIFT;
  stats->committed = usage.committed;
  stats->dirty_free = usage.dirty;
  stats->metadata = usage.metadata + metadata_committed_bytes();
  for (zone_id_t zone = 0; zone < ZONE_COUNT; zone++)
    for (unit_t first = 0, end = 0; arena_next_extent(zone, &first, &end);) add_units(stats, first, end);
  FOR_EACH_HEAP(heap) stats->cached += magazines_cached_bytes(heap);
  size_t all = stats->slab_bytes + stats->large_bytes + stats->huge_bytes;
  size_t unused = stats->cached + stats->free_in_slabs;
  stats->live = all > unused ? all - unused : 0;
  stats->heap_count = pool_owner_count();
  stats->heap_pooled_count = pool_pooled_count();
  for (uint32_t id = 1; id <= pool_owner_count(); id++) {
    const owner_t *owner = owner_by_id(id);
    stats->refills += atomic64_load_relaxed(&owner->refills);
    stats->flushes += atomic64_load_relaxed(&owner->flushes);
    stats->remote_frees += atomic64_load_relaxed(&owner->remote_frees);
    stats->adoptions += atomic64_load_relaxed(&owner->adoptions);
  }
  stats->mmap_calls = atomic64_load_relaxed(&os_calls.mmap);
  stats->munmap_calls = atomic64_load_relaxed(&os_calls.munmap);
  stats->madvise_calls = atomic64_load_relaxed(&os_calls.madvise);
  stats->mremap_calls = atomic64_load_relaxed(&os_calls.mremap);
}

/* ---- Printing ------------------------------------------------------------------*/
typedef struct {
  const char *name, *meaning;
  size_t offset;
  bool is_bytes;
} field_t;

#define BYTES(name, meaning) \
  { #name, meaning, offsetof(hak_stats_t, name), true }
#define COUNT(name, meaning) \
  { #name, meaning, offsetof(hak_stats_t, name), false }
static const field_t fields[] = {
    BYTES(reserved, "range that the heap may grow in"),
    BYTES(committed, "heap memory that may be written"),
    BYTES(dirty_free, "free, kept resident for reuse"),
    BYTES(metadata, "page map, slab records, thread heaps"),
    BYTES(slab_bytes, "capacity of slabs"),
    BYTES(large_bytes, "large blocks"),
    BYTES(huge_bytes, "huge blocks"),
    BYTES(live, "held by the program"),
    BYTES(cached, "in threads' magazines"),
    BYTES(free_in_slabs, "free blocks of slabs"),
    COUNT(slab_count, "slabs"),
    COUNT(heap_count, "thread heaps ever made"),
    COUNT(heap_pooled_count, "of them without a thread"),
    COUNT(refills, "magazine refills"),
    COUNT(flushes, "magazine flushes"),
    COUNT(remote_frees, "blocks freed into another thread's slab"),
    COUNT(adoptions, "slabs taken over from ended threads"),
    COUNT(mmap_calls, "system calls"),
    COUNT(munmap_calls, ""),
    COUNT(madvise_calls, ""),
    COUNT(mremap_calls, ""),
    COUNT(errors, "wrong frees"),
};
enum { FIELDS = sizeof fields / sizeof *fields };
static_assert(sizeof(size_t) == sizeof(uint64_t), "every figure is printed as 64 bits");

static uint64_t value_of(const hak_stats_t *stats, const field_t *field) {
  uint64_t value;
  memcpy(&value, (const char *)stats + field->offset, sizeof value);
  return value;
}

void stats_write_json(hak_write_fn *write, void *context) {
  hak_stats_t stats;
  stats_collect(&stats);
  char line[96];
  int n = snprintf(line, sizeof line, "{\"version\": \"%s\"", stats_version());
  bool goes_on = write(context, line, (size_t)n);
  for (size_t i = 0; goes_on && i < FIELDS; i++) {
    n = snprintf(line, sizeof line, ",\n \"%s\": %llu", fields[i].name,
                 (unsigned long long)value_of(&stats, &fields[i]));
    goes_on = write(context, line, (size_t)n);
  }
  if (goes_on) write(context, "}\n", 2);
}

void stats_print(void) {
  hak_stats_t stats;
  stats_collect(&stats);
  char text[4096];
  size_t length = (size_t)snprintf(text, sizeof text, "hakmem %s, process %u\n", stats_version(), os_process_id());
  for (size_t i = 0; i < FIELDS; i++) {
    uint64_t value = value_of(&stats, &fields[i]);
    length += (size_t)snprintf(text + length, sizeof text - length, "  %-18s %14llu %s %s\n", fields[i].name,
                               (unsigned long long)(fields[i].is_bytes ? value / 1024 : value),
                               fields[i].is_bytes ? "KiB" : "   ", fields[i].meaning);
  }
  os_write_stderr(text, length);
}

/* ---- At exit -------------------------------------------------------------------*/
static bool write_to_file(void *context, const char *text, size_t bytes) {
  return os_write_all(*(int *)context, text, bytes);
}

/* The path with each %p replaced by the process id; false if it is too long. */
static bool expand_path(char *out, size_t size, const char *path) {
  size_t length = 0;
  for (; *path != '\0'; path++) {
    bool is_pid = path[0] == '%' && path[1] == 'p';
    int n = is_pid ? snprintf(out + length, size - length, "%u", os_process_id())
                   : snprintf(out + length, size - length, "%c", *path);
    length += (size_t)n;
    if (length >= size) return false;
    path += is_pid;
  }
  return true;
}

static void write_file(const char *pattern) {
  char path[4096];
  int fd = expand_path(path, sizeof path, pattern) ? os_open_for_writing(path) : -1;
  if (fd < 0) {
    os_warn("HAKMEM_STATS_FILE='%s' cannot be written", pattern);
    return;
  }
  stats_write_json(write_to_file, &fd);
  os_close(fd);
}

void stats_report_at_exit(void) {
  if (config()->stats_at_exit) stats_print();
  if (config()->stats_file != NULL) write_file(config()->stats_file);
}
