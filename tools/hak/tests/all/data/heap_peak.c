/*
 * Preloaded in front of libhakmem.so: what of the heap is resident at every 3000th call, at the most, in KiB; to
 * standard error, as the program ends.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>
#include <stdio.h>

static size_t calls, peak;

static void look(void) {
  hak_account_t account;
  hak_account(&account, sizeof account);
  if (account.resident > peak) peak = account.resident;
}

static void *counted(void *block) {
  if (++calls % 3000 == 0) look();
  return block;
}

void *malloc(size_t bytes) { return counted(hak_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return counted(hak_calloc(count, bytes)); }
void *realloc(void *block, size_t bytes) { return counted(hak_realloc(block, bytes)); }
void free(void *block) { hak_free(counted(block)); }

__attribute__((destructor)) static void end(void) {
  look();
  fprintf(stderr, "%zu\n", peak / 1024);
}
