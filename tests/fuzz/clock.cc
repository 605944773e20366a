/* See clock.h. SPDX-License-Identifier: MIT */
#include "clock.h"

#include <atomic>
#include <sys/syscall.h>
#include <ctime>
#include <unistd.h>

namespace hak_fuzz {

static std::atomic<std::uint64_t> now_ms{1000000};

void clock_advance(std::uint64_t ms) { now_ms += ms; }

}  // namespace hak_fuzz

/* Stands before the C library's, for this program and its libraries. */
extern "C" int clock_gettime(clockid_t clock, timespec *now) noexcept {
  if (clock != CLOCK_MONOTONIC_COARSE) return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  std::uint64_t ms = hak_fuzz::now_ms.load(std::memory_order_relaxed);
  now->tv_sec = static_cast<time_t>(ms / 1000);
  now->tv_nsec = static_cast<long>(ms % 1000 * 1000000);
  return 0;
}
