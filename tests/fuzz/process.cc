/* The machine's operations on the process. SPDX-License-Identifier: MIT */
#include "machine.h"

#include "fail.h"
#include "pattern.h"
#include "schedule.h"
#include "testing.h"

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

namespace hak_fuzz {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/* What a locked page may keep resident beside itself. */
constexpr std::size_t kDirtyPerLockedPage = 4 * kMiB;

void wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status)) fail("the forked child was killed by signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) fail("the forked child left with status %d", WEXITSTATUS(status));
}

void handler() {
  pid_t child = fork();
  if (child == 0) _exit(0);
  if (child > 0) wait_for(child);
}

}  // namespace

/* ---- Memory that goes back ------------------------------------------------------------*/
void Machine::trim_and_look(const Operation &o) {
  std::size_t keep = o.count % 4 < 3 ? 0 : std::size_t{o.count} << 16;
  trim(keep, (o.alignment & 128) != 0);
  if (together_ || trouble_.is_any()) return;
  std::size_t dirty = stats().dirty_free, most = keep + trouble_.locked_pages() * kDirtyPerLockedPage;
  if (dirty > most)
    fail("%zu bytes stay dirty after a trim that may keep %zu; %zu pages are locked", dirty, most,
         trouble_.locked_pages());
}

void Machine::limit(const Operation &o) {
  std::size_t headroom = (256 + 4 * std::size_t{o.count}) * kMiB;
  model_.forget_peak();
  if (o.kind == Kind::kLimitData) trouble_.limit_data(headroom);
  else trouble_.limit_address_space(headroom);
}

/* ---- Fork ----------------------------------------------------------------------------*/
void Machine::fork_child(const Operation &o) {
  if (!kForks) return;
  if (o.kind == Kind::kForkInHandler) {
    if (has(Part::kForkInHandler)) schedule_interrupt(1 + o.pick % 1024, handler);
    return;
  }
  /* Where threads take turns they do so inside the allocator only, of which fork is
   * a part: the model is whole then, and whoever got the turn would wait for it. */
  if (!kSteps) model_.lock();
  pid_t pid = fork();
  if (!kSteps) model_.unlock();
  if (pid == 0) {
    child(o.size);
    _exit(0);
  }
  if (pid > 0) wait_for(pid);
}

/* Every block is as it was, whatever other threads were doing; half of them can be
 * freed, and there is memory for new ones. */
void Machine::child(std::uint64_t seed) {
  trouble_.recover();
  together_ = false;
  hak_test::Random random(seed);
  model_.check_all();
  walk();
  Operation o = {};
  for (std::size_t left = model_.count() / 2; left > 0; left--) {
    std::uint32_t id = model_.pick_of_all(random.next());
    if (!model_.block(id).is_written) continue;
    o.variant = static_cast<std::uint8_t>(random.below(2));
    free_one(id, o);
  }
  for (int i = 0; i < 60; i++) {
    o.size = static_cast<std::uint16_t>(random.below(220) | random.below(256) << 8);
    o.variant = static_cast<std::uint8_t>(random.below(32));
    o.alignment = static_cast<std::uint8_t>(random.below(20));
    o.pick = static_cast<std::uint16_t>(random.next());
    if (i % 3 < 2) allocate_one(request_of(o));
    else if (std::uint32_t id = pick(o); id != Model::kNone && model_.block(id).is_written) resize(o);
  }
  model_.check_all();
  hak_thread_flush();
  trim(0, false);
  expect_no_errors();
  walk();
}

}  // namespace hak_fuzz
