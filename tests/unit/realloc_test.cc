/* What realloc leaves for later calls to know. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <hakmem.h>

/* A block that grows by a small step is copied to one that is larger than asked for. The size that was asked for is right
 * all the same, also for operator delete, which takes no block for one that was shrunk: a report would end the process. */
TEST(Realloc, WhatGrewAheadIsFreedByTheSizeAskedFor) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const std::size_t bytes = size_classes[c].block_bytes;
    for (std::size_t asked : {bytes + 1, bytes + bytes / 8 + 1, bytes + bytes / 4}) {
      void *block = hak_realloc(hak_malloc(bytes), asked);
      ASSERT_NE(block, nullptr);
      alloc_delete_sized(block, asked);
    }
  }
}

/* To copy a large block takes longer than all else that realloc does. */
TEST(Realloc, ALargeBlockShrinksWhereItIsButNotByMuch) {
  char *block = static_cast<char *>(hak_malloc(HAK_MIB(2)));
  std::memset(block, 7, HAK_MIB(2));
  EXPECT_EQ(hak_realloc(block, HAK_KIB(700)), block);
  EXPECT_EQ(hak_usable_size(block), HAK_KIB(704));
  hak__check_all();
  char *copy = static_cast<char *>(hak_realloc(block, HAK_KIB(80)));
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy, block) << "what is left would lie at the beginning of a long gap";
  for (std::size_t i = 0; i < HAK_KIB(80); i++) ASSERT_EQ(copy[i], 7) << i;
  alloc_delete_sized(copy, HAK_KIB(80));
}
