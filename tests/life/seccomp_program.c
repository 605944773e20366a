/*
 * A program that shuts itself into a sandbox after it has started and allocated:
 * seccomp_program FILTER ACTION PLUGIN CASE prints "ok" if it lives through the case.
 *
 *   FILTER  none: it has no sandbox of its own
 *           unusual: kills on calls that sandboxes do not expect from an allocator
 *           positive: kills on all but what the C library's malloc, threads and libraries need
 *           closed: the same without files, and so without libraries
 *   ACTION  kill: as sandboxes do; trap: says which call it was, and exits with 1
 *   PLUGIN  a library whose malloc is bound to the C library's
 *
 * SPDX-License-Identifier: MIT
 */
#include <errno.h>
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- The filter ----------------------------------------------------------------*/
static struct sock_filter code[400];
static unsigned short length;

static void emit(unsigned short what, unsigned char if_true, unsigned char if_false, unsigned value) {
  code[length++] = (struct sock_filter){what, if_true, if_false, value};
}
static void load(unsigned offset) { emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset); }
static void load_number(void) { load(offsetof(struct seccomp_data, nr)); }
/* Its low half. */
static void load_argument(unsigned i) { load((unsigned)offsetof(struct seccomp_data, args) + 8 * i); }
static void answer(unsigned value) { emit(BPF_RET | BPF_K, 0, 0, value); }

/* The number is loaded before and after each of these. */
static void on_call(long number, unsigned result) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)number);
  answer(result);
}
/* The call gets `wrong` unless its argument is one of the values. */
static void on_argument(long number, unsigned argument, const unsigned *values, unsigned char count, unsigned wrong) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0, (unsigned char)(count + 3), (unsigned)number);
  load_argument(argument);
  for (unsigned char i = 0; i < count; i++) emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned char)(count - i), 0, values[i]);
  answer(wrong);
  answer(SECCOMP_RET_ALLOW);
}

/* What malloc of the C library, threads, processes, libraries, text and abort need. */
static const long usual[] = {
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_brk,
    SYS_futex,
    SYS_clone,
    SYS_clone3,
    SYS_exit,
    SYS_exit_group,
    SYS_rseq,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_wait4,
    SYS_write,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_gettid,
    SYS_getpid,
    SYS_sched_yield,
    SYS_getrandom,
    SYS_sched_getaffinity,
    SYS_writev,
    SYS_prlimit64,
    SYS_prctl,
    SYS_restart_syscall,
};
static const long usual_with_files[] = {SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_newfstatat, SYS_fstat};

static const long unusual[] = {SYS_mincore, SYS_process_vm_readv, SYS_process_vm_writev, SYS_membarrier, SYS_mbind};

/* All of the calls are allowed, or get `result`. */
static void on_calls(const long *numbers, size_t count, unsigned result) {
  for (size_t i = 0; i < count; i++) on_call(numbers[i], result);
}

static void shut_in(const char *filter, unsigned punishment) {
  static const unsigned mremap_flags[] = {0, MREMAP_MAYMOVE};
  static const unsigned advices[] = {MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
  static const unsigned signals[] = {SIGABRT};
  static const unsigned clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE};
  if (strcmp(filter, "none") == 0) return;
  load_number();
  on_argument(SYS_mremap, 3, mremap_flags, 2, punishment);
  on_argument(SYS_madvise, 2, advices, 4, punishment);
  on_argument(SYS_clock_gettime, 0, clocks, 4, punishment);
  if (strcmp(filter, "unusual") == 0) {
    on_calls(unusual, sizeof unusual / sizeof *unusual, punishment);
    answer(SECCOMP_RET_ALLOW);
  } else {
    on_argument(SYS_tgkill, 2, signals, 1, punishment);
    on_calls(usual, sizeof usual / sizeof *usual, SECCOMP_RET_ALLOW);
    if (strcmp(filter, "positive") == 0)
      on_calls(usual_with_files, sizeof usual_with_files / sizeof *usual_with_files, SECCOMP_RET_ALLOW);
    answer(punishment);
  }
  struct sock_fprog program = {length, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) exit(77);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(77);
}

static void trapped(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)context;
  char line[60] = "trapped: call number ";
  size_t at = strlen(line);
  for (int n = info->si_syscall, digit = 1000; digit > 0; n %= digit, digit /= 10) line[at++] = (char)('0' + n / digit);
  line[at++] = '\n';
  if (write(STDERR_FILENO, line, at) < 0) _exit(2);
  _exit(1);
}

/* ---- The cases -------------------------------------------------------------------*/
static void die(const char *what) {
  printf("%s\n", what);
  fflush(stdout);
  _exit(3);
}
static void *opaque(void *p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}
static char *touched(size_t bytes) {
  char *block = opaque(malloc(bytes));
  if (block == NULL) die("NULL");
  memset(block, 1, bytes);
  return block;
}

static void warm_up(void) {
  for (size_t bytes = 1; bytes < 40000000; bytes = bytes * 3 / 2 + 1) free(touched(bytes));
}

static void every_size(void) {
  for (int round = 0; round < 2; round++) {
    char *blocks[1500];
    for (size_t i = 0; i < 1500; i++) blocks[i] = touched(i % 500 == 0 ? 5000000 : i * 40 % 3000 + i * i / 30 + 1);
    for (size_t i = 0; i < 1500; i++) free(blocks[i]);
  }
}

/* Of memory that was used before, wholly and in part. */
static void zeroed(void) {
  for (size_t bytes = 100000; bytes < 60000000; bytes *= 2)
    for (size_t step = 4096; step <= bytes; step *= 16) {
      char *block = opaque(malloc(bytes));
      for (size_t at = 0; at < bytes; at += step) block[at] = 1;
      free(block);
      block = opaque(calloc(1, bytes));
      for (size_t at = 0; at < bytes; at += 4096)
        if (block[at] != 0) die("calloc gave what is not zero");
      free(block);
    }
}

static void resized(void) {
  char *block = NULL, *in_the_way[40];
  int obstacles = 0;
  size_t bytes = 1;
  for (; bytes < 200000000; bytes = bytes * 3 / 2 + 1) {
    block = opaque(realloc(block, bytes));
    if (block == NULL) die("NULL");
    block[bytes - 1] = 7;
    if (bytes > 60000 && obstacles < 40) in_the_way[obstacles++] = touched(bytes < 5000000 ? bytes : 5000000);
  }
  for (; bytes > 0; bytes /= 2) block = opaque(realloc(block, bytes));
  free(block);
  while (obstacles > 0) free(in_the_way[--obstacles]);
}

static void *in_a_thread(void *argument) {
  every_size();
  free(argument);
  return touched(3000);
}
static void threads(void) {
  for (int round = 0; round < 2; round++) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
      if (pthread_create(&all[i], NULL, in_a_thread, touched(500)) != 0) die("pthread_create");
    for (int i = 0; i < 4; i++) {
      void *left;
      pthread_join(all[i], &left);
      free(left);
    }
  }
}

static pthread_barrier_t begun, ended;
static void *asleep(void *unused) {
  every_size();
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&ended);
  return unused;
}
/* Long enough for an allocator that looks after threads which do not call it any more. */
static void sleepers(void) {
  enum { SLEEPERS = 4, MS = 1000 };
  pthread_t all[SLEEPERS];
  pthread_barrier_init(&begun, NULL, SLEEPERS + 1);
  pthread_barrier_init(&ended, NULL, SLEEPERS + 1);
  for (int i = 0; i < SLEEPERS; i++)
    if (pthread_create(&all[i], NULL, asleep, NULL) != 0) die("pthread_create");
  pthread_barrier_wait(&begun);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    every_size();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < MS);
  pthread_barrier_wait(&ended);
  for (int i = 0; i < SLEEPERS; i++) pthread_join(all[i], NULL);
}

static void given_back(void) {
  every_size();
  malloc_trim(0);
  every_size();
  malloc_trim(100000);
}

static void forked(void) {
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      threads();
      malloc_trim(0);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) {
      if (WIFSIGNALED(status)) raise(WTERMSIG(status));
      die("the child did not end well");
    }
  }
  threads();
}

static void looked_at(void) {
  char *block = touched(100);
  struct mallinfo2 info = mallinfo2();
  if (info.uordblks == 0 || malloc_usable_size(block) < 100) die("wrong figures");
  malloc_stats();
  free(block);
}

static void *(*plugin_malloc)(size_t);
static void foreign(void) {
  for (size_t bytes = 24; bytes < 3000000; bytes *= 5) {
    char *block = opaque(plugin_malloc(bytes));
    memset(block, 3, bytes);
    if (malloc_usable_size(block) < bytes) die("a foreign block's size");
    block = opaque(realloc(block, bytes * 2));
    if (block == NULL || block[bytes - 1] != 3) die("a foreign block's contents");
    free(block);
    free(opaque(plugin_malloc(bytes)));
  }
}

static void freed_inside(void) { free(opaque(touched(10000000) + 4096)); }
static void freed_on_the_stack(void) {
  _Alignas(64) char local[256] = {0};
  free(opaque(local + 64));
}
static void freed_twice(void) {
  char *block = touched(10000000);
  free(block);
  free(opaque(block));
}
static void freed_nowhere(void) { free((void *)opaque((void *)0x123456789000)); }

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
    {"every-size", every_size},
    {"cold-every-size", every_size},
    {"zeroed", zeroed},
    {"resized", resized},
    {"threads", threads},
    {"cold-threads", threads},
    {"sleepers", sleepers},
    {"given-back", given_back},
    {"forked", forked},
    {"looked-at", looked_at},
    {"foreign", foreign},
    {"freed-inside", freed_inside},
    {"freed-on-the-stack", freed_on_the_stack},
    {"freed-twice", freed_twice},
    {"freed-nowhere", freed_nowhere},
    {"awake-freed-on-the-stack", freed_on_the_stack},
    {"awake-freed-nowhere", freed_nowhere},
};

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  /* Unlike dlopen's, what it opens has the C library's malloc under hakmem, too. */
  void *plugin = dlmopen(LM_ID_BASE, argv[3], RTLD_NOW | RTLD_DEEPBIND);
  if (plugin == NULL) die(dlerror());
  *(void **)&plugin_malloc = dlsym(plugin, "plugin_malloc");
  /* From then on what is not hakmem's may be the C library's. */
  if (strcmp(argv[4], "foreign") == 0 || strncmp(argv[4], "awake-", 6) == 0) free(opaque(plugin_malloc(100)));
  static char output[4096]; /* the C library's own would ask for the file */
  setvbuf(stdout, output, _IOFBF, sizeof output);
  if (strncmp(argv[4], "cold-", 5) != 0) warm_up();
  int traps = strcmp(argv[2], "trap") == 0;
  struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
  if (traps) sigaction(SIGSYS, &action, NULL);
  shut_in(argv[1], traps ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(cases[i].name, argv[4]) == 0) {
      cases[i].run();
      printf("ok\n");
      return 0;
    }
  return 2;
}
