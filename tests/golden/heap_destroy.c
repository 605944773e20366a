/*
 * A heap of 1 GiB, of blocks of so many bytes, that is destroyed: heap_destroy BYTES. Prints how often the system was
 * asked for that. The blocks are not touched: what is, the system has to take back, which is not the library's
 * work.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t calls(void) {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now.mmap_calls + now.munmap_calls + now.madvise_calls + now.mremap_calls;
}

int main(int argc, char **argv) {
  size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  if (bytes == 0) return 2;
  hak_heap_t *heap = hak_heap_new(0);
  for (size_t filled = 0; filled < (size_t)1 << 30; filled += bytes)
    if (hak_heap_malloc(heap, bytes) == NULL) return 1;
  uint64_t before = calls();
  hak_heap_destroy(heap);
  printf("%" PRIu64 "\n", calls() - before);
  return 0;
}
