/* Samples of allocations: which ones are taken, and what is said of them. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/process.h"

#include <arena/metadata.h>
#include <front/magazine.h>
#include <front/sample.h>
#include <front/thread.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <cerrno>
#include <set>
#include <string>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

const inspect_field_t &field(const std::string &name) {
  for (const inspect_field_t &f : record_inspected)
    if (name == f.name) return f;
  throw std::runtime_error("no field " + name);
}
uint64_t number(const std::string &name) { return reinterpret_cast<uintptr_t>(field(name).at); }
uint64_t variable(const std::string &name) {
  return atomic64_load_relaxed(static_cast<const atomic64 *>(field(name).at));
}
const char *record_base() {
  return static_cast<const char *>(
      __atomic_load_n(static_cast<void *const *>(field("sample.record").at), __ATOMIC_ACQUIRE));
}

/* Reads as a reader outside does, and says what became of it. */
struct Reader {
  /* All that came before is read. */
  Reader() { say(); }
  void say() {
    atomic64_store_release(&record_control.drained, next);
    atomic64_store_release(&record_control.stacks_drained, variable("sample.stack_count"));
    atomic32_store_relaxed(&record_control.beat,
                           atomic32_load_relaxed(&record_control.beat) + 1); /* see RECORD_LEASE_MS */
  }
  uint64_t next = variable("sample.event_count"), dropped = variable("sample.dropped_count");
  std::vector<record_event_t> events;

  void drain() {
    auto *places = reinterpret_cast<const record_event_t *>(record_base() + number("sample.at.events"));
    for (uint64_t end = variable("sample.event_count"); next < end; next++) {
      const record_event_t &place = places[next % RECORD_EVENTS];
      ASSERT_EQ(atomic64_load_acquire(&place.number), next + 1);
      events.push_back(place);
    }
    say();
  }
  /* The bytes that were allocated, by the sizes of the blocks, as the samples tell. */
  std::map<uint64_t, double> bytes() {
    std::map<uint64_t, double> sums;
    for (const record_event_t &e : events) {
      if (e.kind != RECORD_ALLOCATED) continue;
      double size = static_cast<double>(e.bytes), mean = static_cast<double>(e.mean_bytes);
      sums[e.bytes] += size / -std::expm1(-size / mean);
    }
    return sums;
  }
};

/* Samples are wanted while it lives, of threads that begin in that time. */
struct Wanted {
  explicit Wanted(uint64_t mean) { record_start(mean); }
  ~Wanted() { record_start(0); }
};

template <typename Body> void in_thread(Body body) { std::thread(body).join(); }

struct Site {
  size_t bytes, batch;
};

/* Rounds of a batch of each site, freed in one order or the other. */
void work(const std::vector<Site> &sites, int rounds, bool lifo, Reader &reader) {
  for (int r = 0; r < rounds; r++) {
    for (const Site &site : sites) {
      std::vector<void *> blocks(site.batch);
      for (void *&block : blocks) block = hak_malloc(site.bytes);
      if (lifo) std::reverse(blocks.begin(), blocks.end());
      for (void *block : blocks) hak_free(block);
    }
    if (r % 4 == 0) reader.drain();
  }
  reader.drain();
}

}  // namespace

class SampleShares : public testing::TestWithParam<std::tuple<std::vector<Site>, int, bool>> {};

/* Each site's bytes, from samples alone, are what it allocated: whether blocks come and go one by one, and no
 * magazine ever runs empty, or in batches that are just as long as magazines or as distances of samples. At ten
 * thousand samples of the least site, 5 % are five standard deviations. */
TEST_P(SampleShares, AreWhatWasAllocated) {
  auto [sites, rounds, lifo] = GetParam();
  double least = 1e18;
  for (const Site &site : sites) least = std::min(least, static_cast<double>(site.bytes * site.batch) * rounds);
  Wanted wanted(static_cast<uint64_t>(least / 10000));
  Reader reader;
  in_thread([&, &sites = sites, rounds = rounds, lifo = lifo] { work(sites, rounds, lifo, reader); });
  auto seen = reader.bytes();
  for (const Site &site : sites) {
    double truth = static_cast<double>(site.bytes) * static_cast<double>(site.batch) * rounds;
    EXPECT_NEAR(seen[site.bytes] / truth, 1.0, 0.05) << site.bytes << " bytes in batches of " << site.batch;
  }
  EXPECT_EQ(variable("sample.dropped_count"), reader.dropped);
  hak__check_all();
}
INSTANTIATE_TEST_SUITE_P(
    Of, SampleShares,
    testing::Values(std::tuple(std::vector<Site>{{64, 1}, {1024, 1}}, 400000, true),
                    std::tuple(std::vector<Site>{{64, 63}, {256, 64}, {1024, 16}}, 40000, true),
                    std::tuple(std::vector<Site>{{64, 63}, {256, 64}, {1024, 16}}, 40000, false),
                    std::tuple(std::vector<Site>{{128, 127}, {512, 128}, {16384, 1}}, 10000, true),
                    std::tuple(std::vector<Site>{{4096, 4}, {32768, 3}, {131072, 2}}, 12000, false),
                    std::tuple(std::vector<Site>{{262144, 1}, {393216, 2}, {2097152, 1}}, 20000, true)));

/* A program that keeps samples for whoever may come does not wait for him at its end. */
TEST(Sample, NobodyIsWaitedForWhoHasNeverRead) {
  const auto ending = [] { return atomic32_load_relaxed(static_cast<const atomic32 *>(field("sample.is_ending").at)); };
  Wanted wanted(4096);
  in_thread([] { hak_free(hak_malloc(1 << 20)); });
  ASSERT_NE(variable("sample.event_count"), 0u);
  record_finish();
  EXPECT_EQ(ending(), 0u);
  Reader reader;
  reader.drain();
  record_finish();
  EXPECT_EQ(ending(), 1u);
}

/* Every free of a sample is told, whoever frees, and no other. */
TEST(Sample, FreesAreTold) {
  Wanted wanted(4096);
  Reader reader;
  std::vector<void *> kept;
  in_thread([&] {
    std::vector<void *> blocks;
    for (int i = 0; i < 3000; i++) blocks.push_back(hak_malloc(i % 3 == 0 ? 48 : i % 3 == 1 ? 2000 : 70000));
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % 3 == 0) hak_free(blocks[i]);
      else kept.push_back(blocks[i]);
    }
    kept.push_back(hak_realloc(hak_malloc(HAK_MIB(6)), HAK_MIB(40)));
  });
  reader.drain();
  auto live = [&] {
    std::set<uint64_t> blocks;
    for (const record_event_t &e : reader.events) {
      if (e.kind == RECORD_ALLOCATED) EXPECT_TRUE(blocks.insert(e.block).second) << "allocated twice";
      else EXPECT_EQ(blocks.erase(e.block), 1u) << "freed, and was no sample";
    }
    return blocks;
  };
  std::set<uint64_t> all;
  for (void *block : kept) all.insert(reinterpret_cast<uintptr_t>(block));
  auto before = live();
  EXPECT_GT(before.size(), 500u);
  EXPECT_TRUE(std::includes(all.begin(), all.end(), before.begin(), before.end()));
  EXPECT_EQ(before.count(reinterpret_cast<uintptr_t>(kept.back())), 1u);
  in_thread([&] {
    for (void *block : kept) hak_free(block);
  });
  reader.drain();
  EXPECT_TRUE(live().empty());
}

/* A thread that was there before, and one that has been told to stop. */
TEST(Sample, BeginsAndEndsInARunningThread) {
  in_thread([] {
    void *block = hak_malloc(100);
    Reader reader;
    {
      Wanted wanted(1024);
      the_heap->id_word |= HEAP_SAMPLES; /* as from outside */
      for (int i = 0; i < 1000; i++) hak_free(hak_malloc(100));
      EXPECT_TRUE(sample_is_on(the_heap));
      reader.drain();
      EXPECT_GT(reader.events.size(), 50u);
      hak__check_all();
    }
    hak_free(block);
    for (int i = 0; i < 1000; i++) hak_free(hak_malloc(100));
    EXPECT_FALSE(sample_may_be_on(the_heap));
    EXPECT_EQ(variable("sample.event_count"), reader.next);
    hak__check_all();
  });
}

/* A thread that slept from the beginning of a profile to its end is told of it at its next free. */
TEST(Sample, WhatIsNotWantedAnyMoreDoesNotBegin) {
  in_thread([] {
    void *blocks[] = {hak_malloc(100), hak_malloc(100)};
    ASSERT_FALSE(sample_may_be_on(the_heap));
    the_heap->id_word |= HEAP_SAMPLES; /* as from outside */
    for (void *block : blocks) hak_free(block);
    EXPECT_FALSE(sample_may_be_on(the_heap));
    hak__check_all();
  });
}

/* While it samples, the account is right to the byte: a trap stands for its block. */
TEST(Sample, TheAccountIsRight) {
  Wanted wanted(2048);
  in_thread([] {
    std::vector<void *> blocks(200);
    size_t traps = 0;
    for (int i = 0; i < 50; i++) {
      for (void *&block : blocks) block = hak_malloc(64);
      for (void *block : blocks) hak_free(block);
      size_t counted = 0, empty = 0;
      std::set<void *> cached;
      for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++)
        for (size_t slot = 1; slot <= magazine_count(the_heap, c); slot++) {
          if (magazine_slots(the_heap, c)[slot] == nullptr) empty++;
          EXPECT_TRUE(cached.insert(sample_block_at(the_heap, c, slot)).second);
          counted += size_classes[c].block_bytes;
        }
      EXPECT_EQ(cached.count(nullptr), 0u);
      EXPECT_EQ(counted, hak_test::cached_bytes(the_heap));
      traps += empty;
    }
    EXPECT_GT(traps, 25u) << "the test is void";
  });
}

/* What is flushed is the oldest, with the block of the trap if it is among them; and the trap moves down with
 * its block. */
TEST(Sample, AFlushKnowsTheTrap) {
  Wanted wanted(2048);
  in_thread([] {
    const unsigned size_class = size_class_of(64);
    size_t moved = 0, gone = 0;
    for (int i = 0; i < 200; i++) {
      std::vector<void *> blocks(100);
      for (void *&block : blocks) block = hak_malloc(64);
      for (void *block : blocks) hak_free(block);
      heap_t *heap = thread_enter();
      const size_t count = magazine_count(heap, size_class), some = count * (i % 10 + 1) / 10;
      const int trap = heap->sampler->trap[size_class], flushed = static_cast<int>(some);
      std::vector<void *> before, after;
      for (size_t slot = 1; slot <= count; slot++) before.push_back(sample_block_at(heap, size_class, slot));
      unload(heap, size_class, some);
      EXPECT_EQ(magazine_count(heap, size_class), count - some);
      for (size_t slot = 1; slot <= count - some; slot++) after.push_back(sample_block_at(heap, size_class, slot));
      EXPECT_TRUE(std::equal(after.begin(), after.end(), before.end() - static_cast<std::ptrdiff_t>(after.size())));
      EXPECT_EQ(heap->sampler->trap[size_class], std::max(trap - flushed, 0));
      (trap > flushed ? moved : gone) += static_cast<size_t>(trap > 0);
      thread_leave(heap);
      hak__check_all();
    }
    EXPECT_GT(std::min(moved, gone), 10u) << "the test is void";
  });
}

/* It was freed twice, and is a block of another class by now, one of those that stand in for its own. */
TEST(Sample, ABlockIsCountedWhereItLay) {
  Wanted wanted(1);
  in_thread([] {
    constexpr size_t kBytes = HAK_KIB(256);
    const unsigned size_class = size_class_of(kBytes);
    for (int i = 0; i < 10; i++) hak_free(hak_malloc(kBytes));
    ASSERT_EQ(magazine_count(the_heap, size_class), 1u) << "the test is void";
    ASSERT_EQ(the_heap->sampler->trap[size_class], 1) << "the test is void";
    void *block = the_heap->sampler->aside[size_class];
    atomic32 *word = map_word(map_unit_of(block));
    const uint32_t was = atomic32_load_relaxed(word);
    ASSERT_EQ(word_kind(was), size_class);
    atomic32_store_relaxed(word, word_make(word_owner(was), size_class + 1));
    Reader reader;
    EXPECT_EQ(hak_malloc(kBytes), block);
    atomic32_store_relaxed(word, was);
    EXPECT_EQ(the_heap->sampler->trap[size_class], 0) << "nothing is there any more";
    reader.drain();
    EXPECT_EQ(reader.bytes().count(kBytes), 1u) << "it is said to be of another size";
    hak_free(block);
  });
  hak__check_all();
}

static const uint64_t marks[4] = {0x1111222233334444, 1, 2, 0x5555666677778888};
/* Its variables lie on the stack, and not where a sanitizer would rather have them. */
__attribute__((noinline, no_sanitize("address"))) static void allocate_below_the_marks() {
  volatile uint64_t here[4];
  for (int i = 0; i < 4; i++) here[i] = marks[i];
  hak_free(hak_malloc(64));
  EXPECT_EQ(here[0], marks[0]);
}

/* What lies in the ring of an allocation begins at the frames of the library and leads to the caller. */
TEST(Sample, StacksHoldTheCallersFrames) {
  Wanted wanted(1);
  Reader reader;
  in_thread(allocate_below_the_marks);
  reader.drain();
  ASSERT_FALSE(reader.events.empty());
  bool found = false;
  for (const record_event_t &e : reader.events) {
    if (e.kind != RECORD_ALLOCATED || e.stack == 0) continue;
    auto *stacks = reinterpret_cast<const record_stack_t *>(record_base() + number("sample.at.stacks"));
    const record_stack_t &stack = stacks[(e.stack - 1) % RECORD_STACKS];
    if (atomic64_load_acquire(&stack.number) != e.stack) continue;
    EXPECT_NE(stack.pc, 0u);
    EXPECT_GT(stack.bytes, 200u);
    const uint64_t *end = stack.contents + stack.bytes / 8;
    found = found || std::search(stack.contents, end, std::begin(marks), std::end(marks)) != end;
  }
  EXPECT_TRUE(found);
}

/* Where the samples' stacks begin and end. `thread`: of which thread. */
static std::vector<std::pair<uintptr_t, uintptr_t>> stacks_of(const Reader &reader, uint32_t thread) {
  std::vector<std::pair<uintptr_t, uintptr_t>> found;
  auto *stacks = reinterpret_cast<const record_stack_t *>(record_base() + number("sample.at.stacks"));
  for (const record_event_t &e : reader.events) {
    if (e.kind != RECORD_ALLOCATED || e.stack == 0 || e.thread_id != thread) continue;
    const record_stack_t &stack = stacks[(e.stack - 1) % RECORD_STACKS];
    if (atomic64_load_acquire(&stack.number) != e.stack) continue;
    found.emplace_back(stack.registers[0], stack.registers[0] + stack.bytes);
  }
  return found;
}

/* What is beyond a stack is not copied, and all that is on it is: up to the outermost frame. */
TEST(Sample, AStackIsCopiedAsFarAsItGoes) {
  Wanted wanted(1);
  Reader reader;
  uint32_t id = 0;
  uintptr_t own = 0;
  in_thread([&] {
    id = static_cast<uint32_t>(gettid());
    own = reinterpret_cast<uintptr_t>(&errno);
    hak_free(hak_malloc(64));
  });
  void *block = hak_malloc(2 << 20); /* drawn for at once, whatever the first thread's heap has noticed */
  hak_free(block);
  reader.drain();
  auto theirs = stacks_of(reader, id), first = stacks_of(reader, static_cast<uint32_t>(getpid()));
  ASSERT_FALSE(theirs.empty());
  ASSERT_FALSE(first.empty());
  uintptr_t copy;
  bool is_emulated = os_copy_readable(&copy, &own, sizeof own) == 0; /* then there is the page that is in use */
  for (auto [from, to] : theirs) {
    size_t whole = std::min<size_t>(RECORD_STACK_BYTES, (own - from) / 8 * 8);
    size_t page = align_up(from + 1, os_page_bytes()) - from;
    EXPECT_EQ(to - from, is_emulated ? std::min(whole, page) : whole);
  }
  for (auto [from, to] : first) {
    EXPECT_EQ(to - from, std::min<size_t>(RECORD_STACK_BYTES, (getauxval(AT_RANDOM) - from) / 8 * 8));
  }
}

/* A forked child has nobody who reads. */
TEST(Sample, AChildDoesNotSample) {
  Wanted wanted(64);
  in_thread([] {
    hak_free(hak_malloc(64));
    pid_t child = fork();
    if (child == 0) {
      record_after_fork(); /* there are no fork handlers in this program */
      uint64_t before = variable("sample.event_count");
      for (int i = 0; i < 1000; i++) hak_free(hak_malloc(64));
      hak__check_all();
      _exit(variable("sample.event_count") == before && record_mean() == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

/* The reader is late: what finds no room is counted, and what was there first is whole. */
TEST(Sample, AFullRingDropsAndCounts) {
  Wanted wanted(1);
  Reader reader;
  in_thread([] {
    for (int i = 0; i < RECORD_EVENTS; i++) hak_free(hak_malloc(64));
  });
  EXPECT_EQ(variable("sample.event_count") - reader.next, static_cast<uint64_t>(RECORD_EVENTS));
  EXPECT_EQ(variable("sample.dropped_count") - reader.dropped, RECORD_EVENTS / 2u) << "of samples, untold of frees";
  reader.drain();
  EXPECT_EQ(reader.events.size(), static_cast<size_t>(RECORD_EVENTS));
  EXPECT_EQ(
      std::count_if(reader.events.begin(), reader.events.end(), [](const record_event_t &e) { return e.stack != 0; }),
      RECORD_STACKS);
  in_thread([] { hak_free(hak_malloc(64)); });
  reader.drain();
  EXPECT_GE(reader.events.size(), RECORD_EVENTS + 2u) << "there is room again";
}

/* Samples that come one after the other, each read before the next, use the first place again and again, and watched
 * blocks that lie near each other are entered near each other: few pages are touched. */
TEST(Sample, TouchesLittleOfItsMemory) {
  Wanted wanted(HAK_KIB(64));
  Reader reader;
  std::set<uint64_t> places;
  std::set<size_t> pages;
  in_thread([&] {
    std::vector<void *> blocks;
    for (int i = 0; i < 600; i++) {
      blocks.push_back(hak_malloc(HAK_KIB(16)));
      size_t before = reader.events.size();
      reader.drain();
      for (size_t e = before; e < reader.events.size(); e++)
        if (reader.events[e].stack != 0) places.insert((reader.events[e].stack - 1) % RECORD_STACKS);
    }
    auto *watched = reinterpret_cast<const atomic64 *>(record_base() + number("sample.at.watched"));
    std::set<uintptr_t> mine;
    for (void *block : blocks) mine.insert(reinterpret_cast<uintptr_t>(block));
    for (size_t i = 0; i < RECORD_WATCHED; i++)
      if (mine.count(atomic64_load_relaxed(&watched[i])) != 0) pages.insert(i * sizeof(atomic64) / 4096);
    for (void *block : blocks) hak_free(block);
  });
  EXPECT_GT(reader.events.size(), 70u);
  EXPECT_EQ(places, std::set<uint64_t>{0});
  EXPECT_LE(pages.size(), 6u) << "9.4 MiB, in three or four times 4 MiB";
}

/* As after any call that succeeds. */
TEST(Sample, LeavesErrnoAlone) {
  Wanted wanted(256);
  Reader reader;
  in_thread([&] {
    for (int i = 0; i < 300; i++) {
      errno = 123;
      void *blocks[] = {hak_malloc(3000), hak_malloc(300000), hak_malloc(9000000)};
      for (void *block : blocks) hak_free(block);
      ASSERT_EQ(errno, 123);
    }
  });
  reader.drain();
  EXPECT_GE(reader.events.size(), 1000u) << "hardly anything was a sample: the test is void";
}

/* Others map and unmap what lies behind a stack. */
TEST(Sample, OfAStackAsMuchIsCopiedAsThereIs) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "the emulator does not have the call";
#endif
  const size_t page = os_page_bytes();
  auto *pages = static_cast<char *>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  std::fill_n(pages, 3 * page, 'x');
  ASSERT_EQ(munmap(pages + 2 * page, page), 0);
  std::vector<char> copy(3 * page, '-');
  EXPECT_EQ(os_copy_readable(copy.data(), pages + 100, 3 * page - 100), 2 * page - 100);
  EXPECT_EQ(std::count(copy.begin(), copy.end(), 'x'), static_cast<std::ptrdiff_t>(2 * page - 100));
  EXPECT_EQ(os_copy_readable(copy.data(), pages + 2 * page, page), 0u);
  munmap(pages, 2 * page);
}

/* Another thread was about to make room for samples when the process forked, by the fork handlers of api/life.c. */
TEST(Sample, AForkedChildCanStillSample) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "sanitizers and emulators do not go on in a child of a process with several threads";
#endif
  enum { CHILDREN = 40 };
  static hak_gate_t *const gates[] = {&metadata_gate, &arena_gate};
  for (int i = 0; i < CHILDREN; i++) {
    const hak_test::Outcome outcome = hak_test::in_child([] { /* where nobody has sampled yet */
                                                              std::thread maker([] { record_prepare(); });
                                                              gates_close(gates, 2, 1);
                                                              const pid_t child = fork();
                                                              if (child == 0) {
                                                                record_after_fork();
                                                                gates_open_in_child(gates, 2);
                                                                _exit(record_prepare() ? 0 : 1);
                                                              }
                                                              gates_open(gates, 2);
                                                              int status = -1;
                                                              maker.join();
                                                              return waitpid(child, &status, 0) == child ? status : 2;
    });
    ASSERT_TRUE(outcome.exited_with(0)) << outcome.describe();
  }
}

/* It is there still, and so it is a sample still, by chance. */
TEST(Sample, ABlockThatCannotGrowStaysOne) {
  const Wanted wanted(64);
  Reader reader;
  void *block = hak_malloc(300000);
  EXPECT_EQ(hak_realloc(block, size_t{1} << 46), nullptr);
  reader.drain();
  int live = 0;
  for (const record_event_t &e : reader.events)
    if (e.block == reinterpret_cast<uintptr_t>(block)) live += e.kind == RECORD_ALLOCATED ? 1 : -1;
  EXPECT_EQ(live, 1) << "64 bytes apart, no block of 300 000 is missed";
  hak_free(block);
}

/* Threads that come and go, give blocks to each other, and are told to sample and not to. */
TEST(Sample, ManyThreads) {
  enum { THREADS = 4, ROUNDS = 6, BLOCKS = 3000 };
  static atomic64 places[256];
  for (int round = 0; round < ROUNDS; round++) {
    record_start(round % 2 == 0 ? 2048 : 300);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; t++)
      threads.emplace_back([t] {
        uint64_t seed = t + 1;
        for (int i = 0; i < BLOCKS; i++) {
          seed = seed * 6364136223846793005u + 1442695040888963407u;
          size_t bytes = (seed >> 33) % 64 == 0 ? (seed >> 40) % 300000 : (seed >> 40) % 600;
          auto block = reinterpret_cast<uintptr_t>(hak_malloc(bytes));
          *reinterpret_cast<volatile char *>(block) = 1;
          hak_free(reinterpret_cast<void *>(
              __atomic_exchange_n(&places[(seed >> 50) % 256].value, block, __ATOMIC_ACQ_REL)));
          if (i == BLOCKS / 2 && t == 0) record_start(0);
          if (i == BLOCKS / 2 + 200 && t == 0) record_start(1000);
        }
      });
    for (std::thread &thread : threads) thread.join();
    record_start(0);
    Reader().say();
    hak__check_all();
  }
  for (atomic64 &place : places) hak_free(reinterpret_cast<void *>(atomic64_exchange_acquire(&place, 0)));
}

/* Other libraries' fork handlers may allocate between ours and the fork, and be the first who sample, but for a thread
 * that waits for the fork's end. */
TEST(SampleFork, WhoForksDoesNotWaitForAThreadThatWaitsForIt) {
#if defined(HAK_TEST_NO_LIMITS)
  GTEST_SKIP() << "sanitizers and emulators start no threads in a child of a process with several";
#endif
  const hak_test::Outcome outcome = hak_test::in_child([] {
    alarm(10);
    arena_ready();
    hak_gate_t *const gates[] = {&metadata_gate};
    gates_close(gates, 1, 1);
    std::thread other([] { record_prepare(); });
    while (!gate_is_awaited(&metadata_gate)) usleep(1000);
    record_prepare();
    gates_open(gates, 1);
    other.join();
    return record_prepare() ? 0 : 1;
  });
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.describe();
}
