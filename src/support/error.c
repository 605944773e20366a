/* See error.h. SPDX-License-Identifier: MIT */
#include "error.h"

#include "../os/lock.h"
#include "../os/os.h"
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static atomic64 errors;

void error_warn(const char *format, ...) {
  static const char prefix[] = "hakmem: ";
  enum { PREFIX = sizeof prefix - 1 };
  char line[PREFIX + 400 + 1];
  __builtin_memcpy(line, prefix, PREFIX);
  va_list arguments;
  va_start(arguments, format);
  /* Integers and strings only: glibc's vsnprintf allocates nothing for them. */
  int n = vsnprintf(line + PREFIX, sizeof line - PREFIX - 1, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  size_t length = PREFIX + min_size((size_t)n, sizeof line - PREFIX - 2);
  line[length++] = '\n';
  os_write_stderr(line, length);
}

static void say(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes) {
  switch (kind) {
    case ERROR_DOUBLE_FREE:
      error_warn("double free of %p (block of %zu bytes): it is already free", address, block_bytes);
      break;
    case ERROR_INTERIOR_FREE:
      error_warn("invalid free of %p: an interior pointer, not the start of a block of %zu bytes", address,
                 block_bytes);
      break;
    case ERROR_WILD_FREE:
      error_warn("invalid free of %p: no allocated block is there (class: none); never allocated, or a double free",
           address);
      break;
    case ERROR_SIZE_MISMATCH:
      error_warn("size mismatch in sized free of %p: freed as %zu bytes, but it is a block of %zu bytes", address,
           claimed_bytes, block_bytes);
      break;
  }
}

void error_report(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes) {
  atomic64_add_relaxed(&errors, 1);
  if (!config()->abort_on_error) return;
  say(kind, address, block_bytes, claimed_bytes);
  abort();
}

/* ---- Mistakes that wait for their report -----------------------------------------*/
atomic32 error_noted_by;

/* The thread's that has put its number into error_noted_by. */
static struct {
  error_kind_t kind;
  const void *address;
  size_t block_bytes, claimed_bytes;
} noted;

void error_note(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes) {
  atomic64_add_relaxed(&errors, 1);
  uint32_t nobody = 0;
  /* Where another thread's mistake waits already, that one ends the program.
   * Acquire: pairs with the release in error_report_noted. */
  if (!config()->abort_on_error || !atomic32_cas_acquire(&error_noted_by, &nobody, thread_number())) return;
  noted.kind = kind;
  noted.address = address;
  noted.block_bytes = block_bytes;
  noted.claimed_bytes = claimed_bytes;
}

void error_report_noted(void) {
  if (atomic32_load_relaxed(&error_noted_by) != thread_number()) return;
  say(noted.kind, noted.address, noted.block_bytes, noted.claimed_bytes);
  /* Before abort: it may not come back. Release: the fields are free for others. */
  atomic32_store_release(&error_noted_by, 0);
  abort();
}

void error_after_fork(void) {
  if (atomic32_load_relaxed(&error_noted_by) != thread_number()) atomic32_store_relaxed(&error_noted_by, 0);
}

bool error_ends_program(void) { return config()->abort_on_error; }
uint64_t error_count(void) { return atomic64_load_relaxed(&errors); }

/* ---- How the allocator itself fails ----------------------------------------------*/
void hak_assert_failed(const char *condition, const char *file, int line) {
  error_warn("internal error: '%s' does not hold at %s:%d", condition, file, line);
  abort();
}

void hak_reentered(void) {
  error_warn("a signal handler has called the allocator and interrupted it: no function of malloc(3) may be called there");
  abort();
}
