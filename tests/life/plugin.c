/*
 * A library that programs load with dlopen. Built twice: linked with libhakmem
 * (PLUGIN_LINKED) and without.
 *
 * SPDX-License-Identifier: MIT
 */
#ifdef PLUGIN_LINKED
#include <hakmem.h>
#endif

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The C library's names as the loader binds them for this library. */
void *plugin_malloc(size_t bytes);
void plugin_free(void *block);
void *plugin_realloc(void *block, size_t bytes);
size_t plugin_usable_size(void *block);
/* Uses the own heap from the calling thread and from three others; 0 if well. */
int plugin_work(void);
/* dlopen, likewise. */
void *plugin_open(const char *file, int mode);
/* 2, or 1 if the program's function of that name is called instead of the own one. */
int which(void);
int plugin_which(void);

/* Weak: which one it is the loader decides, with every compiler. */
__attribute__((weak)) int which(void) { return 2; }
int plugin_which(void) { return which(); }
void *plugin_open(const char *file, int mode) { return dlopen(file, mode); }
void *plugin_malloc(size_t bytes) { return malloc(bytes); }
void plugin_free(void *block) { free(block); }
void *plugin_realloc(void *block, size_t bytes) { return realloc(block, bytes); }
size_t plugin_usable_size(void *block) { return malloc_usable_size(block); }

#ifdef PLUGIN_LINKED
static void *allocate(size_t bytes) { return hak_malloc(bytes); }
static void release(void *block) { hak_free(block); }
#else
static void *allocate(size_t bytes) { return malloc(bytes); }
static void release(void *block) { free(block); }
#endif

static void *loop(void *argument) {
  enum { BLOCKS = 300 };
  unsigned char *blocks[BLOCKS];
  for (int round = 0; round < 5; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t bytes = i % 100 == 99 ? 5000000 : i * i + 1;
      blocks[i] = allocate(bytes);
      if (blocks[i] == NULL) return argument;
      memset(blocks[i], (int)i & 0xff, bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      if (blocks[i][0] != (i & 0xff)) return argument;
      release(blocks[i]);
    }
  }
  return NULL;
}

int plugin_work(void) {
  int bad = loop(&bad) != NULL;
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, loop, &bad);
  for (int i = 0; i < 3; i++) {
    void *result;
    pthread_join(threads[i], &result);
    if (result != NULL) bad = 1;
  }
  return bad;
}
