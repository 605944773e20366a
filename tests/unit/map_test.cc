/*
 * The window under limits of the address space. Each case is a child that has
 * not used the library before.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layers.h"
#include "support/payload.h"
#include "support/child.h"

#include <cstdio>
#include <sys/resource.h>

namespace {

using hak_test::expect_zero;
using hak_test::kMiB;

void limit_address_space(size_t beyond_now) {
  rlimit limit;
  limit.rlim_cur = limit.rlim_max = hak_test::status_kib("VmSize:") * 1024 + beyond_now;
  setrlimit(RLIMIT_AS, &limit);
}

/* Blocks of every kind, until memory is at an end; all is given back; then again. */
int use_up_twice(size_t expected) {
  for (int round = 0; round < 2; round++) {
    void *chain = nullptr; /* of blocks, through their first word */
    size_t held = 0;
    const size_t sizes[] = {24, 500, 3000, 40000, 300000, 3 * kMiB, 9 * kMiB};
    for (size_t i = 0;; i++) {
      size_t bytes = sizes[i % std::size(sizes)];
      errno = 0;
      void *block = hak_malloc(bytes);
      if (block == nullptr) {
        REQUIRE(errno == ENOMEM);
        break;
      }
      REQUIRE(hak_owns(block));
      std::memset(block, 0xAB, bytes);
      *static_cast<void **>(block) = chain;
      chain = block;
      held += bytes;
    }
    if (held < expected)
      return std::fprintf(stderr, "round %d: only %zu of %zu MiB could be used\n", round, held / kMiB, expected / kMiB),
             1;
    hak__check_all();
    while (chain != nullptr) {
      void *next = *static_cast<void **>(chain);
      hak_free(chain);
      chain = next;
    }
    hak__check_all();
  }
  return 0;
}

}  // namespace

TEST(Map, NothingIsOursBeforeTheFirstUse) {
  expect_zero(hak_test::in_child([] {
    int local = 0;
    REQUIRE(the_map.units == 0);
    REQUIRE(map_lookup(&local) == 0 && map_lookup(nullptr) == 0 && !hak_owns(&local));
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    REQUIRE(stats.live == 0 && stats.reserved == 0);
    hak__check_all();
    return 0;
  }));
}

TEST(Map, AWindowHasItsPartsApart) {
  expect_zero(hak_test::in_child([] {
    REQUIRE(arena_ready());
    auto at = [](const void *p) { return reinterpret_cast<uintptr_t>(p); };
    size_t units = the_map.units;
    REQUIRE(at(the_map.base) + units * 4 < at(the_map.records));
    REQUIRE(at(the_map.records + units) < at(the_map.shared));
    REQUIRE(at(the_map.shared + units) < at(the_map.free_bits));
    REQUIRE(at(the_map.free_bits + units) < at(the_map.remote_bits));
    REQUIRE(at(the_map.remote_bits + units) < at(the_map.superslabs));
    REQUIRE(at(the_map.superslabs + units / SUPERSLAB_UNITS) < at(the_map.heaps));
    REQUIRE(at(the_map.heaps_end) < at(the_map.metadata));
    REQUIRE(at(the_map.metadata_end) < at(map_address(the_map.zone_first[ZONE_SMALL])));
    REQUIRE(the_map.zone_end[ZONE_SMALL] <= the_map.zone_first[ZONE_HUGE]);
    REQUIRE(the_map.zone_end[ZONE_HUGE] <= units);
    /* Every address has a word that can be read. */
    for (size_t i = 0; i < 10000; i++) REQUIRE(map_lookup(the_map.base + (units << UNIT_SHIFT) / 10000 * i) == 0);
    int local = 0;
    REQUIRE(map_lookup(&local) == 0 && map_lookup(nullptr) == 0);
    REQUIRE(map_lookup(the_map.base - 1) == 0 && map_lookup(the_map.base + (units << UNIT_SHIFT)) == 0);
    return 0;
  }));
}

TEST(Map, WithLimitedAddressSpaceAllOfItCanBeUsed) {
  for (size_t limit : {100 * kMiB, 300 * kMiB, 900 * kMiB}) {
    SCOPED_TRACE(std::to_string(limit / kMiB) + " MiB");
    expect_zero(hak_test::in_child([=] {
      limit_address_space(limit);
      REQUIRE(arena_ready());
      return use_up_twice(limit / 2);
    }));
  }
}

/* The zones lie side by side, and where one is used up to its end their free runs meet. */
TEST(Map, AWindowCanBeUsedUp) {
  expect_zero(hak_test::in_child([] {
    setenv("HAKMEM_RESERVE", "1G", 1);
    std::vector<void *> blocks;
    for (size_t bytes : {5 * kMiB, kMiB}) {
      void *block;
      while ((block = hak_malloc(bytes)) != nullptr && blocks.size() < 1100) blocks.push_back(block);
    }
    REQUIRE(blocks.size() > 200 && blocks.size() < 1100);
    hak__check_all();
    for (size_t from : {0, 1}) /* every other one, then the rest */
      for (size_t i = from; i < blocks.size(); i += 2) hak_free(blocks[i]);
    hak_thread_flush();
    hak__check_all();
    for (void *&block : blocks) REQUIRE((block = hak_malloc(kMiB)) != nullptr);
    for (void *block : blocks) hak_free(block = hak_realloc(block, 3 * kMiB));
    hak__check_all();
    return 0;
  }));
}

TEST(Map, WithHardlyAnyAddressSpaceItFailsAndSaysSo) {
  for (size_t kib : {0, 4, 16, 64, 256, 1024, 2048, 4096, 8192}) {
    SCOPED_TRACE(std::to_string(kib) + " KiB");
    expect_zero(hak_test::in_child([=] {
      limit_address_space(kib << 10);
      errno = 0;
      void *small = hak_malloc(100);
      REQUIRE(small != nullptr || errno == ENOMEM);
      void *huge = hak_malloc(64 * kMiB);
      REQUIRE(huge == nullptr && errno == ENOMEM);
      hak_free(small);
      hak__check_all();
      return 0;
    }));
  }
}

TEST(Map, AfterALimitIsLiftedMemoryIsThere) {
  expect_zero(hak_test::in_child([] {
    rlimit old, limit;
    getrlimit(RLIMIT_AS, &old);
    limit = old;
    limit.rlim_cur = hak_test::status_kib("VmSize:") * 1024;
    setrlimit(RLIMIT_AS, &limit);
    REQUIRE(hak_malloc(100) == nullptr && hak_malloc(10 * kMiB) == nullptr);
    setrlimit(RLIMIT_AS, &old);
    for (size_t bytes : {100 * size_t{1}, 10 * kMiB}) {
      void *block = hak_malloc(bytes);
      REQUIRE(block != nullptr);
      hak_free(block);
    }
    hak__check_all();
    return 0;
  }));
}
