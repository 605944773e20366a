/*
 * The system layer for Linux. See os.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

os_call_counts_t os_calls;

/* ---- Fault injection -----------------------------------------------------*/
#if defined(HAK_FAULT_INJECTION)
static atomic64 fault_calls, fault_nth, fault_sticky;

uint64_t os_fault_set(uint64_t nth, bool sticky) {
  uint64_t seen = atomic64_load_relaxed(&fault_calls);
  atomic64_store_relaxed(&fault_calls, 0);
  atomic64_store_relaxed(&fault_sticky, sticky);
  atomic64_store_relaxed(&fault_nth, nth);
  return seen;
}
static bool fault_here(void) {
  uint64_t call = atomic64_add_relaxed(&fault_calls, 1) + 1, nth = atomic64_load_relaxed(&fault_nth);
  bool fails = nth != 0 && (call == nth || (call > nth && atomic64_load_relaxed(&fault_sticky)));
  if (fails) errno = ENOMEM;
  return fails;
}
#else
HAK_INLINE bool fault_here(void) { return false; }
#endif

/* ---- Memory --------------------------------------------------------------*/
size_t os_page_bytes(void) {
  static atomic32 cached; /* relaxed: every thread would store the same value */
  uint32_t bytes = atomic32_load_relaxed(&cached);
  if (HAK_UNLIKELY(bytes == 0)) {
    bytes = (uint32_t)getauxval(AT_PAGESZ);
    atomic32_store_relaxed(&cached, bytes);
  }
  return bytes;
}

size_t os_address_space_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return (size_t)limit.rlim_cur;
}

size_t os_physical_memory(void) {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (size_t)info.totalram * info.mem_unit : 0;
}

/* NULL when the kernel cannot place the mapping just there. Kernels before 4.17
 * take the exact address for a hint, hence the comparison. */
static void *map(void *at, size_t bytes, int protection, int flags) {
  if (fault_here()) return NULL;
  atomic64_add_relaxed(&os_calls.mmap, 1);
  void *got = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (got == MAP_FAILED) return NULL;
  if (at != NULL && got != at) {
    os_release(got, bytes);
    return NULL;
  }
  return got;
}

void *os_reserve(void *at, size_t bytes) { return map(at, bytes, PROT_NONE, MAP_NORESERVE); }
void *os_reserve_readable(void *at, size_t bytes) { return map(at, bytes, PROT_READ, MAP_NORESERVE); }
bool os_map(void *at, size_t bytes) { return map(at, bytes, PROT_READ | PROT_WRITE, 0) != NULL; }

void os_release(void *at, size_t bytes) {
  atomic64_add_relaxed(&os_calls.munmap, 1);
  munmap(at, bytes);
}

bool os_commit(void *at, size_t bytes) {
  if (fault_here()) return false;
  atomic64_add_relaxed(&os_calls.mprotect, 1);
  return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool os_protect_readable(void *at, size_t bytes) {
  if (fault_here()) return false;
  atomic64_add_relaxed(&os_calls.mprotect, 1);
  return mprotect(at, bytes, PROT_READ) == 0;
}

bool os_purge(void *at, size_t bytes) {
  if (fault_here()) return false;
  atomic64_add_relaxed(&os_calls.madvise, 1);
  return madvise(at, bytes, MADV_DONTNEED) == 0;
}

bool os_renew(void *at, size_t bytes, bool is_reserved) {
  if (fault_here()) return false;
  atomic64_add_relaxed(&os_calls.mmap, 1);
  /* As the neighbours were mapped: else the kernel cannot join them again. */
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (is_reserved ? MAP_NORESERVE : 0);
  return mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

bool os_resident_pages(void *at, size_t bytes, unsigned char *resident) { return mincore(at, bytes, resident) == 0; }

static void advise(void *at, size_t bytes, int advice) {
  if (fault_here()) return;
  atomic64_add_relaxed(&os_calls.madvise, 1);
  madvise(at, bytes, advice);
}

void os_want_huge_pages(void *at, size_t bytes) { advise(at, bytes, MADV_HUGEPAGE); }
void os_refuse_huge_pages(void *at, size_t bytes) { advise(at, bytes, MADV_NOHUGEPAGE); }

bool os_move_pages(void *from, void *to, size_t bytes) {
  if (fault_here()) return false;
  atomic64_add_relaxed(&os_calls.mremap, 1);
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
}

bool os_is_readable(const void *address) {
  char byte;
  struct iovec local = {.iov_base = &byte, .iov_len = 1}, remote = {.iov_base = (void *)address, .iov_len = 1};
  ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  /* Where the call is forbidden (seccomp) nothing is known: suppose it can. */
  return n == 1 || (n < 0 && errno != EFAULT);
}

/* ---- Time, identity, chance ----------------------------------------------*/
uint64_t os_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint32_t os_process_id(void) { return (uint32_t)getpid(); }
uint32_t os_thread_id(void) { return (uint32_t)syscall(SYS_gettid); }
bool os_thread_exists(uint32_t thread_id) {
  return syscall(SYS_tgkill, getpid(), thread_id, 0) == 0 || errno != ESRCH;
}

uint64_t os_random(void) {
  uint64_t word = 0;
  if (getrandom(&word, sizeof word, GRND_NONBLOCK) != (ssize_t)sizeof word) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    word = ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ ((uint64_t)getpid() << 16);
  }
  return word;
}

/* ---- Text ----------------------------------------------------------------*/
bool os_write_all(int fd, const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    bytes -= (size_t)n;
  }
  return true;
}

void os_write_stderr(const char *text, size_t bytes) { os_write_all(STDERR_FILENO, text, bytes); }
int os_open_for_writing(const char *path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); }
void os_close(int fd) { close(fd); }
bool os_is_privileged(void) { return getauxval(AT_SECURE) != 0; }

/* ---- Waiting -------------------------------------------------------------*/
void os_futex_wait(atomic32 *word, uint32_t expected) {
  syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}
void os_futex_wake_one(atomic32 *word) { syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
