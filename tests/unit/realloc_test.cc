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
