/*
 * The reference model: which blocks the program holds, what each was asked for with,
 * and what is written in it. It knows nothing of how the allocator works, only what
 * hakmem.h, C, C++ and POSIX promise, and fails where a promise is broken.
 *
 * A block is in the model from when the allocator has returned it to just before it
 * is given back, so the model never sees two that may overlap. Functions may be
 * called from several threads; each block has a holder, and only that thread touches
 * it while others run. Nothing here allocates: the allocator under test may be the
 * one that serves the program.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_MODEL_H
#define HAK_TESTS_FUZZ_MODEL_H

#include "operation.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

namespace hak_fuzz {

/* Which ways to give a block back are legal. */
enum class Origin : std::uint8_t { kSized, kAligned, kPlain, kNew, kNewArray, kNewAligned, kNewArrayAligned };

struct Block {
  unsigned char *at;
  std::size_t bytes;     /* asked for last             */
  std::size_t usable;    /* as the allocator says      */
  std::size_t alignment; /* that was promised          */
  std::size_t asked_alignment;
  std::uint64_t key; /* of its pattern             */
  Origin origin;
  std::uint8_t heap; /* of the program's own: its number; 0: the common one */
  std::uint8_t holder;
  bool was_reallocated;
  bool may_be_roomy;   /* larger than any request for its bytes is served with, but not by growing */
  bool is_written;     /* it carries its pattern     */
  std::uint32_t place; /* in its holder's list   */
};

class Model {
 public:
  static constexpr std::uint32_t kMost = 6000, kNone = UINT32_MAX;

  /* A block has been returned: checks address, alignment, usable size and that it
   * overlaps no other, and takes it in. Its contents are not known yet. */
  std::uint32_t add(const Block &block);
  /* Writes the block's pattern. From here on its contents are checked. */
  void write(std::uint32_t id);
  /* Takes a block out that is about to be given back; its contents are checked first. */
  Block take(std::uint32_t id);
  /* Puts it back as it was: the allocator has refused. */
  std::uint32_t put_back(const Block &block);

  /* One of the blocks of a holder, or of all, by number; kNone if there is none. */
  std::uint32_t pick(unsigned holder, std::size_t number) const;
  std::uint32_t pick_of_all(std::size_t number) const;
  const Block &block(std::uint32_t id) const { return blocks_[id]; }
  void hand_over(std::uint32_t id, unsigned holder);
  /* Spreads all blocks over the threads 1 .. `threads`. */
  void share_out(unsigned threads);

  void check(std::uint32_t id) const;
  /* Checks all blocks that carry their pattern. */
  void check_all() const;

  std::size_t count() const { return count_; }
  std::size_t asked_bytes() const { return asked_bytes_; }
  std::size_t usable_bytes() const { return usable_bytes_; }
  /* The most that was asked for at a time since the last call of `forget_peak`. What a
   * block had to be aligned to counts, too: it may have cost as many addresses. */
  std::size_t peak_bytes() const { return peak_bytes_; }
  void forget_peak() { peak_bytes_ = cost_bytes_.load(); }

  /* A fork between these two sees a model without half-made changes. */
  void lock() const { pthread_mutex_lock(&mutex_); }
  void unlock() const { pthread_mutex_unlock(&mutex_); }

 private:
  std::uint32_t insert(const Block &block);
  std::size_t position(const unsigned char *at) const;
  void unlist(std::uint32_t id);
  void enlist(std::uint32_t id, unsigned holder);

  mutable pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Block blocks_[kMost];
  std::uint32_t unused_[kMost]; /* a stack of numbers that were in use */
  std::size_t unused_count_ = 0, fresh_ = 0;
  std::uint32_t by_address_[kMost];
  std::uint32_t held_[kThreads][kMost];
  std::size_t held_count_[kThreads] = {};
  std::atomic<std::size_t> count_{0}, asked_bytes_{0}, usable_bytes_{0}, cost_bytes_{0}, peak_bytes_{0};
};

}  // namespace hak_fuzz
#endif
