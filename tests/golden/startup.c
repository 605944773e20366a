/*
 * What a program of little work asks of the allocator: startup nothing | few | shell. Prints its own
 * /proc/self/smaps at the end, from memory that is no heap's.
 *
 *   nothing   allocates nothing
 *   few       a block of each of some sizes
 *   shell     hundreds of small blocks and a few of kilobytes, most of which stay; then a child, which ends
 *
 * SPDX-License-Identifier: MIT
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[64 * 1024];

static void keep(size_t bytes) {
  static void *volatile kept;
  char *block = malloc(bytes);
  if (block == NULL) _exit(1);
  block[0] = block[bytes - 1] = 1;
  kept = block;
  (void)kept;
}

static void few(void) {
  for (size_t bytes = 16; bytes <= 8192; bytes *= 2) keep(bytes);
}

static void shell(void) {
  for (size_t i = 0; i < 600; i++) {
    keep(8 + i * 7 % 120);
    if (i % 3 == 0) free(malloc(i));
    if (i % 100 == 0) keep(1500 + i * 5);
  }
  pid_t child = fork();
  if (child < 0) _exit(1);
  if (child == 0) {
    keep(100);
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(1);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "few") == 0) few();
  else if (strcmp(argv[1], "shell") == 0) shell();
  else if (strcmp(argv[1], "nothing") != 0) return 2;
  int file = open("/proc/self/smaps", O_RDONLY);
  for (ssize_t got; (got = read(file, text, sizeof text)) > 0;)
    if (write(STDOUT_FILENO, text, (size_t)got) != got) return 1;
  return 0;
}
