/*
 * Heaps of some shapes, for test_account.py: account_program SHAPE, which is on the heap when the
 * program ends.
 *
 * SPDX-License-Identifier: MIT
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200000 };
static char *blocks[BLOCKS];

static char *filled(size_t bytes) {
  char *block = malloc(bytes);
  if (block == NULL) exit(1);
  return memset(block, 1, bytes);
}

static void fill_slabs(void) {
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = filled(16 + i % 40 * 24);
}

/* Nine blocks of ten are free, in no order. */
static void mostly_freed(void) {
  fill_slabs();
  for (size_t i = 0; i < BLOCKS; i++)
    if (i * 7 % 10 != 0) free(blocks[i]);
}

/* Pages here and there of large and of huge blocks. */
static void sparse(void) {
  for (size_t i = 0; i < 300; i++) {
    size_t bytes = (i % 10 == 0 ? 40u << 20 : 80000) + i * 4096;
    char *block = blocks[i] = malloc(bytes);
    for (size_t at = 0; at < bytes; at += bytes / (i % 7 + 1)) block[at] = 1;
  }
  for (size_t i = 0; i < 300; i += 3) free(blocks[i]);
}

/* Buffers that have grown, in place and by moving their pages. */
static void grown(void) {
  for (size_t i = 0; i < 4; i++) {
    size_t bytes = 1000;
    char *block = filled(bytes);
    for (; bytes < (size_t)(10 + 5 * i) << 20; bytes += bytes / 2) {
      block = realloc(block, bytes + bytes / 2);
      if (block == NULL) exit(1);
      memset(block + bytes, 1, bytes / 2);
    }
    blocks[i] = block;
  }
}

/* Threads that have worked, freed what others hold, and sleep; and some that have ended. */
static pthread_barrier_t worked;

static void *work(void *number) {
  size_t from = (size_t)(unsigned char *)number;
  for (size_t i = from; i < BLOCKS; i += 64) {
    free(blocks[(i + 1) % BLOCKS]);
    blocks[(i + 1) % BLOCKS] = NULL;
  }
  pthread_barrier_wait(&worked);
  for (size_t i = 0; i < 500; i++) blocks[from * 500 + i] = filled(16 + i);
  pthread_barrier_wait(&worked);
  for (;;) pause();
  return NULL;
}

static void *end(void *nothing) {
  for (size_t i = 0; i < 1000; i++) free(filled(i));
  return nothing;
}

static void threads(void) {
  pthread_t thread;
  fill_slabs();
  pthread_barrier_init(&worked, NULL, 65);
  for (size_t i = 0; i < 64; i++)
    if (pthread_create(&thread, NULL, work, (unsigned char *)i) != 0) exit(1);
  pthread_barrier_wait(&worked);
  pthread_barrier_wait(&worked);
  for (size_t i = 0; i < 8; i++) {
    if (pthread_create(&thread, NULL, end, NULL) != 0) exit(1);
    pthread_join(thread, NULL);
  }
}

/* A child, which shares what it has not written to. */
static void child(void) {
  fill_slabs();
  pid_t process = fork();
  if (process < 0) exit(1);
  if (process > 0) {
    int status;
    waitpid(process, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  for (size_t i = 0; i < BLOCKS; i += 2) free(blocks[i]);
  for (size_t i = 0; i < BLOCKS; i += 4) blocks[i] = filled(100);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*make)(void);
  } shapes[] = {
      {"mostly_freed", mostly_freed}, {"sparse", sparse}, {"grown", grown}, {"threads", threads}, {"child", child}};
  for (size_t i = 0; argc == 2 && i < sizeof shapes / sizeof *shapes; i++) {
    if (strcmp(argv[1], shapes[i].name) != 0) continue;
    shapes[i].make();
    return 0;
  }
  fprintf(stderr, "usage: account_program SHAPE\n");
  return 2;
}
