/* What realloc leaves for later calls to know. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <hakmem.h>

/* A block that grows by a small step is copied to one that is larger than asked for. The size that was asked for is right
 * for a sized free all the same: a report would end the process. */
TEST(Realloc, WhatGrewAheadIsFreedByTheSizeAskedFor) {
  for (std::size_t bytes : {std::size_t{600}, std::size_t{7000}, std::size_t{57000}}) {
    void *block = hak_malloc(bytes);
    const std::size_t before = hak_usable_size(block), asked = before + 1;
    block = hak_realloc(block, asked);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(hak_usable_size(block), before + before / 4) << bytes;
    hak_free_sized(block, asked);
  }
}
