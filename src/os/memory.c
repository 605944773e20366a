/*
 * The system layer for Linux: memory. See os.h for the contracts.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "linux.h"

#include "../base/probe.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* ---- Pages, limits --------------------------------------------------------*/
static atomic32 page_bytes; /* 0: not known yet. Relaxed: every thread would store the same value */

size_t os_page_bytes(void) {
  uint32_t bytes = atomic32_load_relaxed(&page_bytes);
  if (HAK_UNLIKELY(bytes == 0)) {
    bytes = (uint32_t)getauxval(AT_PAGESZ);
    atomic32_store_relaxed(&page_bytes, bytes);
  }
  return bytes;
}

#if defined(HAK_FAULT_INJECTION)
void os_page_bytes_set(size_t bytes) { atomic32_store_relaxed(&page_bytes, (uint32_t)bytes); }
/* What the system would refuse if its pages were as large as os_page_bytes_set says. */
static void check_pages(const void *at, size_t bytes) {
  HAK_CHECK(bytes > 0 && ((uintptr_t)at | bytes) % os_page_bytes() == 0);
}
#else
HAK_INLINE void check_pages(const void *at, size_t bytes) { (void)at, (void)bytes; }
#endif

size_t os_address_space_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return (size_t)limit.rlim_cur;
}

bool os_mapping_is_limited(void) {
  struct rlimit limit;
  return !os_is_unfiltered() || os_address_space_limit() != SIZE_MAX || getrlimit(RLIMIT_DATA, &limit) != 0 ||
         limit.rlim_cur != RLIM_INFINITY;
}

size_t os_physical_memory(void) {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (size_t)info.totalram * info.mem_unit : 0;
}

/* ---- Mapping -----------------------------------------------------------------*/
/* Whether it is taken or not, and how a mapping is called, is nothing that the program should hear of. */
static void advise(void *at, size_t bytes, int advice) {
  int saved_errno = errno;
  check_pages(at, bytes);
  atomic64_add_relaxed(&os_calls.madvise, 1);
  madvise(at, bytes, advice);
  errno = saved_errno;
}

static atomic32 names_are_refused; /* the kernel is built without, or older than Linux 5.17 */

/* What is not named has no name, and that is all. Mappings of one name that touch are one,
 * as those without are, if all are named: so each is, at once. */
static void call_it(void *at, size_t bytes, const char *name) {
  if (atomic32_load_relaxed(&names_are_refused) != 0 || !os_is_unfiltered()) return;
  int saved_errno = errno;
  if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, name) != 0 && errno == EINVAL)
    atomic32_store_relaxed(&names_are_refused, 1);
  errno = saved_errno;
}

static void *map(void *at, size_t bytes, int protection, int flags) {
  if (at != NULL) check_pages(at, bytes);
  atomic64_add_relaxed(&os_calls.mmap, 1);
  void *got = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return got != MAP_FAILED ? got : NULL;
}

static void unmap(void *at, size_t bytes) {
  atomic64_add_relaxed(&os_calls.munmap, 1);
  munmap(at, bytes);
}

/* The address is a hint, which the system follows where it can: MAP_FIXED_NOREPLACE
 * is newer (Linux 4.17), and filters of system calls know it less. But Linux 6.7 to
 * 6.12 take the hint only where 2 MiB behind the mapping are free as well, so that
 * is tried second. */
static os_mapped_t map_at(void *at, size_t bytes, int protection, int flags) {
  if (linux_fault_here()) return OS_REFUSED;
  static const int ways[] = {0, MAP_FIXED_NOREPLACE};
  /* ThreadSanitizer turns an address that it does not like into 0, which would be taken. */
  const size_t count = HAK_THREAD_SANITIZER ? 1 : sizeof ways / sizeof *ways;
  for (size_t i = 0; i < count; i++) {
    void *got = map(at, bytes, protection, flags | ways[i]);
    if (got == at) return OS_MAPPED;
    if (got == NULL) return errno == EEXIST ? OS_TAKEN : OS_REFUSED;
    unmap(got, bytes);
  }
  return OS_TAKEN;
}

os_mapped_t os_map(void *at, size_t bytes, const char *name) {
  os_mapped_t mapped = map_at(at, bytes, PROT_READ | PROT_WRITE, 0);
  if (mapped == OS_MAPPED) advise(at, bytes, MADV_NOHUGEPAGE), call_it(at, bytes, name);
  return mapped;
}

os_mapped_t os_map_readable(void *at, size_t bytes, const char *name) {
  os_mapped_t mapped = map_at(at, bytes, PROT_READ, MAP_NORESERVE);
  if (mapped == OS_MAPPED) advise(at, bytes, MADV_DONTDUMP), call_it(at, bytes, name);
  return mapped;
}

#if defined(HAK_FAULT_INJECTION)
/* One that fails alone does so as in older kernels: where all do, half of what is moved would be here and half
 * there. */
static bool fault_of_a_mapping_over(void *at, size_t bytes) {
  if (!linux_fault_here()) return false;
  if (!linux_fault_is_sticky()) unmap(at, bytes);
  return true;
}
#else
HAK_INLINE bool fault_of_a_mapping_over(void *at, size_t bytes) { return (void)at, (void)bytes, false; }
#endif

bool os_map_over(void *at, size_t bytes, const char *name) {
  if (fault_of_a_mapping_over(at, bytes) || map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == NULL) return false;
  advise(at, bytes, MADV_NOHUGEPAGE);
  call_it(at, bytes, name);
  return true;
}

void *os_reserve(size_t bytes) {
  if (linux_fault_here()) return NULL;
  size_t page = os_page_bytes(), more = page - (size_t)getauxval(AT_PAGESZ); /* 0, but in tests of larger pages */
  char *at = map(NULL, bytes + more, PROT_NONE, MAP_NORESERVE);
  if (at != NULL && more > 0) at = (char *)align_up((uintptr_t)at, page);
  if (at != NULL) advise(at, bytes, MADV_DONTDUMP);
  return at;
}

const char *os_probe(void) {
  if (linux_fault_here()) return NULL;
  char *at = map(NULL, os_page_bytes(), PROT_NONE, MAP_NORESERVE);
  if (at != NULL) unmap(at, os_page_bytes());
  return at;
}

bool os_map_readable_over(void *at, size_t bytes, const char *name) {
  if (linux_fault_here() || map(at, bytes, PROT_READ, MAP_FIXED | MAP_NORESERVE) == NULL) return false;
  advise(at, bytes, MADV_DONTDUMP);
  call_it(at, bytes, name);
  return true;
}

void os_reserve_over(void *at, size_t bytes) {
  if (map(at, bytes, PROT_NONE, MAP_FIXED | MAP_NORESERVE) != NULL) advise(at, bytes, MADV_DONTDUMP);
}

void os_release(void *at, size_t bytes) {
  check_pages(at, bytes);
  unmap(at, bytes);
}

/* ---- Giving back -------------------------------------------------------------*/
static bool purge(void *at, size_t bytes) {
  if (linux_fault_here()) return false;
  atomic64_add_relaxed(&os_calls.madvise, 1);
  return madvise(at, bytes, MADV_DONTNEED) == 0;
}
bool os_purge(void *at, size_t bytes) {
  check_pages(at, bytes);
  bool went = linux_counted(purge(at, bytes), &os_calls.refused_purges);
  HAK_PROBE(purge, at, bytes, went);
  return went;
}

static void hint(void *at, size_t bytes, int advice) {
  if (!linux_fault_here()) advise(at, bytes, advice);
}
void os_want_huge_pages(void *at, size_t bytes) { hint(at, bytes, MADV_HUGEPAGE); }
void os_refuse_huge_pages(void *at, size_t bytes) { hint(at, bytes, MADV_NOHUGEPAGE); }

/* ---- Looking, moving -----------------------------------------------------------*/
bool os_resident_pages(void *at, size_t bytes, unsigned char *resident) {
  check_pages(at, bytes);
  if (!os_is_unfiltered()) return false;
  atomic64_add_relaxed(&os_calls.mincore, 1);
#if defined(HAK_FAULT_INJECTION)
  /* A page of ours may be several of the system's. */
  unsigned char parts[64];
  size_t page = os_page_bytes(), count = page / getauxval(AT_PAGESZ);
  for (size_t i = 0; i < bytes / page; i++) {
    if (mincore((char *)at + i * page, page, parts) != 0) return false;
    for (size_t p = resident[i] = 0; p < count; p++) resident[i] |= parts[p];
  }
  return true;
#else
  return mincore(at, bytes, resident) == 0;
#endif
}

/* By asking on which node each page lies: EFAULT says that it is the page of zeroes. */
bool os_unmark_zero_pages(void *at, size_t bytes, size_t step, unsigned char *resident) {
  enum { AT_ONCE = 32 };
  size_t page = os_page_bytes(), pages = bytes / page;
  void *asked[AT_ONCE];
  int node[AT_ONCE];
  bool found = false;
  if (page != getauxval(AT_PAGESZ) || !os_is_unfiltered()) return false; /* other than in tests of larger pages */
  for (size_t next = 0; next < pages;) {
    size_t count = 0;
    for (; count < AT_ONCE && next < pages; next += step)
      if ((resident[next] & 1) != 0) asked[count++] = (char *)at + next * page;
    if (count == 0 || syscall(SYS_move_pages, 0, count, asked, NULL, node, 0) != 0) break;
    for (size_t i = 0; i < count; i++) {
      if (node[i] != -EFAULT) continue;
      resident[(size_t)((char *)asked[i] - (char *)at) / page] = 0;
      found = true;
    }
  }
  return found;
}

/* Whether something lies there, be it that it cannot be read: os_is_readable would wait for who serves page faults
 * of the program's. */
static bool is_mapped(void *at) {
  unsigned char resident;
  int failed;
  do failed = mincore(at, getauxval(AT_PAGESZ), &resident);
  while (failed != 0 && errno == EAGAIN);
  return failed == 0 || errno != ENOMEM;
}

/* Linux 6.17 and later move mappings one after the other, and may be refused at each: what lay before it has gone. */
static size_t bytes_gone(char *from, size_t bytes) {
  size_t page = os_page_bytes(), least = 0, most = bytes / page;
  if (is_mapped(from)) return 0;
  while (least < most) {
    size_t middle = (least + most) / 2;
    if (is_mapped(from + middle * page)) most = middle;
    else least = middle + 1;
  }
  return least * page;
}

/* Not MREMAP_DONTUNMAP: it unlocks all of a locked mapping, not just this range. */
static bool move(void *from, void *to, size_t bytes) {
  atomic64_add_relaxed(&os_calls.mremap, 1);
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

#if defined(HAK_FAULT_INJECTION)
static atomic64 fault_moves, fault_moves_most;
void os_fault_moves_set(size_t most_bytes) { atomic64_store_relaxed(&fault_moves_most, most_bytes); }

/* Every other one that is refused has moved the first half. */
static bool fault_of_a_move(void *from, void *to, size_t bytes) {
  size_t most = atomic64_load_relaxed(&fault_moves_most);
  if (linux_fault_here()) {
    size_t half = align_down(bytes / 2, os_page_bytes());
    if (half > 0 && atomic64_add_relaxed(&fault_moves, 1) % 2 == 0) move(from, to, half);
    return true;
  }
  if (most == 0 || bytes <= most) return false;
  if (move(from, to, most)) unmap((char *)to + most, bytes - most);
  return true;
}
#else
HAK_INLINE bool fault_of_a_move(void *from, void *to, size_t bytes) { return (void)from, (void)to, (void)bytes, false; }
#endif

os_moved_t os_move_pages(void *from, void *to, size_t bytes, size_t *moved) {
  check_pages(from, bytes);
  check_pages(to, bytes);
  *moved = 0;
  if (!os_is_unfiltered()) return OS_MOVE_UNTRIED;
  bool done = !fault_of_a_move(from, to, bytes) && move(from, to, bytes);
  *moved = done ? bytes : bytes_gone(from, bytes);
  return done ? OS_MOVED : OS_MOVE_REFUSED;
}

/* By asking to sleep until a word changes, but for no time at all: EFAULT says that it
 * cannot be read. The call is one that every program with threads makes. */
bool os_is_readable(const void *address) {
  const uint32_t unlikely = 0x6C17A5B3; /* a word that is as expected costs a sleep, be it of no time */
  const struct timespec no_time = {0};
  const uint32_t *word = (const uint32_t *)align_down((uintptr_t)address, sizeof *word);
  int saved_errno = errno;
  bool is_readable = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, unlikely, &no_time, NULL, 0) == 0 || errno != EFAULT;
  errno = saved_errno;
  return is_readable;
}

uintptr_t os_first_stack_end(void) { return getauxval(AT_RANDOM); }

size_t os_copy_readable(void *to, const void *from, size_t bytes) {
  enum { PIECES = 16 };
  struct iovec into = {to, bytes}, pieces[PIECES];
  size_t count = 0, page = os_page_bytes();
  if (linux_fault_here() || !os_is_unfiltered()) return 0;
  /* What cannot be read ends the transfer before the piece that it is in. */
  for (uintptr_t at = (uintptr_t)from, end = at + bytes, next; at < end && count < PIECES; at = next, count++) {
    next = min_size(align_up(at + 1, page), end);
    pieces[count] = (struct iovec){(void *)at, next - at};
  }
  ssize_t copied = syscall(SYS_process_vm_readv, getpid(), &into, 1ul, pieces, count, 0ul);
  return copied > 0 ? (size_t)copied : 0;
}
