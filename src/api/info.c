/*
 * What glibc's functions tell of its heap, told of ours: mallinfo(3), malloc_stats(3),
 * malloc_info(3).
 *
 * SPDX-License-Identifier: MIT
 */
#include <malloc.h>

#if defined(__GLIBC__) /* other C libraries have none of them, nor a program that calls one */

#include "../observe/desk.h"
#include "../observe/report.h"
#include "../observe/xml.h"

#include <errno.h>
#include <pthread.h>

#define EXPORT __attribute__((visibility("default")))

/* As glibc: huge blocks are in .hblkhd alone, and arena = uordblks + fordblks. What the
 * program holds counts as large as it may be used, whether it has been touched or not; what
 * it does not hold counts if it is in memory. */
static void tell(desk_t *desk, void *told) {
  const hak_stats_t *stats = &desk->stats;
  const hak_account_t *account = &desk->account;
  size_t live = stats->live > stats->huge_bytes ? stats->live - stats->huge_bytes : 0;
  size_t beside = account->resident - account->resident_live;
  size_t cached_count = 0, free_count = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    cached_count += desk->census.classes[c].cached;
    free_count += desk->census.classes[c].free;
  }
  *(struct mallinfo2 *)told = (struct mallinfo2){
      .arena = live + beside,
      .ordblks = free_count,
      .smblks = cached_count,
      .hblks = desk->census.huge_count,
      .hblkhd = stats->huge_bytes,
      .fsmblks = stats->cached,
      .uordblks = live,
      .fordblks = beside,
      .keepcost = account->resident_dirty,
  };
}

EXPORT struct mallinfo2 mallinfo2(void) {
  struct mallinfo2 info;
  desk_work(tell, &info);
  return info;
}

EXPORT struct mallinfo mallinfo(void) {
  struct mallinfo2 wide = mallinfo2();
  return (struct mallinfo){
      .arena = (int)wide.arena,
      .ordblks = (int)wide.ordblks,
      .smblks = (int)wide.smblks,
      .hblks = (int)wide.hblks,
      .hblkhd = (int)wide.hblkhd,
      .fsmblks = (int)wide.fsmblks,
      .uordblks = (int)wide.uordblks,
      .fordblks = (int)wide.fordblks,
      .keepcost = (int)wide.keepcost,
  };
}

EXPORT void malloc_stats(void) { report_print(false); }

EXPORT int malloc_info(int options, FILE *stream) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  int cancel_state; /* writing to a stream is a cancellation point, and malloc's functions are none */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  bool written = xml_write(stream);
  pthread_setcancelstate(cancel_state, NULL);
  return written ? 0 : -1;
}

#endif
