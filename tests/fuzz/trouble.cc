/* See trouble.h. SPDX-License-Identifier: MIT */
#include "trouble.h"

#include "support/process.h"
#include "testing.h"

#include <os/os.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace hak_fuzz {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

void inject([[maybe_unused]] std::uint64_t nth, [[maybe_unused]] bool sticky) {
#if defined(HAK_FAULT_INJECTION)
  os_fault_set(nth, sticky);
#endif
}

void set_limit(decltype(RLIMIT_AS) which, rlim_t bytes) {
  rlimit limit;
  getrlimit(which, &limit);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  setrlimit(which, &limit);
}

}  // namespace

void Trouble::refuse_one(std::uint64_t nth) {
  if (!kInjects || all_) return;
  one_ = true;
  inject(nth, false);
}

void Trouble::refuse_all(std::uint64_t nth) {
  if (!kInjects) return;
  all_ = true;
  inject(nth, true);
}

void Trouble::limit_data(std::size_t headroom) {
  if (!kLimits || is_limited()) return;
  headroom_ = headroom;
  set_limit(RLIMIT_DATA, hak_test::status_kib("VmData:") * 1024 + headroom);
}

void Trouble::limit_address_space(std::size_t headroom) {
  if (!kLimits || is_limited()) return;
  headroom_ = headroom;
  set_limit(RLIMIT_AS, hak_test::status_kib("VmSize:") * 1024 + headroom);
}

void Trouble::recover() {
  inject(0, false);
  one_ = all_ = false;
  if (is_limited()) {
    set_limit(RLIMIT_DATA, RLIM_INFINITY);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
  }
  headroom_ = kNoLimit;
}

void Trouble::lock_page(const unsigned char *block, std::size_t bytes, std::size_t pick) {
  std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t first = (page - reinterpret_cast<std::uintptr_t>(block) % page) % page;
  if (locked_count_ == kLockedMost || bytes < first + page) return;
  auto *at = const_cast<unsigned char *>(block) + first + pick % ((bytes - first) / page) * page;
  if (mlock(at, page) == 0) locked_[locked_count_++] = at;
}

void Trouble::unlock_page(std::size_t pick) {
  if (locked_count_ == 0) return;
  unsigned char *&chosen = locked_[pick % locked_count_];
  munlock(chosen, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  chosen = locked_[--locked_count_];
}

void Trouble::unlock_all() {
  munlockall();
  locked_count_ = moved_count_ = 0;
}

void Trouble::was_moved(const unsigned char *block, std::size_t bytes) {
  for (std::size_t i = 0; i < locked_count_; i++)
    if (locked_[i] >= block && locked_[i] < block + bytes) moved_count_++;
}

bool Trouble::is_absurd(std::size_t bytes, std::size_t alignment) {
  return bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2 || bytes >= std::size_t{1} << 47 ||
         alignment >= std::size_t{1} << 47;
}

/* A limit excuses nothing as long as a quarter of it would hold all that the program
 * has had, beside what threads may cache. What was refused does not count: a request
 * that fails may not use the limit up. */
bool Trouble::may_refuse(std::size_t bytes, std::size_t alignment, std::size_t peak) const {
  constexpr std::size_t kCached = 192 * kMiB;
  if (bytes >= kGiB || alignment >= kGiB) return true;
  if (one_ || all_) return true;
  return is_limited() && 4 * (peak + bytes + alignment) + kCached > headroom_;
}

}  // namespace hak_fuzz
