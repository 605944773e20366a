/*
 * The mistakes that the machine makes. HAKMEM_ABORT_ON_ERROR is 0, so a mistake is
 * counted once and has no effect. Until a mistake is found a block may be handed out
 * twice, so nothing is allocated between it and its discovery: all caches are emptied.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"

#include "fail.h"
#include "schedule.h"

#include <cerrno>

namespace hak_fuzz {

void Machine::misuse(const Operation &o) {
  if (trouble_.is_any()) return;
  switch (o.variant % 8) {
    case 0:
    case 1: free_twice(o); break;
    case 2:
    case 3: race_to_free(o); break;
    case 4:
    case 5: free_inside(o); break;
    case 6: free_with_wrong_size(o); break;
    default: free_elsewhere(o); break;
  }
  quiesce();
  expect_no_errors();
  walk();
}

/* Runs a free on a thread, or here if that thread does not run. */
void Machine::free_on(unsigned thread, void *address) {
  wrong_ = address;
  if (thread == 0 || !workers_.start(thread)) hak_free(address);
  else
    workers_.run_on(
        thread, [](void *self, unsigned) { hak_free(static_cast<Machine *>(self)->wrong_); }, this);
}

void Machine::free_twice(const Operation &o) {
  std::uint32_t id = pick(o);
  if (id == Model::kNone) return;
  Block b = model_.take(id);
  free_on(o.thread, b.at);
  if (o.count % 4 == 0) quiesce();
  free_on(o.count / 4 % 2 == 0 ? o.thread : o.count / 8 % kThreads, b.at);
  expected_errors_++;
}

/* Two threads free one block, each empties its caches, and nobody else runs. The
 * moments that matter are short, so many blocks have their turn; none is allocated
 * meanwhile. */
void Machine::race_to_free(const Operation &o) {
  if (!has(Part::kRacingFrees) || !workers_.start(1) || !workers_.start(2)) return;
  for (unsigned n = 0; n <= o.count % 64u; n++) {
    std::uint32_t id = model_.pick_of_all(o.pick + 7 * n);
    if (id == Model::kNone) return;
    wrong_ = model_.take(id).at;
    expected_errors_++;
    workers_.run_together(
        2,
        [](void *self, unsigned) {
          hak_free(static_cast<Machine *>(self)->wrong_);
          hak_thread_flush();
        },
        this, o.size + n, 16u << (o.alignment + n) % 8);
  }
}

/* An address inside a live block, which stays live. */
void Machine::free_inside(const Operation &o) {
  std::uint32_t id = pick(o);
  if (id == Model::kNone) return;
  const Block &b = model_.block(id);
  const std::size_t offsets[4] = {8, b.usable / 2, b.usable - 1, o.size};
  std::size_t offset = offsets[o.count % 4] % b.usable;
  if (offset == 0) offset = 1;
  expected_errors_++;
  if (o.variant % 8 == 4) {
    free_on(o.thread, b.at + offset);
    return;
  }
  errno = 0;
  if (void *moved = hak_realloc(b.at + offset, b.bytes + 1); moved != nullptr || errno != ENOMEM)
    fail("realloc of an address inside a block gave %p, errno %d", moved, errno);
}

void Machine::free_with_wrong_size(const Operation &o) {
  std::uint32_t id = pick(o);
  if (id == Model::kNone || model_.block(id).origin != Origin::kSized) return;
  hak_free_sized(model_.block(id).at, 3 * model_.block(id).usable + 100000);
  expected_errors_++;
}

/* Addresses that no allocator has handed out, and that cannot be read. (Before the
 * first block hak_stats tells of no mistakes.) */
void Machine::free_elsewhere(const Operation &o) {
  if (model_.count() == 0) return;
  void *address = reinterpret_cast<void *>(o.count % 2 == 0 ? std::uintptr_t{16} : std::uintptr_t{0xdeadbeefdeadbee0});
  free_on(o.thread, address);
  expected_errors_++;
}

}  // namespace hak_fuzz
