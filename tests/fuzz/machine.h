/*
 * Runs inputs: does what each record says to the allocator, keeps the model in step,
 * and fails where the two differ.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_MACHINE_H
#define HAK_TESTS_FUZZ_MACHINE_H

#include "allocator.h"
#include "model.h"
#include "operation.h"
#include "support/payload.h"
#include "trouble.h"
#include "workers.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hak_fuzz {

/* What can be left out, for an allocator that is known to do it wrong. */
enum class Part : unsigned {
  kGrowAligned,       /* realloc that makes a block of an alignment above 64 KiB larger while memory is short */
  kRefusedGiants,     /* sizes and alignments above 1 GiB under a limit                                 */
  kSizedAfterRealloc, /* free_sized of what realloc has returned                                        */
  kLockedPages,       /* mlock                                                                          */
  kRacingFrees,       /* two threads free one block at a time                                           */
  kForkInHandler,     /* fork where a signal has interrupted the allocator                              */
  kAbsurdMemalign,    /* errno of memalign with an alignment that no machine has                        */
  kResident,          /* what is resident when everything was freed                                     */
  kHeaps,             /* heaps of the program's own                                                     */
};
constexpr unsigned kParts = 9;
constexpr unsigned kHeaps = 3;
const char *name_of(Part part);
/* Leaves the parts out whose names stand in the list, with commas between them.
 * false: a name is unknown. */
bool leave_out(const char *names);

class Machine {
 public:
  /* Runs an input to its end, gives everything back, and looks that nothing is left. */
  void run(const std::uint8_t *input, std::size_t bytes);

 private:
  /* machine.cc: records, threads, the end */
  std::size_t burst(const Operation &o, const std::uint8_t *records, std::size_t count);
  void run_on_its_thread(const Operation &o);
  void perform(const Operation &o);
  void perform_together(unsigned thread);
  void expect_no_errors();
  void quiesce();
  void settle();
  void finish();

  /* blocks.cc */
  Request request_of(const Operation &o);
  unsigned heap_for(const Operation &o, Function function);
  void destroy_heap(unsigned number);
  bool has_room(std::size_t bytes) const;
  bool refuses_giants() const;
  std::size_t tamed(std::size_t bytes) const;
  std::size_t tamed_alignment(std::size_t alignment) const;
  std::uint32_t pick(const Operation &o) const;
  class Asking;
  bool allocate_one(const Request &request);
  void refused(const char *what, std::size_t bytes, std::size_t alignment, int error);
  void allocate_many(const Operation &o);
  void resize(const Operation &o);
  Told told_of(const Block &block, const Operation &o) const;
  void free_one(std::uint32_t id, const Operation &o);
  void free_many(const Operation &o);
  void free_all(const Operation &o);
  void hand_over(const Operation &o);
  void fill(const Operation &o);
  void look(const Operation &o);

  /* process.cc */
  void trim_and_look(const Operation &o);
  void fork_child(const Operation &o);
  void child(std::uint64_t seed);
  void limit(const Operation &o);

  /* mistakes.cc */
  void misuse(const Operation &o);
  void free_on(unsigned thread, void *address);
  void free_twice(const Operation &o);
  void race_to_free(const Operation &o);
  void free_inside(const Operation &o);
  void free_with_wrong_size(const Operation &o);
  void free_elsewhere(const Operation &o);

  Model model_;
  Trouble trouble_;
  Workers workers_;
  hak_test::Random random_{0};
  std::uint64_t expected_errors_ = 0;
  std::atomic<std::uint64_t> next_key_{1};
  std::size_t resident_before_ = 0;

  /* While threads run together. */
  bool together_ = false;
  unsigned together_threads_ = 0;
  const std::uint8_t *together_records_ = nullptr;
  std::size_t together_count_ = 0;
  std::uint32_t together_first_ = 0;
  std::atomic<std::size_t> asked_now_{0},
      asked_most_{0}; /* what calls that are not over have asked for; the most of it at a time */

  hak_heap_t *heaps_[kHeaps + 1] = {}; /* by their numbers; NULL: not made yet */

  const Operation *now_ = nullptr; /* that a worker does for the main thread */
  void *wrong_ = nullptr;          /* the address of a mistake */
};

/* Whether the part is in. */
bool has(Part part);

}  // namespace hak_fuzz
#endif
