/*
 * A library that allocates in its constructor and frees in its destructor, and
 * links nothing of hakmem.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int early_library_blocks(void);

enum { BLOCKS = 100 };
static unsigned char *blocks[BLOCKS];
static int count;

__attribute__((constructor)) static void start(void) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc((size_t)i * 900 + 1);
    memset(blocks[i], i, (size_t)i * 900 + 1);
    count++;
  }
}

__attribute__((destructor)) static void end(void) {
  for (int i = 0; i < BLOCKS; i++) {
    if (blocks[i][i * 900] != i) _exit(3);
    free(blocks[i]);
    free(calloc(1, (size_t)i * 2000));
  }
}

int early_library_blocks(void) { return count; }
