/*
 * The system, as the allocator sees it. This layer makes the only system calls of the library, but those that
 * POSIX threads make (pthread.h, signal masks); another platform is other files for those that include linux.h, and for
 * nodes.c and own_thread.c.
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

/* Calls made so far, for the statistics (but `mincore` and `membarrier`, for tests); monotonic, relaxed. Those that are
 * refused, or cannot be made under a filter, have a next best, which costs memory: os_purge, os_fence_thread, and
 * what whoever starts a thread counts. */
typedef struct {
  atomic64 mmap, munmap, madvise, mremap, mincore, membarrier;
  atomic64 refused_purges, refused_membarriers, refused_threads;
} os_call_counts_t;
extern os_call_counts_t os_calls;

size_t os_page_bytes(void);
/* Bytes of a transparent huge page where pages have 4 KiB. */
#define OS_HUGE_PAGE_BYTES HAK_MIB(2)

/* Upper bound that the process has for its address space (RLIMIT_AS), or
 * SIZE_MAX. */
size_t os_address_space_limit(void);
/* Whether the process has one for that, or for what it may map and write to (RLIMIT_DATA), or nobody says. */
bool os_mapping_is_limited(void);
/* Memory of the machine, in bytes. */
size_t os_physical_memory(void);
/* Nodes of the machine's memory (NUMA) that the process may use, 1 where nobody says how many,
 * looked up at the first call; and the number of the one that the calling thread runs near just
 * now, which needs no call to the system where there is a way without. 0 if nobody says so. */
uint32_t os_node_count(void);
uint32_t os_node_here(void);

/* What became of a request for memory at a certain address. */
typedef enum {
  OS_MAPPED,
  OS_REFUSED, /* there is no memory, or a limit is reached                    */
  OS_TAKEN,   /* something of the program's lies there                        */
} os_mapped_t;

/* Maps memory that reads as zero at that address, where nothing is. Only what is
 * asked for by os_want_huge_pages gets huge pages. Unless it is OS_MAPPED, nothing
 * has changed. `name` is what /proc/self/maps calls it, where the kernel can (Linux 5.17)
 * and no filter of system calls is in force: a static string. */
os_mapped_t os_map(void *at, size_t bytes, const char *name);
/* The same, to be read only; it is left out of core files. */
os_mapped_t os_map_readable(void *at, size_t bytes, const char *name);
/* Maps writable memory that reads as zero over what was mapped there before, or
 * reserved, or is not there any more. false: nothing changed, or nothing is mapped there any more: kernels
 * before 6.12 have unmapped what was there when they find that there is no memory. */
bool os_map_over(void *at, size_t bytes, const char *name);
/* Sets address space aside, wherever the system likes: it can be neither read nor
 * written, costs no memory, and is left out of core files. NULL on failure. */
void *os_reserve(size_t bytes);
/* Readable as os_map_readable, or reserved again, over part of what it gave. */
bool os_map_readable_over(void *at, size_t bytes, const char *name);
void os_reserve_over(void *at, size_t bytes);
/* Where the system puts a page just now: nothing lies there any more. NULL on failure. */
const char *os_probe(void);
/* Gives address space back, whatever lies there. */
void os_release(void *at, size_t bytes);

/* Drops the contents of writable memory: pages go back to the system and read
 * as zero afterwards. false: it was refused (locked memory, for one), and some
 * may have gone. */
bool os_purge(void *at, size_t bytes);
/* Asks for huge pages behind writable memory, or for none. Hints. */
void os_want_huge_pages(void *at, size_t bytes);
void os_refuse_huge_pages(void *at, size_t bytes);

/* Whether the process may make system calls that malloc(3) does not make in other
 * libraries: a seccomp filter, which can be installed at any time, may end it for
 * one. The functions below ask this themselves. */
bool os_is_unfiltered(void);
/* Notes under which filter the process begins, as in many containers it does under one. To be called at the
 * start, before another thread runs and before os_prepare_fences. */
void os_note_filter(void);
/* Whether the process has installed a filter since then, as far as that can be seen. Where it began under none,
 * or nothing was noted, any filter is its own. Where it began under one, it counts as having installed another
 * once it may not gain privileges any more, which comes before a filter. */
bool os_has_confined_itself(void);
/* Whether nobody sees that: the process began under a filter, and was not to gain privileges from the beginning. */
bool os_hides_filters(void);
/* Whether a loader has opened, read and closed files for this program: not for a static one. */
bool os_was_loaded(void);
/* Says of each page whether it is in memory: the lowest bit of its byte. false: it
 * is not known. */
bool os_resident_pages(void *at, size_t bytes, unsigned char *resident);
/* Unmarks those of each `step`-th page that were only read so far, behind all of which the
 * system has one page of zeroes: os_resident_pages counts them. Returns whether there were
 * any. Where nobody says which they are, as kernels without NUMA do not, they stay. A hundred
 * times slower than that, for a page. */
bool os_unmark_zero_pages(void *at, size_t bytes, size_t step, unsigned char *resident);
/* Moves the pages of [from, from + bytes) to [to, …) without copying. Both are
 * writable memory; what was at `to` is gone, and nothing is mapped at `from`
 * afterwards. `moved` says of how many bytes, from the first on, that is so: of all; with
 * OS_MOVE_REFUSED of some or none, while the rest of `from` is as it was, and nothing may be
 * mapped at the rest of `to` any more; with OS_MOVE_UNTRIED both are as they were. */
typedef enum { OS_MOVED, OS_MOVE_REFUSED, OS_MOVE_UNTRIED } os_moved_t;
os_moved_t os_move_pages(void *from, void *to, size_t bytes, size_t *moved);

/* Whether the aligned word that holds the address can be read just now. */
bool os_is_readable(const void *address);
/* An address on the stack on which the first thread was started, beyond all of its frames, and no further than
 * arguments and their like from the outermost. 0: unknown. */
uintptr_t os_first_stack_end(void);
/* Copies what can be read from there on, page by page, whatever others map and unmap meanwhile. Returns how
 * many bytes: none where a filter of system calls is in force. */
size_t os_copy_readable(void *to, const void *from, size_t bytes);

/* Milliseconds of a monotonic clock with a resolution of some ms; cheap. */
uint64_t os_now_ms(void);
uint32_t os_process_id(void);
uint32_t os_parent_id(void);
/* The name that the process was started by, without its directory. */
const char *os_program_name(void);
/* What of the process is in memory, and the most that ever was. Opens a file for a moment.
 * false: nobody says so. */
bool os_process_memory(size_t *resident, size_t *peak);
uint32_t os_thread_id(void);
/* Whether this process has, or may have, a thread of that number. */
bool os_thread_exists(uint32_t thread_id);
/* Processor time that a thread of this process has used, in nanoseconds: as long as it is the
 * same the thread has not run. Under a filter by a file, as in os_fence_thread, of others alone, and for one
 * that runs some milliseconds late. false: it is not known. */
bool os_thread_time(uint32_t thread_id, uint64_t *ns);
/* How many threads this process has. One that has ended while others go on counts if it was the first. 0:
 * nobody says so, as under a filter, but one that a dynamic program began under, and that does not hide others. */
uint32_t os_thread_count(void);
/* Gives the calling thread a name, of at most 15 bytes, which debuggers and ps(1) show. A hint. */
void os_name_thread(const char *name);
/* Writes to standard error / a file without stdio. Best effort. */
void os_write_stderr(const char *text, size_t bytes);
/* Puts a question mark for whatever would end a line, or a terminal might take for a command. */
void os_make_plain(char *text, size_t bytes);
/* One line there, printf-like, cut at 400 bytes, with the library's name before it. */
HAK_COLD void os_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From the one to the other, by the same thread, a write to a broken pipe, or beyond the largest file that the process
 * may write, fails and ends nothing: SIGPIPE and SIGXFSZ are kept off, and what came of them meanwhile is taken away.
 * Not under a filter, which may not know the calls. */
typedef struct {
  uint64_t before, pending; /* as the kernel has sets of signals: a bit each, from 1 on */
  bool is_on;
} os_hold_t;
os_hold_t os_hold_write_signals(void);
void os_let_write_signals_go(const os_hold_t *hold);
/* Waits for a reader where it is a FIFO, as any program does. */
int os_open_for_writing(const char *path);
/* A regular file, without waiting for anything; -1 on failure. os_read: how many bytes it got; 0 at
 * the end, and on failure. */
int os_open_for_reading(const char *path);
size_t os_read(int fd, char *to, size_t bytes);
bool os_write_all(int fd, const char *text, size_t bytes);
void os_close(int fd);
/* Whether the process runs with another's rights (set-uid and the like), so
 * that its environment must not be trusted. */
bool os_is_privileged(void);

/* A full fence in every thread of the process that runs just now, at some moment between
 * the call's begin and its end; and in the calling one (membarrier(2), private and
 * expedited: Linux 4.14). false: there is no such call, or it may not be made. */
bool os_fence_all_threads(void);
/* The same for what one other thread of the process does, or is gone. Where there is no such call, it is had as
 * well of a thread that is seen to wait, in a file of /proc, which is opened for a moment where
 * os_thread_count may look: whatever that thread has done is seen then, and sees what was done before. */
typedef enum {
  OS_FENCE_REFUSED, /* neither is to be had: counted                   */
  OS_FENCE_RUNS,    /* the thread does not wait, so it takes that call */
  OS_FENCED,
} os_fenced_t;
os_fenced_t os_fence_thread(uint32_t thread_id);
/* In a forked child: whether /proc is its own is looked at anew. */
void os_fences_after_fork(void);
/* Makes the system ready for it. It would do so itself, at the first fence: in some microseconds while there is one
 * thread, and in ten milliseconds when there are several. */
void os_prepare_fences(void);

/* Sleeps while *word == expected, `milliseconds` at the most or OS_FOR_EVER
 * (spurious returns are allowed); wakes so many of those that sleep on it. */
enum { OS_FOR_EVER = -1 };
void os_futex_wait(atomic32 *word, uint32_t expected, int milliseconds);
void os_futex_wake(atomic32 *word, int sleepers);
void os_sleep(int milliseconds);

/* Fault injection: only the test build defines HAK_FAULT_INJECTION. The n-th
 * fallible call from now on fails (1 is the next one), and all after it while
 * `sticky`; 0 turns it off. Returns how many calls were counted since the last
 * setting. */
#if defined(HAK_FAULT_INJECTION)
uint64_t os_fault_set(uint64_t nth, bool sticky);
/* From now on no more than so many bytes are moved in a call: what is more is refused, and nothing is
 * mapped at the rest of where it was to go. 0 turns it off. */
void os_fault_moves_set(size_t most_bytes);
/* The size of a page from now on: a multiple of the system's. Before the first use. Every
 * call that does not keep to it ends the process. */
void os_page_bytes_set(size_t bytes);
#endif

HAK_C_END
#endif
