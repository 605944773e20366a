/*
 * Allocates what tests/trace.rs knows of. The first word says what:
 *
 *   none      nothing of its own
 *   threads   4 threads hand blocks to each other; see `worker`
 *   ends      100 threads, one after the other, whose destructors allocate
 *   fork      a child by fork and one by vfork, which allocate, too
 *   exec      becomes `none`, with what it has
 *   long      sizes and alignments that an event has no room for; see `long_numbers`
 *   orphan    waits for a grandchild that becomes `killed` once its parent has ended
 *   filtered E  1 000 000 blocks, while kill fails with the error E
 *   killed    50 000 blocks, then SIGKILL
 *   forever   until standard input ends; then it says "done"
 *   grow N    N MiB of blocks, all written, and a quarter of them freed and allocated in other sizes; it prints
 *             how much more it had at its peak than at its start, in KiB
 *   hold N SIZE    N threads at a time write 16 blocks of SIZE bytes, and free them when all have done so; it
 *             prints how much more it had at its peak than when the threads had been started, in KiB
 *   partly    64 blocks of 1 MiB and more, of which it writes a fifth; a half of them it frees, and prints how much more it
 *             had at its peak than at its start, in KiB
 *   short N   N threads, one after the other, that allocate one block, which the first thread frees
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 20000, HUGE_BLOCKS = 5000 };

static void *_Atomic handed[THREADS][64];

/* BLOCKS of 1 to 400 bytes, each for the next thread, which frees it; a tenth is grown twice by the thread
 * that gets it. */
static void *worker(void *number) {
  size_t own = (size_t)number, next = (own + 1) % THREADS, freed = 0;
  for (size_t made = 0; made < BLOCKS || freed < BLOCKS;) {
    void *_Atomic *to = &handed[next][made % 64], *_Atomic *from = &handed[own][freed % 64];
    if (made < BLOCKS && *to == NULL) {
      *to = malloc(1 + made % 400);
      made++;
    }
    void *block = freed < BLOCKS ? atomic_exchange(from, NULL) : NULL;
    if (block == NULL) {
      /* On a busy machine, sched_yield would be a turn of all the others. */
      usleep(50);
      continue;
    }
    if (freed % 10 == 0) block = realloc(realloc(block, 1000), 70000);
    free(block);
    freed++;
  }
  /* What one thread frees of this size, the next one is given at once. */
  for (int i = 0; i < HUGE_BLOCKS; i++) free(malloc(5 << 20));
  return NULL;
}

/* 1000 blocks that are freed after one that is aligned to 4 MiB; each stays, as no system has as much as `realloc`
 * wants. */
static void long_numbers(void) {
  for (int i = 0; i < 1000; i++) {
    void *aligned, *block = malloc(100);
    if (posix_memalign(&aligned, 4 << 20, 200) != 0 || realloc(block, ((size_t)1 << 60) + 100) != NULL) abort();
    free(aligned);
    free(block);
  }
}

static void threads(void) {
  pthread_t ids[THREADS];
  for (size_t i = 0; i < THREADS; i++) pthread_create(&ids[i], NULL, worker, (void *)i);
  for (size_t i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
}

static pthread_key_t key;
static void later(void *block) {
  free(block);
  free(malloc(100000));
}
static void *short_thread(void *unused) {
  pthread_setspecific(key, malloc(33));
  return unused;
}
static void ends(void) {
  pthread_key_create(&key, later);
  for (int i = 0; i < 100; i++) {
    pthread_t id;
    pthread_create(&id, NULL, short_thread, NULL);
    pthread_join(id, NULL);
  }
}

static void many(int count) {
  void *volatile keep = NULL;
  for (int i = 0; i < count; i++) {
    free(keep);
    keep = malloc(24);
  }
  free(keep);
}

static void forks(const char *program) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    many(100000);
    _exit(0);
  }
  waitpid(child, &status, 0);
  child = vfork();
  if (child == 0) {
    execl(program, program, "threads", (char *)NULL);
    _exit(1);
  }
  waitpid(child, &status, 0);
  free(malloc(70001));
}

static void orphan(const char *program) {
  int ends[2], status;
  pid_t hak = getppid();
  char byte;
  if (pipe(ends) != 0) abort();
  pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      while (getppid() != hak) sched_yield();
      execl(program, program, "killed", (char *)NULL);
    }
    _exit(0);
  }
  close(ends[1]);
  waitpid(child, &status, 0);
  if (read(ends[0], &byte, 1) != 0) abort(); /* it ends with the grandchild */
}

static void filter(unsigned error) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    abort();
}

static long status(const char *name) {
  char text[8192];
  int file = open("/proc/self/status", O_RDONLY);
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return atol(strstr(text, name) + strlen(name));
}

static void grow(size_t mib) {
  long before = status("VmRSS:");
  size_t bytes = 0, count = 0, most = mib << 20;
  void **blocks = malloc(most / 256 * sizeof *blocks);
  memset(blocks, 1, most / 256 * sizeof *blocks);
  unsigned random = 1;
  for (; bytes < most; count++) {
    random = random * 1664525 + 1013904223;
    size_t size = 300 + (random >> 16) % (count % 100 == 0 ? 300000 : 3000);
    blocks[count] = malloc(size);
    memset(blocks[count], 1, size);
    bytes += size;
  }
  for (size_t i = 0; i < count; i += 4) free(blocks[i]);
  for (size_t i = 0; i < count; i += 4) {
    blocks[i] = malloc(700);
    memset(blocks[i], 2, 700);
  }
  printf("%ld\n", status("VmHWM:") - before);
}

static void partly(void) {
  enum { COUNT = 64, MIB = 1 << 20 };
  char *blocks[COUNT];
  long before = status("VmRSS:");
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = i % 3 == 0 ? calloc(1, MIB) : malloc(MIB);
    memset(blocks[i], 1, 100000 + (size_t)i * 4000);
    if (i % 4 == 0) blocks[i] = realloc(blocks[i], (size_t)MIB * 5);
  }
  for (int i = 0; i < COUNT; i += 2) free(blocks[i]);
  printf("%ld\n", status("VmHWM:") - before);
}

static pthread_barrier_t together;
static void *hold_some(void *argument) {
  size_t size = *(size_t *)argument;
  void *blocks[16];
  pthread_barrier_wait(&together);
  pthread_barrier_wait(&together);
  for (int i = 0; i < 16; i++) blocks[i] = memset(malloc(size), 1, size);
  pthread_barrier_wait(&together);
  for (int i = 0; i < 16; i++) free(blocks[i]);
  return NULL;
}
static void hold(unsigned count, size_t size) {
  pthread_t ids[1000];
  pthread_barrier_init(&together, NULL, count + 1);
  for (unsigned i = 0; i < count; i++) pthread_create(&ids[i], NULL, hold_some, &size);
  pthread_barrier_wait(&together);
  long before = status("VmRSS:");
  pthread_barrier_wait(&together);
  pthread_barrier_wait(&together);
  for (unsigned i = 0; i < count; i++) pthread_join(ids[i], NULL);
  printf("%ld\n", status("VmHWM:") - before);
}

static void *one_block(void *unused) {
  (void)unused;
  return malloc(100);
}
static void short_threads(int count) {
  for (int i = 0; i < count; i++) {
    pthread_t id;
    void *block = NULL;
    pthread_create(&id, NULL, one_block, NULL);
    pthread_join(id, &block);
    free(block);
  }
}

static void until_input_ends(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  puts("begun");
  fflush(stdout);
  while (poll(&input, 1, 0) == 0) many(1000);
  puts("done");
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "none";
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "ends") == 0) ends();
  if (strcmp(what, "long") == 0) long_numbers();
  if (strcmp(what, "fork") == 0) forks(words[0]);
  if (strcmp(what, "grow") == 0) grow((size_t)atol(words[2]));
  if (strcmp(what, "orphan") == 0) orphan(words[0]);
  if (strcmp(what, "partly") == 0) partly();
  if (strcmp(what, "filtered") == 0) {
    filter((unsigned)atol(words[2]));
    many(1000000);
  }
  if (strcmp(what, "hold") == 0) hold((unsigned)atoi(words[2]), (size_t)atol(words[3]));
  if (strcmp(what, "short") == 0) short_threads(atoi(words[2]));
  if (strcmp(what, "forever") == 0) until_input_ends();
  if (strcmp(what, "exec") == 0) {
    void *volatile lost = malloc(1 << 20);
    (void)lost;
    execl(words[0], words[0], "none", (char *)NULL);
  }
  if (strcmp(what, "killed") == 0) {
    many(50000);
    raise(SIGKILL);
  }
  return 0;
}
