/* The root by which a process is read from outside: what it names is what it says. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <observe/inspect.h>
#include <slab/size_class.h>

#include <cstring>
#include <map>
#include <string>

namespace {

/* As a tool reads it. */
std::map<std::string, inspect_field_t> fields() {
  std::map<std::string, inspect_field_t> all;
  for (uint32_t g = 0; g < hak_inspect_root.group_count; g++) {
    const inspect_group_t &group = hak_inspect_root.groups[g];
    for (uint64_t i = 0; i < group.count; i++) {
      const inspect_field_t &field = group.fields[i];
      EXPECT_LT(strnlen(field.name, sizeof field.name), sizeof field.name) << "the name has no end";
      EXPECT_TRUE(all.emplace(field.name, field).second) << field.name << " is there twice";
    }
  }
  return all;
}

uint64_t at(const void *place, const inspect_field_t &field, size_t index = 0) {
  uint64_t value = 0;
  EXPECT_LT(index, field.count) << field.name;
  EXPECT_LE(field.bytes, sizeof value) << field.name;
  memcpy(&value, static_cast<const char *>(place) + index * field.stride, field.bytes);
  return value;
}

uint64_t variable(const std::string &name, size_t index = 0) {
  const inspect_field_t field = fields().at(name);
  EXPECT_EQ(field.kind, INSPECT_VARIABLE) << name;
  return at(field.at, field, index);
}

uint64_t number(const std::string &name) {
  const inspect_field_t field = fields().at(name);
  EXPECT_EQ(field.kind, INSPECT_NUMBER) << name;
  return reinterpret_cast<uintptr_t>(field.at);
}

uint64_t member(const void *record, const std::string &name, size_t index = 0) {
  const inspect_field_t field = fields().at(name);
  EXPECT_EQ(field.kind, INSPECT_MEMBER) << name;
  return at(static_cast<const char *>(record) + reinterpret_cast<uintptr_t>(field.at), field, index);
}

uint64_t address(const void *place) { return reinterpret_cast<uintptr_t>(place); }

}  // namespace

TEST(Inspect, TheRootSaysWhatItIs) {
  EXPECT_STREQ(hak_inspect_root.mark, INSPECT_MARK);
  EXPECT_EQ(hak_inspect_root.self, &hak_inspect_root);
  EXPECT_STREQ(hak_inspect_root.version, hak_version());
  EXPECT_EQ(hak_inspect_root.root_bytes, sizeof hak_inspect_root);
  EXPECT_EQ(hak_inspect_root.field_bytes, sizeof(inspect_field_t));
  EXPECT_GT(fields().size(), 50u);
}

TEST(Inspect, WhatItNamesIsThere) {
  void *small = hak_malloc(100), *huge = hak_malloc(HAK_MIB(6));
  std::vector<void *> wide; /* so that something is mapped ahead */
  for (int i = 0; i < 600; i++) wide.push_back(hak_malloc(300000));
  EXPECT_EQ(variable("map.base"), address(the_map.base));
  EXPECT_EQ(variable("map.units"), the_map.units);
  EXPECT_EQ(variable("map.records"), address(the_map.records));
  EXPECT_EQ(variable("map.free_bits"), address(the_map.free_bits));
  EXPECT_EQ(variable("map.remote_bits"), address(the_map.remote_bits));
  EXPECT_EQ(variable("map.superslabs"), address(the_map.superslabs));
  EXPECT_EQ(variable("map.heaps"), address(the_map.heaps));
  EXPECT_EQ(variable("map.zone_first", 1), the_map.zone_first[1]);
  EXPECT_EQ(variable("pool.owner_count"), pool_owner_count());
  EXPECT_EQ(variable("errors"), error_count());

  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  EXPECT_EQ(variable("map.table_bytes") + variable("metadata.committed_bytes"), stats.metadata);
  EXPECT_EQ(variable("arena.peak_units") * number("unit.bytes"), stats.peak_in_use);
  EXPECT_EQ(variable("mmap_calls"), stats.mmap_calls);
  EXPECT_EQ(variable("madvise_calls"), stats.madvise_calls);
  EXPECT_EQ(variable("charged"), stats.charged);
  EXPECT_EQ(variable("refused_purges"), stats.refused_purges);
  EXPECT_EQ(variable("purged_limited"), stats.purged_limited);
  uint64_t units = 0;
  for (size_t zone = 0; zone < fields().at("zone.extent_count").count; zone++) {
    inspect_field_t first = fields().at("zone.extent_first"), end = fields().at("zone.extent_end");
    const size_t behind = zone * number("zone.bytes"), count = variable("zone.extent_count", zone);
    for (size_t i = 0; i < count; i++) {
      const uint64_t to = i + 1 < count ? at(static_cast<const char *>(end.at) + behind, end, i)
                                        : variable("zone.mapped_to", zone);
      units += to - at(static_cast<const char *>(first.at) + behind, first, i);
    }
  }
  EXPECT_EQ(units * number("unit.bytes"), stats.committed);

  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    EXPECT_EQ(variable("class.block_bytes", c), size_classes[c].block_bytes);
    EXPECT_EQ(variable("class.slab_units", c), size_classes[c].slab_units);
    EXPECT_EQ(variable("class.capacity", c), size_classes[c].capacity);
  }
  for (void *block : wide) hak_free(block);
  hak_free(small);
  hak_free(huge);
}

TEST(Inspect, MembersLieWhereItSays) {
  hak_free(hak_malloc(100));
  const heap_t *heap = the_heap;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    EXPECT_EQ(member(heap, "heap.top", c), address(heap->slots[c].top));
    EXPECT_EQ(member(heap, "heap.limit", c), address(heap->slots[c].limit));
    EXPECT_EQ(member(heap, "heap.capacity", c), heap->magazines[c].capacity);
  }
  EXPECT_EQ(number("heap.bytes"), sizeof *heap);
  EXPECT_EQ(member(heap, "heap.thread_id"), heap->owner.thread_id);
  EXPECT_EQ(member(heap, "heap.process_id"), heap->owner.process_id);
  EXPECT_EQ(member(heap, "heap.state"), heap->owner.state);
  EXPECT_EQ(member(heap, "heap.refills"), atomic64_load_relaxed(&heap->owner.refills));

  /* Of records no two members are alike. */
  heap_t other = *heap;
  outbox_t outbox = {};
  for (unsigned i = 0; i < OUTBOX_ENTRIES; i++)
    outbox.entries[i].bits = 1000 + i, outbox.entries[i].size_class = (uint8_t)i;
  parcel_t parcel = {};
  parcel.next = 31, parcel.owner = 32, parcel.count = 33, parcel.bytes = 34;
  for (unsigned i = 0; i < PARCEL_ENTRIES; i++)
    parcel.entries[i].bits = 2000 + i, parcel.entries[i].size_class = (uint8_t)(100 + i);
  other.owner.outbox = &outbox;
  for (unsigned i = 0; i < OUTBOX_PARCELS; i++) other.owner.parcels[i] = 3000 + i;
  other.owner.pending.mail.value = uint64_t{41} << 32 | 42;
  other.owner.mail_taken = 43;
  other.owner.stripped = true;
  for (unsigned i = 0; i < OUTBOX_ENTRIES; i++) {
    EXPECT_EQ(member(&outbox, "outbox.bits", i), 1000 + i);
    EXPECT_EQ(member(&outbox, "outbox.class", i), i);
  }
  for (unsigned i = 0; i < PARCEL_ENTRIES; i++) {
    EXPECT_EQ(member(&parcel, "parcel.bits", i), 2000 + i);
    EXPECT_EQ(member(&parcel, "parcel.class", i), 100 + i);
  }
  EXPECT_EQ(member(&parcel, "parcel.next"), 31u);
  EXPECT_EQ(member(&parcel, "parcel.count"), 33u);
  EXPECT_EQ(number("parcel.step"), HAK_CACHE_LINE);
  EXPECT_EQ(number("mail.most"), MAIL_MOST);
  EXPECT_EQ(variable("map.metadata"), address(the_map.metadata));
  EXPECT_EQ(member(&other, "heap.outbox"), address(&outbox));
  for (unsigned i = 0; i < OUTBOX_PARCELS; i++) EXPECT_EQ(member(&other, "heap.parcels", i), 3000 + i);
  EXPECT_EQ(member(&other, "heap.mail"), uint64_t{41} << 32 | 42);
  EXPECT_EQ(member(&other, "heap.mail_taken"), 43u);
  EXPECT_EQ(member(&other, "heap.stripped"), 1u);
  unit_record_t record = {};
  record.run_units = 11, record.slab.free_count = 12, record.slab.capacity = 13;
  EXPECT_EQ(member(&record, "record.run_units"), 11u);
  EXPECT_EQ(member(&record, "record.free_count"), 12u);
  superslab_t superslab = {};
  superslab.used = 21, superslab.dirty = 22, superslab.stale = 23;
  EXPECT_EQ(member(&superslab, "superslab.used"), 21u);
  EXPECT_EQ(member(&superslab, "superslab.dirty"), 22u);
}
