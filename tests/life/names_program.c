/*
 * Allocates in every way, while prctl(2) is answered here as by a kernel that names mappings (ANSWER is
 * GRANTED), one that does not (REFUSED), or one with a filter of system calls (FILTERED). Prints "ok", or
 * which mapping of the heap nobody has named.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

enum { MOST = 10000 };
static struct {
  uintptr_t begin, end;
  const char *name;
} named[MOST];
static int count, names;

/* How prctl answers; the library asks before it could be read from the environment. */
enum { GRANTED, REFUSED, FILTERED };
static const int answer = ANSWER;

/* What is mapped anew has no name: `name` is NULL. One thread at a time, see allocate. */
static void note(uintptr_t at, size_t bytes, const char *name) {
  if (count == MOST) {
    printf("too much is mapped\n");
    _exit(1);
  }
  named[count].begin = at;
  named[count].end = at + bytes;
  named[count++].name = name;
}

/* These two instead of libc's. */
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  long got = syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
  if (got != -1) note((uintptr_t)got, bytes, NULL);
  return (void *)got; /* MAP_FAILED is -1, too */
}

int prctl(int option, ...) {
  unsigned long words[4];
  va_list arguments;
  va_start(arguments, option);
  for (int i = 0; i < 4; i++) words[i] = va_arg(arguments, unsigned long);
  va_end(arguments);
  if (option == PR_GET_SECCOMP && answer == FILTERED) return 2;
  if (option != PR_SET_VMA) return (int)syscall(SYS_prctl, option, words[0], words[1], words[2], words[3]);
  names++;
  note(words[1], words[2], answer == GRANTED ? (const char *)words[3] : NULL);
  if (answer == GRANTED) return 0;
  errno = EINVAL;
  return -1;
}

static void *small_blocks(void *nothing) {
  for (int i = 0; i < 20000; i++) {
    char *block = malloc((size_t)i % 3000);
    if (block != NULL && i % 3 != 0) free(block);
  }
  return nothing;
}

static void allocate(void) {
  for (int i = 0; i < 20; i++) { /* one at a time: what is named is noted without a lock */
    pthread_t thread;
    if (pthread_create(&thread, NULL, small_blocks, NULL) == 0) pthread_join(thread, NULL);
  }
  void *held[40];
  for (size_t i = 0; i < 40; i++) memset(held[i] = malloc(i * 300000 + 1), 1, i * 300000 + 1);
  for (size_t i = 0; i < 40; i += 2) free(held[i]);
  char *growing = malloc(5 << 20);
  for (size_t bytes = 6 << 20; bytes < (size_t)200 << 20; bytes += bytes / 3) {
    growing = realloc(growing, bytes);
    memset(growing, 1, bytes);
    void *behind = malloc(5 << 20); /* so that it moves */
    if (behind != NULL) memset(behind, 1, 5 << 20);
  }
  free(growing);
}

/* The name that was given last to what lies there; NULL if none was. `end`: up to where at least. */
static const char *name_of(uintptr_t at, uintptr_t *end) {
  for (int i = count - 1; i >= 0; i--) {
    if (at < named[i].begin || at >= named[i].end) continue;
    *end = named[i].end;
    for (int later = i + 1; later < count; later++)
      if (named[later].begin > at && named[later].begin < *end) *end = named[later].begin;
    return named[i].name;
  }
  return NULL;
}

static int check(void) {
  hak_stats_t stats;
  hak_stats(&stats, sizeof stats);
  uintptr_t base = 0; /* of the page map, which begins the window and is named first */
  for (int i = 0; base == 0 && i < count; i++) base = named[i].name != NULL ? named[i].begin : 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int checked = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) != 3 || rights[0] != 'r') continue;
    if (begin < base || begin >= base + stats.reserved) continue;
    const char *first = NULL;
    for (uintptr_t at = begin, next; at < end; at = next, checked++) {
      const char *name = name_of(at, &next);
      if (name == NULL) return printf("nobody has named %lx of %s", at, line), 1;
      if (strncmp(name, "hakmem ", 7) != 0 || strlen(name) > 79) return printf("'%s' is no name\n", name), 1;
      if (first != NULL && strcmp(first, name) != 0) return printf("%s and %s in %s", first, name, line), 1;
      first = name;
    }
  }
  if (maps != NULL) fclose(maps);
  return checked > 5 ? 0 : (printf("no mapping of the heap was found\n"), 1);
}

int main(void) {
  allocate();
  if (answer == FILTERED && names != 0) return printf("under a filter, %d names were given\n", names), 1;
  if (answer == REFUSED && names != 1) return printf("%d were tried, one would do\n", names), 1;
  if (answer == GRANTED && check() != 0) return 1;
  puts("ok");
  return 0;
}
