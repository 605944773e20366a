/* See error.h. SPDX-License-Identifier: MIT */
#include "error.h"

#include "../os/lock.h"
#include "../os/os.h"
#include "config.h"

#include <stdlib.h>

static atomic64 errors;
const inspect_field_t error_inspected[1] = {HAK_INSPECT_VARIABLE("errors", errors)};

static void say(error_kind_t kind, const void *address, size_t block_bytes, size_t claimed_bytes) {
  switch (kind) {
    case ERROR_DOUBLE_FREE:
      os_warn("double free of %p (block of %zu bytes): it is already free", address, block_bytes);
      break;
    case ERROR_INTERIOR_FREE:
      os_warn("invalid free of %p: an interior pointer, not the start of a block of %zu bytes", address, block_bytes);
      break;
    case ERROR_WILD_FREE:
      os_warn("invalid free of %p: no allocated block is there (class: none); never allocated, or a double free",
              address);
      break;
    case ERROR_SIZE_MISMATCH:
      os_warn("size mismatch in sized free of %p: freed as %zu bytes, but it is a block of %zu bytes", address,
              claimed_bytes, block_bytes);
      break;
    case ERROR_NO_HEAP: os_warn("use of the heap %p: it was destroyed, or there never was such a heap", address); break;
    case ERROR_OTHER_HEAP: os_warn("invalid free of %p: it is no block of the heap that was named", address); break;
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

/* A thread's number; 0: nobody's reports. Relaxed: who compares it with his own has written that himself. */
static atomic32 put_off_by;
void error_put_off(bool is_put_off) { atomic32_store_relaxed(&put_off_by, is_put_off ? thread_number() : 0); }

void error_report_noted(void) {
  if (atomic32_load_relaxed(&error_noted_by) != thread_number()) return;
  if (atomic32_load_relaxed(&put_off_by) == thread_number()) return;
  say(noted.kind, noted.address, noted.block_bytes, noted.claimed_bytes);
  /* Before abort: it may not come back. Release: the fields are free for others. */
  atomic32_store_release(&error_noted_by, 0);
  abort();
}

void error_after_fork(void) {
  if (atomic32_load_relaxed(&error_noted_by) != thread_number()) atomic32_store_relaxed(&error_noted_by, 0);
  if (atomic32_load_relaxed(&put_off_by) != thread_number()) atomic32_store_relaxed(&put_off_by, 0);
}

bool error_ends_program(void) { return config()->abort_on_error; }
uint64_t error_count(void) { return atomic64_load_relaxed(&errors); }
