/* See inspect.h. SPDX-License-Identifier: MIT */
#include "inspect.h"

#include "../arena/kept.h"
#include "../arena/metadata.h"
#include "../arena/zone.h"
#include "../front/capacity.h"
#include "../front/heap.h"
#include "../front/record.h"
#include "../region/region_word.h"
#include "../slab/depot.h"
#include "../slab/parcel.h"
#include "../slab/pool_fork.h"
#include "../support/error.h"
#include "../support/limit.h"
#include "../support/tally.h"
#include "fields.h"

static_assert(offsetof(unit_record_t, slab.free_count) == offsetof(unit_record_t, region.free_count) &&
                  sizeof((unit_record_t){0}.slab.free_count) == sizeof((unit_record_t){0}.region.free_count),
              "one name for both");

/* What headers show. */
static const inspect_field_t fields[] = {
    /* Numbers of docs/design.md ("Words"), and the sizes of the tables' elements. */
    HAK_INSPECT_NUMBER("unit.bytes", UNIT_BYTES),
    HAK_INSPECT_NUMBER("superslab.units", SUPERSLAB_UNITS),
    HAK_INSPECT_NUMBER("superslab.bytes", sizeof(superslab_t)),
    HAK_INSPECT_NUMBER("record.bytes", sizeof(unit_record_t)),
    HAK_INSPECT_NUMBER("bitmap.bytes", UNIT_BITMAP_WORDS * sizeof(uint64_t)),
    HAK_INSPECT_NUMBER("heap.bytes", sizeof(heap_t)),
    HAK_INSPECT_NUMBER("class.single_from", MID_CLASS_END),
    HAK_INSPECT_NUMBER("magazine.most", MAX_CAPACITY),
    HAK_INSPECT_NUMBER("word.owner_shift", KIND_BITS),
    HAK_INSPECT_NUMBER("kind.huge", KIND_HUGE),
    HAK_INSPECT_NUMBER("kind.region", KIND_REGION),
    HAK_INSPECT_NUMBER("region.lone", REGION_LONE),
    HAK_INSPECT_NUMBER("region.copied", REGION_COPIED),
    HAK_INSPECT_NUMBER("state.attached", OWNER_ATTACHED),
    HAK_INSPECT_NUMBER("state.pooled", OWNER_POOLED),
    HAK_INSPECT_NUMBER("state.lost", OWNER_LOST),
    /* The window. */
    HAK_INSPECT_VARIABLE("map.base", the_map.base),
    HAK_INSPECT_VARIABLE("map.units", the_map.units),
    HAK_INSPECT_VARIABLE("map.records", the_map.records),
    HAK_INSPECT_VARIABLE("map.free_bits", the_map.free_bits),
    HAK_INSPECT_VARIABLE("map.remote_bits", the_map.remote_bits),
    HAK_INSPECT_VARIABLE("map.superslabs", the_map.superslabs),
    HAK_INSPECT_VARIABLE("map.heaps", the_map.heaps),
    HAK_INSPECT_VARIABLE("map.metadata", the_map.metadata),
    HAK_INSPECT_ARRAY("map.zone_first", the_map.zone_first[0], ZONE_COUNT, sizeof(unit_t)),
    /* Size classes. */
    HAK_INSPECT_ARRAY("class.block_bytes", size_classes[0].block_bytes, SIZE_CLASS_COUNT, sizeof(size_class_t)),
    HAK_INSPECT_ARRAY("class.slab_units", size_classes[0].slab_units, SIZE_CLASS_COUNT, sizeof(size_class_t)),
    HAK_INSPECT_ARRAY("class.capacity", size_classes[0].capacity, SIZE_CLASS_COUNT, sizeof(size_class_t)),
    /* Of the tables' elements. */
    HAK_INSPECT_MEMBER("record.run_units", unit_record_t, run_units),
    HAK_INSPECT_MEMBER("record.free_count", unit_record_t, slab.free_count), /* a region's, too */
    HAK_INSPECT_MEMBER("record.lone_units", unit_record_t, region.units),
    HAK_INSPECT_MEMBER("superslab.used", superslab_t, used),
    HAK_INSPECT_MEMBER("superslab.dirty", superslab_t, dirty),
    HAK_INSPECT_MEMBERS("heap.top", heap_t, slots[0].top, SIZE_CLASS_COUNT, sizeof(slots_t)),
    HAK_INSPECT_MEMBERS("heap.limit", heap_t, slots[0].limit, SIZE_CLASS_COUNT, sizeof(slots_t)),
    HAK_INSPECT_MEMBERS("heap.capacity", heap_t, magazines[0].capacity, SIZE_CLASS_COUNT, sizeof(magazine_t)),
    HAK_INSPECT_MEMBER("heap.id_word", heap_t, id_word),
    HAK_INSPECT_MEMBER("heap.outbox", heap_t, owner.outbox),
    HAK_INSPECT_MEMBERS("heap.parcels", heap_t, owner.parcels[0], OUTBOX_PARCELS, sizeof(uint32_t)),
    HAK_INSPECT_MEMBER("heap.mail", heap_t, owner.pending.mail),
    HAK_INSPECT_MEMBER("heap.mail_taken", heap_t, owner.mail_taken),
    HAK_INSPECT_MEMBERS("outbox.bits", outbox_t, entries[0].bits, OUTBOX_ENTRIES, sizeof(outbox_entry_t)),
    HAK_INSPECT_MEMBERS("outbox.class", outbox_t, entries[0].size_class, OUTBOX_ENTRIES, sizeof(outbox_entry_t)),
    HAK_INSPECT_MEMBER("parcel.next", parcel_t, next),
    HAK_INSPECT_MEMBER("parcel.count", parcel_t, count),
    HAK_INSPECT_MEMBERS("parcel.bits", parcel_t, entries[0].bits, PARCEL_ENTRIES, sizeof(outbox_entry_t)),
    HAK_INSPECT_MEMBERS("parcel.class", parcel_t, entries[0].size_class, PARCEL_ENTRIES, sizeof(outbox_entry_t)),
    HAK_INSPECT_NUMBER("parcel.step", HAK_CACHE_LINE),
    HAK_INSPECT_NUMBER("mail.most", MAIL_MOST),
    HAK_INSPECT_MEMBER("heap.state", heap_t, owner.state),
    HAK_INSPECT_MEMBER("heap.stripped", heap_t, owner.stripped),
    HAK_INSPECT_MEMBER("heap.process_id", heap_t, owner.process_id),
    HAK_INSPECT_MEMBER("heap.thread_id", heap_t, owner.thread_id),
    HAK_INSPECT_MEMBER("heap.refills", heap_t, owner.refills),
    HAK_INSPECT_MEMBER("heap.flushes", heap_t, owner.flushes),
    HAK_INSPECT_MEMBER("heap.remote_frees", heap_t, owner.remote_frees),
    HAK_INSPECT_MEMBER("heap.adoptions", heap_t, owner.adoptions),
    /* Figures of hak_stats, under the same names. */
    HAK_INSPECT_VARIABLE("mmap_calls", os_calls.mmap),
    HAK_INSPECT_VARIABLE("munmap_calls", os_calls.munmap),
    HAK_INSPECT_VARIABLE("madvise_calls", os_calls.madvise),
    HAK_INSPECT_VARIABLE("mremap_calls", os_calls.mremap),
    HAK_INSPECT_VARIABLE("refused_purges", os_calls.refused_purges),
    HAK_INSPECT_VARIABLE("refused_membarriers", os_calls.refused_membarriers),
    HAK_INSPECT_VARIABLE("refused_threads", os_calls.refused_threads),
    HAK_INSPECT_VARIABLE("purged_aged", tallies[TALLY_AGED]),
    HAK_INSPECT_VARIABLE("purged_strained", tallies[TALLY_STRAINED]),
    HAK_INSPECT_VARIABLE("purged_idle", tallies[TALLY_IDLE]),
    HAK_INSPECT_VARIABLE("purged_trimmed", tallies[TALLY_TRIMMED]),
    HAK_INSPECT_VARIABLE("flushed_unused", tallies[TALLY_UNUSED]),
    HAK_INSPECT_VARIABLE("flushed_stripped", tallies[TALLY_STRIPPED]),
    HAK_INSPECT_VARIABLE("flushed_ended", tallies[TALLY_ENDED]),
    HAK_INSPECT_VARIABLE("purged_limited", tallies[TALLY_LIMITED]),
};

#define GROUP(fields) \
  { fields, sizeof(fields) / sizeof *(fields) }

/* Used by nobody in here, so that a linker of sections (--gc-sections) would leave it out. */
__attribute__((visibility("default"), used, retain)) const inspect_root_t hak_inspect_root = {
    .mark = INSPECT_MARK,
    .self = &hak_inspect_root,
    .layout = INSPECT_LAYOUT,
    .root_bytes = sizeof(inspect_root_t),
    .field_bytes = sizeof(inspect_field_t),
    .group_count = INSPECT_GROUPS,
    .version = VERSION_TEXT,
    .groups = {GROUP(fields), GROUP(map_inspected), GROUP(zone_inspected), GROUP(kept_inspected),
               GROUP(metadata_inspected), GROUP(pool_inspected), GROUP(pool_fork_inspected), GROUP(error_inspected),
               GROUP(limit_inspected), GROUP(record_inspected), GROUP(depot_inspected)},
};
