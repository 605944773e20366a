/* The order of things: see machine.h. SPDX-License-Identifier: MIT */
#include "machine.h"

#include "clock.h"
#include "fail.h"
#include "schedule.h"
#include "support/process.h"
#include "testing.h"

#include <cstring>
#include <string_view>

namespace hak_fuzz {

/* ---- What is left out --------------------------------------------------------------*/
static const char *const part_names[kParts] = {"grow-aligned",    "refused-giants", "sized-after-realloc",
                                               "locked-pages",    "racing-frees",   "fork-in-handler",
                                               "absurd-memalign", "resident",       "heaps"};
static unsigned parts_left_out;

const char *name_of(Part part) { return part_names[static_cast<unsigned>(part)]; }
bool has(Part part) { return (parts_left_out >> static_cast<unsigned>(part) & 1) == 0; }

bool leave_out(const char *names) {
  while (*names != '\0') {
    std::size_t length = std::strcspn(names, ",");
    unsigned part = 0;
    while (part < kParts && std::string_view(part_names[part]) != std::string_view(names, length)) part++;
    if (part == kParts) return false;
    parts_left_out |= 1u << part;
    names += length + (names[length] == ',');
  }
  return true;
}

/* ---- Records -----------------------------------------------------------------------*/
void Machine::run(const std::uint8_t *input, std::size_t bytes) {
  schedule_begin();
  schedule_name_thread(0);
  random_ = hak_test::Random(1);
  expected_errors_ = stats().errors;
  resident_before_ = hak_test::resident_bytes();
  std::size_t records = bytes / kRecordBytes;
  for (std::size_t i = 0; i < records; i++) {
    progress->record = static_cast<std::uint32_t>(i);
    Operation o = decode(input + i * kRecordBytes);
    if (o.kind == Kind::kBurst) i += burst(o, input + (i + 1) * kRecordBytes, records - i - 1);
    else run_on_its_thread(o);
    for (int n = 0; n < 3 && model_.count() > 0; n++) model_.check(model_.pick_of_all(random_.next()));
    if (i % 16 == 0) expect_no_errors();
  }
  progress->record = static_cast<std::uint32_t>(records);
  finish();
  schedule_end();
}

void Machine::run_on_its_thread(const Operation &o) {
  if (o.kind == Kind::kThreadEnd) { /* its blocks stay */
    workers_.end(o.thread != 0 ? o.thread : 1 + o.variant % (kThreads - 1));
  } else if (o.kind == Kind::kSettle) {
    settle();
  } else if (o.kind == Kind::kMisuse) {
    misuse(o);
  } else if (o.thread == 0 || !workers_.start(o.thread)) {
    perform(o);
  } else {
    now_ = &o;
    workers_.run_on(
        o.thread,
        [](void *self, unsigned) {
          auto *machine = static_cast<Machine *>(self);
          machine->perform(*machine->now_);
        },
        this);
  }
}

/* What a thread may do while others run. */
static bool is_for_many(Kind kind) {
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kAllocateMany:
    case Kind::kRealloc:
    case Kind::kFree:
    case Kind::kFreeMany:
    case Kind::kHandOver:
    case Kind::kFill:
    case Kind::kFlush:
    case Kind::kTrim:
    case Kind::kFork:
    case Kind::kForkInHandler:
    case Kind::kClock: return true;
    default: return false;
  }
}

void Machine::perform(const Operation &o) {
  if (together_ && !is_for_many(o.kind)) return;
  progress->operations++;
  switch (o.kind) {
    case Kind::kAllocate: allocate_one(request_of(o)); break;
    case Kind::kAllocateMany: allocate_many(o); break;
    case Kind::kRealloc: resize(o); break;
    case Kind::kFree: free_one(pick(o), o); break;
    case Kind::kFreeMany: free_many(o); break;
    case Kind::kFreeAll: free_all(o); break;
    case Kind::kHandOver: hand_over(o); break;
    case Kind::kFill: fill(o); break;
    case Kind::kFlush: hak_thread_flush(); break;
    case Kind::kTrim: trim_and_look(o); break;
    case Kind::kFork:
    case Kind::kForkInHandler: fork_child(o); break;
    case Kind::kRefuseOne: trouble_.refuse_one(1 + o.count % 8); break;
    case Kind::kRefuseAll: trouble_.refuse_all(1 + o.count % 4); break;
    case Kind::kRecover: trouble_.recover(); break;
    case Kind::kLimitData:
    case Kind::kLimitAddressSpace: limit(o); break;
    case Kind::kLock:
      if (std::uint32_t id = pick(o); id != Model::kNone && has(Part::kLockedPages))
        trouble_.lock_page(model_.block(id).at, model_.block(id).usable, o.size);
      break;
    case Kind::kUnlock: trouble_.unlock_page(o.pick); break;
    case Kind::kClock: {
      constexpr std::uint64_t kSteps_ms[8] = {5, 20, 50, 100, 500, 1000, 1100, 3000};
      clock_advance(kSteps_ms[o.count % 8]);
      break;
    }
    case Kind::kLook: look(o); break;
    case Kind::kCheck:
      model_.check_all();
      walk();
      break;
    case Kind::kDestroyHeap: destroy_heap(1 + o.pick % kHeaps); break;
    case Kind::kSettle:
    case Kind::kMisuse:
    case Kind::kBurst:
    case Kind::kThreadEnd: break; /* the main thread's: see run_on_its_thread */
  }
}

/* ---- Threads together -----------------------------------------------------------------*/
std::size_t Machine::burst(const Operation &o, const std::uint8_t *records, std::size_t count) {
  unsigned threads = 2 + o.variant % (kThreads - 2);
  for (unsigned t = 1; t <= threads; t++)
    if (!workers_.start(t)) return 0;
  together_records_ = records;
  together_count_ = 4 + o.count % 64u;
  if (together_count_ > count) together_count_ = count;
  together_threads_ = threads;
  together_first_ = progress->record + 1;
  model_.share_out(threads);
  asked_most_ = 0;
  together_ = true;
  workers_.run_together(
      threads, [](void *self, unsigned thread) { static_cast<Machine *>(self)->perform_together(thread); }, this,
      o.size, 1u << o.pick % 10);
  together_ = false;
  asked_most_ = 0;
  model_.check_all();
  walk();
  expect_no_errors();
  return together_count_;
}

void Machine::perform_together(unsigned thread) {
  for (std::size_t i = 0; i < together_count_; i++) {
    const std::uint8_t *record = together_records_ + i * kRecordBytes;
    if (record[1] % 8 % together_threads_ + 1 != thread) continue;
    progress->record = together_first_ + static_cast<std::uint32_t>(i);
    perform(decode(record));
  }
}

/* ---- Rest ---------------------------------------------------------------------------*/
void Machine::expect_no_errors() {
  std::uint64_t errors = stats().errors;
  if (errors != expected_errors_)
    fail("%llu wrong frees were counted, there were %llu", static_cast<unsigned long long>(errors),
         static_cast<unsigned long long>(expected_errors_));
}

/* All caches empty: what one thread sends home, another fetches in the second round. */
void Machine::quiesce() {
  for (int round = 0; round < 2; round++) {
    for (unsigned t = 1; t < kThreads; t++)
      if (workers_.is_running(t))
        workers_.run_on(
            t, [](void *, unsigned) { hak_thread_flush(); }, nullptr);
    hak_trim(0);
  }
}

void Machine::settle() {
  quiesce();
  hak_stats_t now = stats();
  if (!kServed && now.live != model_.usable_bytes())
    fail("%zu bytes are live, the program holds %zu", now.live, model_.usable_bytes());
  expect_no_errors();
  walk();
}

void Machine::finish() {
  constexpr std::size_t kRemains = std::size_t{32} << 20; /* tables, magazines' arrays */
  trouble_.recover();
  trouble_.unlock_all();
  schedule_interrupt(0, nullptr);
  settle();
  Operation o = {};
  while (model_.count() > 0) {
    o.pick = static_cast<std::uint16_t>(random_.next());
    o.variant = o.pick % 32;
    o.thread = static_cast<std::uint8_t>(random_.below(kThreads));
    if (!workers_.is_running(o.thread)) o.thread = 0;
    o.kind = Kind::kFreeMany;
    o.count = static_cast<std::uint8_t>(random_.next());
    run_on_its_thread(o);
  }
  for (unsigned t = 1; t < kThreads; t++) workers_.end(t);
  for (unsigned heap = 1; heap <= kHeaps; heap++) destroy_heap(heap); /* each keeps an empty slab or two */
  settle();
  hak_stats_t now = stats();
  if (now.dirty_free != 0) fail("%zu bytes are dirty after everything was freed and trimmed", now.dirty_free);
  if (kServed) return;
  if (now.slab_bytes + now.large_bytes + now.huge_bytes != 0)
    fail("everything was freed and trimmed, and %zu bytes of slabs, %zu of large and %zu of huge blocks are left",
         now.slab_bytes, now.large_bytes, now.huge_bytes);
  std::size_t resident = hak_test::resident_bytes();
  if (!kSanitized && has(Part::kResident) && resident > resident_before_ + kRemains)
    fail("%zu bytes were resident before the input and %zu are after it", resident_before_, resident);
}

}  // namespace hak_fuzz
