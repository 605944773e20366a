/*
 * What is said about a program's mistakes, and how the allocator itself fails.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_ERROR_H
#define HAK_ERROR_H

#include "../base/inspected.h"

HAK_C_BEGIN

typedef enum {
  ERROR_DOUBLE_FREE,   /* the block is already free                             */
  ERROR_INTERIOR_FREE, /* inside the memory of a slab or block, but no start    */
  ERROR_WILD_FREE,     /* no block of this allocator, nor of the next           */
  ERROR_SIZE_MISMATCH, /* sized free or delete with a size of another class     */
  ERROR_NO_HEAP,       /* a handle of a heap that was destroyed, or is none     */
  ERROR_OTHER_HEAP,    /* a block given to a heap that it is not of             */
} error_kind_t;

/* Reports one mistake in one line on standard error and aborts; with
 * HAKMEM_ABORT_ON_ERROR=0 counts it silently and returns: the caller then
 * ignores the free. `block_bytes` is the size of the class or block at the
 * address, 0 if there is none; `claimed_bytes` matters to ERROR_SIZE_MISMATCH.
 * Thread-safe, allocates nothing. For code that is in the middle of nothing: a
 * handler of SIGABRT may allocate, and it may jump away. */
HAK_COLD void error_report(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes);

/* The same for code that holds gates or is in the middle of a change: the mistake
 * is counted, and reported when the thread calls error_settle. Of several that
 * wait, the first is reported. */
HAK_COLD void error_note(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes);

/* Reports what the calling thread has noted, if anything. Called where the thread
 * leaves the allocator, all changes done. */
extern atomic32 error_noted_by; /* the thread's number; 0: nothing waits */
HAK_COLD void error_report_noted(void);
HAK_INLINE void error_settle(void) {
  if (HAK_UNLIKELY(atomic32_load_relaxed(&error_noted_by) != 0)) error_report_noted();
}

/* Until error_put_off(false) error_settle reports nothing of the calling thread's, which has called into the C library
 * in the middle of something: the allocator serves that, too. One thread at a time. */
void error_put_off(bool is_put_off);

/* In a forked child: what a thread has noted, or put off, that is not here. */
void error_after_fork(void);

/* Mistakes reported or ignored so far. */
uint64_t error_count(void);
extern const inspect_field_t error_inspected[1];

/* Whether a mistake ends the program. If not, what the program did wrong may wait in
 * magazines and bitmaps until its batch is flushed, and the walker lets it. */
bool error_ends_program(void);

HAK_C_END
#endif
