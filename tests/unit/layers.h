/*
 * What unit tests share: the internal headers, as C++ takes them, and a few words
 * for what most tests do.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_UNIT_LAYERS_H
#define HAK_TESTS_UNIT_LAYERS_H

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <api/alloc.h>
#include <arena/arena.h>
#include <arena/arena_look.h>
#include <arena/arena_purge.h>
#include <arena/huge.h>
#include <arena/huge_pages.h>
#include <arena/metadata.h>
#include <arena/pages.h>
#include <arena/runs.h>
#include <arena/zone.h>
#include <front/array.h>
#include <front/boundary.h>
#include <front/capacity.h>
#include <front/decay.h>
#include <front/flush.h>
#include <front/magazine.h>
#include <front/sharing.h>
#include <front/strip.h>
#include <front/thread.h>
#include <front/travel.h>
#include <front/unload.h>
#include <hakmem.h>
#include <int/idle.h>
#include <int/trim.h>
#include <observe/account.h>
#include <observe/check.h>
#include <observe/residency.h>
#include <os/lock.h>
#include <os/os.h>
#include <slab/adopt.h>
#include <slab/batch.h>
#include <slab/claim.h>
#include <slab/depot.h>
#include <slab/orphanage.h>
#include <slab/pool.h>
#include <slab/pool_fork.h>
#include <slab/purge.h>
#include <slab/parcel.h>
#include <slab/remote.h>
#include <slab/single.h>
#include <slab/slab.h>
#include <slab/slab_list.h>
#include <slab/spill.h>
#include <slab/surplus.h>
#include <slab/tidy.h>
#include <support/config.h>
#include <support/error.h>
#include <support/limit.h>
#include <support/tally.h>

#include <gtest/gtest.h>

namespace hak_test {

inline unit_record_t &record(unit_t unit) { return the_map.records[unit]; }

/* Marks the units of a run as in use, as every caller of arena_take does. */
inline void write_words(unit_t first, std::size_t units, std::uint32_t word) {
  for (std::size_t i = 0; i < units; i++) atomic32_store_relaxed(map_word(first + i), word);
}
inline std::size_t cached_bytes(const heap_t *heap) {
  std::size_t bytes = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++)
    bytes += magazine_count_of_others(heap, c) * size_classes[c].block_bytes;
  return bytes;
}
/* Of all heaps. */
inline std::size_t cached_bytes() {
  std::size_t bytes = 0;
  FOR_EACH_HEAP(heap) bytes += cached_bytes(heap);
  return bytes;
}

/* That of the calling thread, which has one afterwards. */
inline heap_t *own_heap() {
  hak_free(hak_malloc(1));
  return the_heap;
}
/* While it lives, memory comes back over time as that setting says. Off, seconds pass for heaps only where a test says
 * so: where there is much else to do, one ends at any place, and what is expected of the next has not happened in it
 * yet. */
class OverTime {
 public:
  explicit OverTime(over_time_t over_time) { set(over_time); }
  ~OverTime() { set(was_); }

 private:
  static void set(over_time_t over_time) { const_cast<config_t *>(config())->over_time = over_time; }
  over_time_t was_ = config()->over_time;
};

/* A round of decay_now, as it comes once a second. */
inline void a_second_passes(heap_t *heap) {
  const OverTime over_time(OVER_TIME_INLINE);
  heap->decayed_ms = 0;
  owner_enter(&heap->owner);
  do {
    heap->looked_ms = 0; /* the clock has moved on */
    decay_now(heap, false);
  } while (heap->decay_classes > 0);
  owner_leave(&heap->owner);
}

inline constexpr std::uint32_t kInUse = KIND_INNER;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/* huge_realloc of a block that no other thread has. */
inline void *huge_resized(void *block, std::size_t bytes) {
  bool is_lost = false;
  void *moved = huge_realloc(block, bytes, &is_lost);
  EXPECT_FALSE(is_lost);
  return moved;
}

/* Whether all bytes are zero. */
inline bool is_zero(const void *at, std::size_t bytes) {
  auto *p = static_cast<const char *>(at);
  return bytes == 0 || (p[0] == 0 && std::memcmp(p, p + 1, bytes - 1) == 0);
}

/* An owner as a thread has it, without the thread: any number in one thread. */
class AttachedOwner {
 public:
  AttachedOwner() : owner_(pool_attach()) {}
  ~AttachedOwner() { detach(); }
  AttachedOwner(const AttachedOwner &) = delete;
  void detach() {
    if (owner_ != nullptr) pool_detach(owner_);
    owner_ = nullptr;
  }
  operator owner_t *() const { return owner_; }
  owner_t *operator->() const { return owner_; }

  std::vector<void *> refill(unsigned size_class, std::size_t count) {
    std::vector<void *> blocks(count);
    std::size_t got = 0;
    while (got < count) {
      std::size_t n = batch_refill(owner_, size_class, blocks.data() + got, count - got, nullptr);
      if (n == 0) {
        ADD_FAILURE() << "no memory for blocks of class " << size_class;
        break;
      }
      got += n;
    }
    blocks.resize(got);
    return blocks;
  }
  void flush(unsigned size_class, const std::vector<void *> &blocks) {
    batch_flush(owner_, size_class, blocks.data(), blocks.size());
    error_settle();
  }

 private:
  owner_t *owner_;
};

inline unit_t slab_of(const void *block) {
  unit_t unit = static_cast<unit_t>(map_unit_of(block));
  return slab_first_unit(unit, word_kind(map_lookup(block)));
}
inline std::uint32_t owner_of(const void *block) { return word_owner(map_lookup(block)); }

/* Where a zone ends by now. */
inline unit_t zone_end(zone_id_t id) { return zone_look(id)->extents[zone_look(id)->extent_count - 1].end; }

/* All rounds of tidy_some in the next seconds, `flush` and `strip` left out. */
inline void tidy() {
  static std::uint64_t now_ms = os_now_ms();
  for (int round = 0; round < 5; round++, now_ms += 2000)
    while (tidy_some(now_ms, nullptr, nullptr) != TIDY_NOTHING) now_ms += 10;
}

inline std::size_t used_bytes() { return arena_usage().used; }
/* What is dirty goes back to the system, but for so much. Returns the bytes that went. */
inline std::size_t purge_dirty(std::size_t keep_bytes = 0) { return arena_purge_for(TALLY_TRIMMED, keep_bytes); }

/* Whole pages; reading them would make them resident. */
inline std::size_t resident_pages(void *at, std::size_t bytes) {
  std::vector<unsigned char> resident(bytes / os_page_bytes());
  EXPECT_TRUE(os_resident_pages(at, bytes, resident.data()));
  std::size_t count = 0;
  for (unsigned char each : resident) count += each & 1;
  return count;
}

/* A test with an owner, all of whose slabs have gone when it ends. */
class WithAnOwner : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(static_cast<owner_t *>(owner), nullptr); }
  void TearDown() override {
    slab_release_empty(owner);
    slab_check(owner);
    arena_check();
    EXPECT_EQ(used_bytes(), 0u) << "slabs without a block in use were kept";
    EXPECT_EQ(owner->free_bytes, 0);
  }
  AttachedOwner owner;
};

}  // namespace hak_test
#endif
