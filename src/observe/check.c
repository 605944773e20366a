/* See check.h. SPDX-License-Identifier: MIT */
#include "check.h"

#include "../arena/arena.h"
#include "../front/heap.h"

#if defined(HAK_DEBUG)
__attribute__((visibility("default")))
#endif
void hak__check_all(void) {
  arena_check();
  heap_check();
}
