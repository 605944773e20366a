/*
 * Our own surface, hakmem.h: the same entry points under our own names.
 * SPDX-License-Identifier: MIT
 */
#include "../../include/hakmem.h"

#include "../front/thread.h"
#include "../int/idle.h"
#include "../int/pressure.h"
#include "../int/trim.h"
#include "../observe/account.h"
#include "../observe/fields.h"
#include "../observe/json.h"
#include "address.h"
#include "alloc.h"
#include "posix.h"

void *hak_malloc(size_t bytes) { return alloc_malloc(bytes); }
void *hak_calloc(size_t count, size_t bytes) { return alloc_calloc(count, bytes); }
void *hak_realloc(void *block, size_t bytes) { return alloc_realloc(block, bytes); }
void *hak_reallocarray(void *block, size_t count, size_t bytes) { return posix_reallocarray(block, count, bytes); }
void *hak_aligned_alloc(size_t alignment, size_t bytes) { return posix_aligned_alloc(alignment, bytes); }
int hak_posix_memalign(void **out, size_t alignment, size_t bytes) {
  return posix_memalign_into(out, alignment, bytes);
}
void hak_free(void *block) { alloc_free(block); }
void hak_free_sized(void *block, size_t bytes) { alloc_free_sized(block, bytes); }
void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  alloc_free_aligned_sized(block, alignment, bytes);
}
size_t hak_usable_size(const void *block) { return alloc_usable_size(block); }

bool hak_owns(const void *address) { return address_is_owned(address); }
void hak_thread_flush(void) { thread_flush(); }
size_t hak_thread_idle(void) { return idle(); }

bool hak_trim(size_t keep_bytes) { return trim(keep_bytes) > 0; }
void hak_set_soft_limit(size_t bytes) { pressure_set_soft_limit(bytes); }

const char *hak_version(void) { return version_text(); }

void hak_stats(hak_stats_t *out, size_t out_bytes) {
  hak_stats_t stats;
  stats_collect(&stats);
  __builtin_memcpy(out, &stats, min_size(out_bytes, sizeof stats));
}
void hak_account(hak_account_t *out, size_t out_bytes) {
  hak_account_t account;
  account_collect(&account);
  __builtin_memcpy(out, &account, min_size(out_bytes, sizeof account));
}
void hak_stats_json(hak_write_fn *write, void *context) { json_write(write, context); }
