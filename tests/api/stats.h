/* hak_stats, and its sums. SPDX-License-Identifier: MIT */
#ifndef HAK_TESTS_API_STATS_H
#define HAK_TESTS_API_STATS_H

#include <gtest/gtest.h>
#include <hakmem.h>

namespace hak_test {

inline hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}

inline void expect_add_up(const hak_stats_t &now) {
  EXPECT_EQ(now.live + now.cached + now.outboxes + now.free_in_slabs, now.slab_bytes + now.large_bytes + now.huge_bytes)
      << "live " << now.live << ", cached " << now.cached << ", in outboxes " << now.outboxes << ", free in slabs "
      << now.free_in_slabs << ", slabs " << now.slab_bytes << ", large " << now.large_bytes << ", huge "
      << now.huge_bytes;
  EXPECT_EQ(now.slab_bytes + now.slab_tails + now.large_bytes + now.huge_bytes + now.dirty_free + now.clean_free,
            now.committed)
      << "slab tails " << now.slab_tails << ", dirty " << now.dirty_free << ", clean " << now.clean_free;
}

}  // namespace hak_test

#define EXPECT_STATS_ADD_UP(now)  \
  do {                            \
    SCOPED_TRACE("here");         \
    hak_test::expect_add_up(now); \
  } while (0)

#endif
