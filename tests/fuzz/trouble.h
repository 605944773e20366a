/*
 * What goes wrong on purpose, and what an allocation may therefore be refused:
 * calls to the system that fail, limits of the process, locked pages.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_TROUBLE_H
#define HAK_TESTS_FUZZ_TROUBLE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hak_fuzz {

class Trouble {
 public:
  /* The n-th fallible call to the system from now on fails; all from there on. Nothing
   * happens in builds that inject no failures. */
  void refuse_one(std::uint64_t nth);
  void refuse_all(std::uint64_t nth);
  /* Lets the process take `headroom` more bytes of data (RLIMIT_DATA) or of address
   * space (RLIMIT_AS). Nothing happens where the process would not survive it. */
  void limit_data(std::size_t headroom);
  void limit_address_space(std::size_t headroom);
  /* All of that ends, in this process. */
  void recover();

  /* Locks a page that lies wholly in the block, if there is one; unlocks one page. */
  void lock_page(const unsigned char *block, std::size_t bytes, std::size_t pick);
  void unlock_page(std::size_t pick);
  void unlock_all();
  /* realloc has moved the block: where it moved pages, their locks went with them. */
  void was_moved(const unsigned char *block, std::size_t bytes);
  std::size_t locked_pages() const { return locked_count_ + moved_count_; }

  bool is_any() const { return one_ || all_ || is_limited(); }
  bool is_limited() const { return headroom_ != kNoLimit; }
  bool is_exhausted() const { return all_; }
  /* Whether a request may be answered with ENOMEM while the blocks of the program
   * have had `peak` bytes since the limit was set. */
  bool may_refuse(std::size_t bytes, std::size_t alignment, std::size_t peak) const;
  /* A request was refused that might be: one call that fails excuses one request. */
  void was_refused() { one_ = false; }

  /* Sizes that no machine has: they are always refused. */
  static bool is_absurd(std::size_t bytes, std::size_t alignment);

 private:
  static constexpr std::size_t kNoLimit = SIZE_MAX, kLockedMost = 64;
  std::atomic<bool> one_{false};
  bool all_ = false;
  std::size_t headroom_ = kNoLimit;
  unsigned char *locked_[kLockedMost];
  std::size_t locked_count_ = 0;
  std::atomic<std::size_t> moved_count_{0}; /* of which nobody knows where they are */
};

}  // namespace hak_fuzz
#endif
