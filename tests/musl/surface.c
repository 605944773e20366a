/*
 * Each function of hakmem.h and each form of C++'s new and delete, called by a program of musl's in C, linked
 * with either library, or without a dynamic linker. What they do beyond that is tried with glibc: tests/api.
 *
 *   surface CASE       0: they work; 1: with a line that says what did not
 *
 * SPDX-License-Identifier: MIT
 */
#include "expect.h"

#include <hakmem.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* operator new and delete, by their names in C++'s ABI: all take what they use first; `nothrow` is a reference. */
typedef struct {
  char unused;
} nothrow_t;
void *_Znwm(size_t), *_Znam(size_t), *_ZnwmRKSt9nothrow_t(size_t, const nothrow_t *);
void *_ZnamRKSt9nothrow_t(size_t, const nothrow_t *), *_ZnwmSt11align_val_t(size_t, size_t);
void *_ZnamSt11align_val_t(size_t, size_t), *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, const nothrow_t *);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, const nothrow_t *);
void _ZdlPv(void *), _ZdaPv(void *), _ZdlPvm(void *, size_t), _ZdaPvm(void *, size_t);
void _ZdlPvRKSt9nothrow_t(void *, const nothrow_t *), _ZdaPvRKSt9nothrow_t(void *, const nothrow_t *);
void _ZdlPvSt11align_val_t(void *, size_t), _ZdaPvSt11align_val_t(void *, size_t);
void _ZdlPvmSt11align_val_t(void *, size_t, size_t), _ZdaPvmSt11align_val_t(void *, size_t, size_t);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const nothrow_t *);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const nothrow_t *);

/* A block that may be used, and is hakmem's. */
static void *good(void *block, size_t bytes, size_t alignment) {
  EXPECT(block != NULL && hak_owns(block) && (uintptr_t)block % alignment == 0 && hak_usable_size(block) >= bytes);
  memset(block, 0x5a, bytes);
  return block;
}

static void blocks(void) {
  for (size_t bytes = 1; bytes < 10 << 20; bytes *= 9) {
    hak_free(good(hak_malloc(bytes), bytes, 16));
    hak_free_sized(good(hak_malloc(bytes), bytes, 16), bytes);
    hak_free_aligned_sized(good(hak_aligned_alloc(256, bytes), bytes, 256), 256, bytes);
    unsigned char *zeros = hak_calloc(2, bytes);
    for (size_t i = 0; i < 2 * bytes; i++) EXPECT(zeros[i] == 0);
    zeros = good(hak_realloc(zeros, 3 * bytes), 3 * bytes, 16);
    hak_free(good(hak_reallocarray(zeros, 4, bytes), 4 * bytes, 16));
    void *aligned = NULL;
    EXPECT(hak_posix_memalign(&aligned, 4096, bytes) == 0);
    hak_free(good(aligned, bytes, 4096));
  }
  errno = 0;
  EXPECT(hak_reallocarray(NULL, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
  EXPECT(!hak_owns(&errno) && hak_usable_size(NULL) == 0);
}

typedef struct {
  size_t bytes;
  char first, last;
} written_t;
static bool write_json(void *context, const char *text, size_t bytes) {
  written_t *written = context;
  if (bytes == 0) return true;
  if (written->bytes == 0) written->first = text[0];
  written->last = text[bytes - 1];
  written->bytes += bytes;
  return true;
}

static void process(void) {
  unsigned major = 0, minor = 0, patch = 0;
  EXPECT(sscanf(hak_version(), "%u.%u.%u", &major, &minor, &patch) == 3 && major == HAK_VERSION_MAJOR);
  void *held[200];
  for (int i = 0; i < 200; i++) held[i] = good(hak_malloc(5000), 5000, 16);
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  EXPECT(stats.struct_bytes == sizeof stats && stats.live >= 200 * 5000);
  hak_account_t account;
  hak_account(&account, sizeof account);
  EXPECT(account.struct_bytes == sizeof account);
  written_t json = {0};
  hak_stats_json(write_json, &json);
  EXPECT(json.bytes > 100 && json.first == '{' && (json.last == '}' || json.last == '\n'));
  for (int i = 0; i < 200; i++) hak_free(held[i]);
  hak_thread_flush();
  hak_stats(&stats, sizeof stats);
  EXPECT(stats.cached == 0);
  hak_thread_idle();
  hak_trim(0);
  EXPECT(!hak_trim(0));
  hak_set_soft_limit((size_t)1 << 30);
  hak_stats(&stats, sizeof stats);
  EXPECT(stats.soft_limit == (size_t)1 << 30);
}

static void heaps(void) {
  hak_heap_t *heap = hak_heap_new(0);
  EXPECT(heap != NULL);
  for (size_t bytes = 1; bytes < 10 << 20; bytes *= 9) {
    void *block = good(hak_heap_malloc(heap, bytes), bytes, 16);
    block = good(hak_heap_realloc(heap, block, 2 * bytes), 2 * bytes, 16);
    EXPECT(hak_heap_owns(heap, block));
    hak_heap_free(heap, block);
    unsigned char *zeros = hak_heap_calloc(heap, 2, bytes);
    for (size_t i = 0; i < 2 * bytes; i++) EXPECT(zeros[i] == 0);
    free(zeros);
    good(hak_heap_aligned_alloc(heap, 512, bytes), bytes, 512);
  }
  hak_heap_stats_t stats;
  hak_heap_stats(heap, &stats, sizeof stats);
  EXPECT(stats.live > 0 && stats.live + stats.cached + stats.free == stats.taken);
  hak_heap_set_limit(heap, stats.taken);
  EXPECT(hak_heap_malloc(heap, 20 << 20) == NULL && errno == ENOMEM);
  hak_heap_destroy(heap);
  EXPECT(!hak_heap_owns(heap, &stats));
}

static void operators(void) {
#if defined(HAK_OPERATORS) /* else C++'s library would have to be there */
  nothrow_t no = {0};
  for (size_t bytes = 1; bytes < 10 << 20; bytes *= 9) {
    _ZdlPv(good(_Znwm(bytes), bytes, 16));
    _ZdaPv(good(_Znam(bytes), bytes, 16));
    _ZdlPvm(good(_Znwm(bytes), bytes, 16), bytes);
    _ZdaPvm(good(_Znam(bytes), bytes, 16), bytes);
    _ZdlPvRKSt9nothrow_t(good(_ZnwmRKSt9nothrow_t(bytes, &no), bytes, 16), &no);
    _ZdaPvRKSt9nothrow_t(good(_ZnamRKSt9nothrow_t(bytes, &no), bytes, 16), &no);
    _ZdlPvSt11align_val_t(good(_ZnwmSt11align_val_t(bytes, 128), bytes, 128), 128);
    _ZdaPvSt11align_val_t(good(_ZnamSt11align_val_t(bytes, 128), bytes, 128), 128);
    _ZdlPvmSt11align_val_t(good(_ZnwmSt11align_val_t(bytes, 128), bytes, 128), bytes, 128);
    _ZdaPvmSt11align_val_t(good(_ZnamSt11align_val_t(bytes, 128), bytes, 128), bytes, 128);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(good(_ZnwmSt11align_val_tRKSt9nothrow_t(bytes, 128, &no), bytes, 128), 128,
                                        &no);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(good(_ZnamSt11align_val_tRKSt9nothrow_t(bytes, 128, &no), bytes, 128), 128,
                                        &no);
  }
  EXPECT(_ZnwmRKSt9nothrow_t(SIZE_MAX / 4, &no) == NULL && _ZnamRKSt9nothrow_t(SIZE_MAX / 4, &no) == NULL);
#endif
}

int main(int count, char **words) {
  static const case_t cases[] = {{"blocks", blocks}, {"process", process}, {"heaps", heaps}, {"operators", operators}};
  return run_case(cases, sizeof cases / sizeof *cases, count, words);
}
