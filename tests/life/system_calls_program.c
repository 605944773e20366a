/*
 * Random mixed operations: 16..1024 bytes, 256 live. system_calls_program COUNT
 * prints what the allocator says it asked of the system for them.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  static unsigned char *live[256];
  long count = argc > 1 ? atol(argv[1]) : 10000000;
  uint64_t state = 42;
  for (long i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    unsigned slot = (unsigned)(state >> 33) % 256;
    size_t bytes = 16 + (size_t)(state >> 45) % 1009;
    if (live[slot] != NULL) {
      free(live[slot]);
      live[slot] = NULL;
      continue;
    }
    live[slot] = malloc(bytes);
    if (live[slot] == NULL) return 1;
    live[slot][0] = live[slot][bytes - 1] = 1;
  }
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now.mmap_calls, now.munmap_calls, now.madvise_calls,
         now.mremap_calls);
  return 0;
}
