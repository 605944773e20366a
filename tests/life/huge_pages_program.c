/*
 * Programs that need little memory, to be run where transparent huge pages are always on:
 * huge_pages_program MODE prints the KiB that were resident for it.
 *
 *   threads        500 threads, each with 10 small blocks
 *   sparse         3000 blocks of 1 MiB, of which 4 KiB are written
 *   tails          2000 blocks of 65 KiB, all written: they need a little of a second unit
 *   small          what a small tool does
 *   run WORD...    a program: the most that it had resident
 *
 * SPDX-License-Identifier: MIT
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long resident_kib(void) {
  long pages = 0, size;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &size, &pages) != 2) abort();
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

enum { THREADS = 500, SPARSE_BLOCKS = 3000, TAIL_BLOCKS = 2000, TAIL_BYTES = 65 << 10 };
static pthread_barrier_t have, leave;

static void *thread(void *argument) {
  char *blocks[10];
  for (size_t i = 0; i < 10; i++) {
    blocks[i] = malloc(20 + 400 * i);
    memset(blocks[i], 1, 20 + 400 * i);
  }
  pthread_barrier_wait(&have);
  pthread_barrier_wait(&leave);
  for (size_t i = 0; i < 10; i++) free(blocks[i]);
  return argument;
}

static void threads(void) {
  static pthread_t all[THREADS];
  pthread_attr_t small_stack;
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, 64 << 10);
  pthread_barrier_init(&have, NULL, THREADS + 1);
  pthread_barrier_init(&leave, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&all[i], &small_stack, thread, NULL) != 0) exit(77);
  pthread_barrier_wait(&have);
  printf("%ld\n", resident_kib());
  pthread_barrier_wait(&leave);
  for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
}

static void sparse(void) {
  static char *blocks[SPARSE_BLOCKS];
  for (int i = 0; i < SPARSE_BLOCKS; i++) {
    blocks[i] = malloc(1 << 20);
    memset(blocks[i], 1, 4096);
  }
  printf("%ld\n", resident_kib());
}

static void tails(void) {
  static char *blocks[TAIL_BLOCKS];
  for (int i = 0; i < TAIL_BLOCKS; i++) {
    blocks[i] = malloc(TAIL_BYTES);
    memset(blocks[i], 1, TAIL_BYTES);
  }
  printf("%ld\n", resident_kib());
}

static void small(void) {
  for (size_t i = 0; i < 200; i++) {
    char *block = malloc(i * 7 + 1);
    memset(block, 1, i * 7 + 1);
    if (i % 3 != 0) free(block);
  }
  printf("%ld\n", resident_kib());
}

/* LD_PRELOAD_FOR_IT becomes the program's LD_PRELOAD: this one stays as small as it is,
 * since what it has resident counts for the program that it becomes. */
static void run(char **words) {
  struct rusage usage;
  pid_t child = fork();
  if (child == 0) {
    const char *preload = getenv("LD_PRELOAD_FOR_IT");
    if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
    if (freopen("/dev/null", "w", stdout) == NULL) _exit(127);
    execvp(words[0], words);
    _exit(127);
  }
  int status = -1;
  wait4(child, &status, 0, &usage);
  if (status != 0) exit(1);
  printf("%ld\n", usage.ru_maxrss);
}

int main(int argc, char **argv) {
  if (argc >= 3 && strcmp(argv[1], "run") == 0) run(argv + 2);
  else if (argc == 2 && strcmp(argv[1], "threads") == 0) threads();
  else if (argc == 2 && strcmp(argv[1], "sparse") == 0) sparse();
  else if (argc == 2 && strcmp(argv[1], "tails") == 0) tails();
  else if (argc == 2 && strcmp(argv[1], "small") == 0) small();
  else return 2;
  return 0;
}
