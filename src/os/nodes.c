/* Nodes of the machine's memory. See os.h. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "os.h"

#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MPOL_F_MEMS_ALLOWED
#define MPOL_F_MEMS_ALLOWED (1 << 2) /* of linux/mempolicy.h, which tools for musl do not find */
#endif

/* 0: not known yet. Relaxed: every thread would store the same value, or one for who may not ask. */
static atomic32 node_count;

/* Those that the process may take memory from. Not from /sys, where that takes a descriptor, which other
 * threads could see. The kernel wants room for as many as it was built for, 1024 at the most. */
static uint32_t count_nodes(void) {
  enum { NODES = 1024, WORD_BITS = 8 * sizeof(unsigned long) };
  unsigned long allowed[NODES / WORD_BITS] = {0};
  uint32_t count = 0;
  if (!os_is_unfiltered()) return 1;
  int saved_errno = errno;
  const unsigned long most = NODES + 1, flags = MPOL_F_MEMS_ALLOWED;
  if (syscall(SYS_get_mempolicy, NULL, allowed, most, NULL, flags) == 0)
    for (size_t i = 0; i < NODES / WORD_BITS; i++) count += (uint32_t)__builtin_popcountl(allowed[i]);
  errno = saved_errno;
  return count > 0 ? count : 1;
}

uint32_t os_node_count(void) {
  uint32_t count = atomic32_load_relaxed(&node_count);
  if (HAK_LIKELY(count != 0)) return count;
  count = count_nodes();
  atomic32_store_relaxed(&node_count, count);
  return count;
}

/* getcpu is in glibc from 2.29 on. */
#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 29)
#define HAS_GETCPU 1
#endif
#endif

/* Through the kernel's vDSO where that answers; a call that a filter might not know else. */
static int get_cpu(unsigned *cpu, unsigned *node) {
#if defined(HAS_GETCPU)
  if (getauxval(AT_SYSINFO_EHDR) != 0) return getcpu(cpu, node);
#endif
  return os_is_unfiltered() ? (int)syscall(SYS_getcpu, cpu, node, NULL) : -1;
}

uint32_t os_node_here(void) {
  unsigned cpu, node = 0;
  int saved_errno = errno;
  if (get_cpu(&cpu, &node) != 0) node = 0;
  errno = saved_errno;
  return node;
}
