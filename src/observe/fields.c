/* See fields.h. SPDX-License-Identifier: MIT */
#include "fields.h"

#include <string.h>

const char *version_text(void) { return VERSION_TEXT; }

#define FIELD(type, name, meaning, is_bytes) \
  { #name, meaning, offsetof(type, name), is_bytes }

#define BYTES(name, meaning) FIELD(hak_stats_t, name, meaning, true)
#define COUNT(name, meaning) FIELD(hak_stats_t, name, meaning, false)
const field_t stats_fields[STATS_FIELDS] = {
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
    COUNT(adoptions, "slabs taken over that other threads had no use for"),
    COUNT(mmap_calls, "system calls"),
    COUNT(munmap_calls, ""),
    COUNT(madvise_calls, ""),
    COUNT(mremap_calls, ""),
    COUNT(errors, "wrong frees"),
    BYTES(outboxes, "on the way to another thread or its slab"),
    BYTES(slab_tails, "ends of slabs, too short for a block"),
    BYTES(clean_free, "free, returned or never used"),
    BYTES(peak_in_use, "most that slabs and blocks ever took"),
    BYTES(purged_aged, "returned: free for a second"),
    BYTES(purged_strained, "returned: more than is kept"),
    BYTES(purged_idle, "returned: free pages of idle slabs"),
    BYTES(purged_trimmed, "returned: asked for"),
    BYTES(flushed_unused, "left magazines: unused, or while others grew"),
    BYTES(flushed_stripped, "left magazines: of sleeping threads"),
    BYTES(flushed_ended, "left magazines: of ended threads"),
    BYTES(purged_limited, "returned: near a limit"),
    BYTES(hard_limit, "HAKMEM_HARD_LIMIT, or 0"),
    BYTES(soft_limit, "the soft limit, or 0"),
    BYTES(container_limit, "that of the container, or 0"),
    BYTES(charged, "what counts against the limits"),
    COUNT(refused_purges, "the system did not take memory back"),
    COUNT(refused_membarriers, "other threads' caches could not be looked at"),
    COUNT(refused_threads, "the background thread could not be started"),
};
#undef BYTES
#define BYTES(name, meaning) FIELD(hak_account_t, name, meaning, true)
const field_t account_fields[ACCOUNT_FIELDS] = {
    BYTES(mapped, "may be written"),
    BYTES(returned, "of that, not resident"),
    BYTES(resident, "in memory"),
    BYTES(resident_live, "held by the program"),
    BYTES(resident_cached, "in threads' magazines"),
    BYTES(resident_outboxes, "on the way to another thread or its slab"),
    BYTES(resident_free_in_slabs, "free blocks of slabs"),
    BYTES(resident_slab_tails, "ends of slabs, too short for a block"),
    BYTES(resident_dirty, "free, kept for reuse"),
    BYTES(resident_huge_page_slack, "free and never used, behind huge pages"),
    BYTES(resident_metadata, "page map, slab records, thread heaps"),
};

static_assert(sizeof(size_t) == sizeof(uint64_t), "every figure is printed as 64 bits");
static_assert(STATS_FIELDS + 1 == sizeof(hak_stats_t) / sizeof(uint64_t), "all but struct_bytes");
static_assert(ACCOUNT_FIELDS + 2 == sizeof(hak_account_t) / sizeof(uint64_t), "all but struct_bytes, is_measured");

uint64_t field_value(const void *figures, const field_t *field) {
  uint64_t value;
  memcpy(&value, (const char *)figures + field->offset, sizeof value);
  return value;
}
