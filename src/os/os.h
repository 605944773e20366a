/*
 * The system, as the allocator sees it. This layer makes the only system
 * calls of the library; another platform is another os/<platform>.c.
 *
 * Addresses and lengths are multiples of os_page_bytes() unless said
 * otherwise. Every function may fail, says so in its result and leaves errno
 * unspecified; none allocates. All are thread-safe.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_OS_H
#define HAK_OS_H

#include "../base/base.h"

HAK_C_BEGIN

/* Calls made so far, for the statistics; monotonic, relaxed. */
typedef struct {
  atomic64 mmap, munmap, mprotect, madvise, mremap;
} os_call_counts_t;
extern os_call_counts_t os_calls;

size_t os_page_bytes(void);
/* Bytes of a transparent huge page where pages have 4 KiB. */
#define OS_HUGE_PAGE_BYTES HAK_MIB(2)

/* Upper bound that the process has for its address space (RLIMIT_AS), or
 * SIZE_MAX. */
size_t os_address_space_limit(void);
/* Memory of the machine, in bytes. */
size_t os_physical_memory(void);

/* Sets address space aside that can be neither read nor written and costs no
 * memory. At `at` exactly, or NULL when something is there; anywhere when `at`
 * is NULL. NULL on failure. */
void *os_reserve(void *at, size_t bytes);
/* As os_reserve, but readable: every byte reads as zero. */
void *os_reserve_readable(void *at, size_t bytes);
/* Makes reserved memory readable: every byte reads as zero. */
bool os_protect_readable(void *at, size_t bytes);
/* Gives address space back. */
void os_release(void *at, size_t bytes);

/* Makes reserved memory writable. It reads as zero. false: nothing changed. */
bool os_commit(void *at, size_t bytes);
/* Maps writable zero memory at an address where nothing is reserved. */
bool os_map(void *at, size_t bytes);
/* Drops the contents of writable memory: pages go back to the system and read
 * as zero afterwards. false: they are as they were (locked memory, for one). */
bool os_purge(void *at, size_t bytes);
/* As os_purge, for memory that os_move_pages has touched: also undoes what the
 * move did to the kernel's map of the process. `is_reserved`: the memory around
 * was committed from a reservation, not mapped. */
bool os_renew(void *at, size_t bytes, bool is_reserved);
/* Says of each page whether it is in memory: the lowest bit of its byte. */
bool os_resident_pages(void *at, size_t bytes, unsigned char *resident);
/* Asks for huge pages behind writable memory, or for none. Hints. */
void os_want_huge_pages(void *at, size_t bytes);
void os_refuse_huge_pages(void *at, size_t bytes);
/* Moves the pages of [from, from + bytes) to [to, …) without copying; `from`
 * stays writable and reads as zero. false: `from` is as it was, and `to` has to
 * be renewed, it may not be mapped any more. */
bool os_move_pages(void *from, void *to, size_t bytes);

/* Whether the byte at the address, any value, can be read just now. */
bool os_is_readable(const void *address);

/* Milliseconds of a monotonic clock with a resolution of some ms; cheap. */
uint64_t os_now_ms(void);
uint32_t os_process_id(void);
uint32_t os_thread_id(void);
/* Whether this process has, or may have, a thread of that number. */
bool os_thread_exists(uint32_t thread_id);
/* A random word, not for secrets. */
uint64_t os_random(void);

/* Writes to standard error / a file without stdio. Best effort. */
void os_write_stderr(const char *text, size_t bytes);
int os_open_for_writing(const char *path);
bool os_write_all(int fd, const char *text, size_t bytes);
void os_close(int fd);
/* Whether the process runs with another's rights (set-uid and the like), so
 * that its environment must not be trusted. */
bool os_is_privileged(void);

/* Sleeps while *word == expected (spurious returns are allowed); wakes one. */
void os_futex_wait(atomic32 *word, uint32_t expected);
void os_futex_wake_one(atomic32 *word);

/* Fault injection: only the test build defines HAK_FAULT_INJECTION. The n-th
 * fallible call from now on fails (1 is the next one), and all after it while
 * `sticky`; 0 turns it off. Returns how many calls were counted since the last
 * setting. */
#if defined(HAK_FAULT_INJECTION)
uint64_t os_fault_set(uint64_t nth, bool sticky);
#endif

HAK_C_END
#endif
