/*
 * core_program [abort | FILE]: has 120 MB in blocks of many sizes, some small ones freed again, says
 * "ready", and waits to be looked at or killed; with `abort`, it dumps its core itself. With a file's
 * name it lets go of its standard files; at a SIGUSR1 it looks whether all blocks are what they were,
 * by allocating as well, writes "whole" to the file, and ends.
 *
 * SPDX-License-Identifier: MIT
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 200000 };

static char *blocks[BLOCKS];

static size_t bytes_of(int i) { return i % 1000 == 0 ? 6000000 : i % 100 == 0 ? 150000 : 16 + (size_t)i * 37 % 3000; }
static int is_freed(int i) { return i % 7 == 0 && i % 100 != 0; }

static int is_whole(const char *block, int i) {
  size_t bytes = bytes_of(i);
  return block[0] == (char)i && memcmp(block, block + 1, bytes - 1) == 0;
}

/* Waits for the signal, which is blocked until then. */
static int look_again(const char *name, int count) {
  sigset_t signals;
  int number;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  if (sigwait(&signals, &number) != 0) return 1;
  for (int i = 0; i < count; i++) {
    if (!is_freed(i) && !is_whole(blocks[i], i)) return 2;
    if (is_freed(i) && (blocks[i] = malloc(bytes_of(i))) == NULL) return 3;
    if (is_freed(i)) memset(blocks[i], i, bytes_of(i));
  }
  for (int i = 0; i < count; i++) {
    if (!is_whole(blocks[i], i)) return 4;
    free(blocks[i]);
  }
  FILE *file = fopen(name, "w");
  return file == NULL || fputs("whole", file) == EOF || fclose(file) != 0 ? 5 : 0;
}

int main(int argc, char **argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  size_t sum = 0;
  int count = 0;
  for (; count < BLOCKS && sum < 120000000; count++) {
    size_t bytes = bytes_of(count);
    blocks[count] = malloc(bytes);
    if (blocks[count] == NULL) return 1;
    memset(blocks[count], count, bytes);
    sum += bytes;
  }
  for (int i = 0; i < count; i += 7)
    if (is_freed(i)) free(blocks[i]);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort();
  puts("ready");
  fflush(stdout);
  if (argc > 1) {
    int none = open("/dev/null", O_RDWR);
    for (int file = 0; file <= 2; file++) dup2(none, file);
    if (none > 2) close(none);
    return look_again(argv[1], count);
  }
  for (;;) pause();
}
