/* The bell, and the background thread that it wakes. SPDX-License-Identifier: MIT */
#include "layers.h"

#include <front/bell.h>
#include <int/background.h>

#include <atomic>
#include <thread>
#include <vector>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using hak_test::used_bytes;

/* A test would hang without its planted end. */
constexpr int kLongMs = 10000;

bool is_rung() { return atomic32_load_relaxed(&bell_state) == BELL_RUNG; }

/* Something that ends when it is told to. */
class Waiting {
 public:
  template <typename Body>
  explicit Waiting(Body body)
      : thread_([this, body] {
          body();
          ready_ = true;
          while (!end_) usleep(1000);
        }) {
    while (!ready_) usleep(1000);
  }
  ~Waiting() {
    end_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ready_{false}, end_{false};
  std::thread thread_;
};

/* It is not started where nobody has allocated. */
void allocate_once() { hak_free(hak_malloc(16)); }

/* Waits without using the allocator, until it is so twice in a row: what is being purged counts for nothing
 * meanwhile. */
template <typename Done> bool comes_true(Done done) {
  int in_a_row = 0;
  for (int tries = 0; tries < 100 && in_a_row < 2; tries++) {
    in_a_row = done() ? in_a_row + 1 : 0;
    usleep(100000);
  }
  return in_a_row == 2;
}

constexpr size_t kBlocks = 4096, kBytes = 4096;

/* Each in a process of its own, as it takes seconds. */
template <typename Try> void expect_each(int first, int last, int step, Try succeeds) {
  std::vector<pid_t> children;
  for (int tried = first; tried <= last; tried += step) {
    children.push_back(fork());
    if (children.back() == 0) {
      background_after_fork();
      _exit(succeeds(tried) ? 0 : 1);
    }
  }
  for (size_t i = 0; i < children.size(); i++) {
    int status = -1;
    EXPECT_EQ(waitpid(children[i], &status, 0), children[i]);
    EXPECT_EQ(status, 0) << first + static_cast<int>(i) * step;
  }
}

/* A thread of the program's, which starts ours if there is none. */
template <typename Body> void run_thread(Body body) {
  std::thread thread(body);
  background_start(pthread_create);
  thread.join();
}

/* Under a filter as well. */
size_t threads_seen() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/* In a process of one thread, another one frees 16 MiB again and again, so that they are kept, after so long,
 * and ends. Whether they go. */
bool what_was_freed_goes(int milliseconds) {
  std::vector<void *> blocks(4096);
  std::thread([&] {
    hak_free(hak_malloc(1));
    background_start(pthread_create);
    usleep(static_cast<unsigned>(milliseconds) * 1000);
    for (int times = 0; times < 4; times++) {
      for (void *&block : blocks) std::memset(block = hak_malloc(4096), 1, 4096);
      for (void *block : blocks) hak_free(block);
    }
  }).join();
  return comes_true([] {
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    return stats.dirty_free + stats.cached + stats.free_in_slabs < HAK_MIB(2);
  });
}

}  // namespace

TEST(Bell, RingsForWhoListens) {
  bell_ring();
  EXPECT_FALSE(is_rung()) << "nobody listens";
  EXPECT_FALSE(bell_listen());
  bell_ring();
  EXPECT_TRUE(is_rung());
  EXPECT_TRUE(bell_listen());
  EXPECT_FALSE(bell_listen()) << "it was rung once";
  bell_leave();
  bell_ring();
  EXPECT_FALSE(is_rung()) << "the listener has left";
}

TEST(Bell, WakesTheSleeper) {
  bell_listen();
  std::atomic<bool> woken{false};
  std::thread sleeper([&] { woken = bell_sleep(kLongMs); });
  while (atomic32_load_relaxed(&bell_state) != BELL_SLEEPER) std::this_thread::yield();
  usleep(10000); /* it falls asleep */
  bell_ring();
  sleeper.join();
  EXPECT_TRUE(woken);
}

TEST(Bell, IsNotMissedByWhoIsAboutToSleep) {
  bell_listen();
  bell_ring();
  EXPECT_TRUE(bell_sleep(0));
  EXPECT_TRUE(bell_listen());
  EXPECT_FALSE(bell_sleep(0)) << "not rung again";
  EXPECT_FALSE(bell_sleep(0)) << "a sleeper that woke without reason sleeps again";
  bell_ring();
  EXPECT_TRUE(bell_sleep(0));
}

TEST(Bell, IsRungWhereMemoryBecomesFree) {
  std::vector<void *> blocks(20000);
  for (void *&block : blocks) block = hak_malloc(100);
  bell_listen();
  for (void *block : blocks) hak_free(block);
  EXPECT_TRUE(bell_listen());
  void *large = hak_malloc(HAK_MIB(1)), *huge = hak_malloc(HAK_MIB(16));
  bell_listen();
  hak_free(huge);
  EXPECT_TRUE(bell_listen());
  hak_free(large);
}

TEST(Bell, IsRungWhereMemoryOfAHeapBecomesFree) {
  hak_heap_t *heap = hak_heap_new(0);
  auto rings = [](auto free) {
    bell_listen();
    free();
    return bell_listen();
  };
  for (std::size_t bytes : {HAK_KIB(100), HAK_MIB(5)}) {
    void *block = hak_heap_malloc(heap, bytes);
    EXPECT_TRUE(rings([&] { hak_heap_free(heap, block); })) << bytes;
    block = hak_heap_malloc(heap, bytes);
    EXPECT_TRUE(rings([&] { hak_free(block); })) << bytes;
    block = hak_heap_malloc(heap, bytes);
    EXPECT_TRUE(rings([&] { block = hak_heap_realloc(heap, block, 100); })) << bytes;
    hak_heap_free(heap, block);
  }
  std::thread([&] {
    hak_heap_free(heap, hak_heap_malloc(heap, 100));
    ASSERT_EQ(the_heap, &the_null_heap);
    EXPECT_TRUE(rings([] { hak_thread_idle(); }));
    EXPECT_TRUE(rings([] { hak_thread_flush(); }));
  }).join();
  hak_heap_destroy(heap);
}

TEST(Bell, IsRungWhenAThreadEnds) {
  std::thread thread([] {
    hak_free(hak_malloc(100));
    bell_listen();
  });
  thread.join();
  EXPECT_TRUE(is_rung());
}

TEST(Background, GivesBackWhatASleepingThreadDoesNotUse) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  static void *blocks[kBlocks];
  Waiting owner([] {
    for (void *&block : blocks) block = hak_malloc(kBytes);
  });
  background_prepare();
  background_start(pthread_create);
  EXPECT_TRUE(background_runs());
  size_t before = used_bytes();
  for (void *block : blocks) hak_free(block);
  hak_thread_flush();
  EXPECT_TRUE(comes_true([=] { return used_bytes() < before - kBlocks * kBytes / 10 * 9; })) << used_bytes();
}

/* It falls asleep some two seconds after it was started, and would end when it is woken: several moments. */
TEST(Background, LooksOnceMoreAtWhatTheLastThreadsHaveFreed) { expect_each(1600, 2500, 60, what_was_freed_goes); }

/* Most of the first thread's blocks, 15 of 16 MiB, so that their slabs stay, which another one frees that comes
 * and goes between two looks. Before that our thread has been alone for so long. */
TEST(Background, LooksAfterAThreadThatItHasNotSeen) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  expect_each(200, 2000, 120, [](int milliseconds) {
    std::vector<void *> blocks(kBlocks);
    for (void *&block : blocks) std::memset(block = hak_malloc(kBytes), 1, kBytes);
    run_thread([] { hak_free(hak_malloc(1)); });
    usleep(static_cast<unsigned>(milliseconds) * 1000);
    run_thread([&] {
      for (size_t i = 0; i < kBlocks; i++)
        if (i % 16 != 0) hak_free(blocks[i]);
    });
    return comes_true([&] {
      size_t bytes = 0;
      for (void *block : blocks) bytes += hak_test::resident_pages(block, kBytes) * os_page_bytes();
      return bytes < HAK_MIB(4);
    });
  });
}

/* Its owner is visited when it has been idle for 100 ms times a power of two: here for longer than there is
 * anything else to do. */
TEST(Background, WaitsUntilAThreadIsIdleThatOftenCameBackSoon) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  static void *blocks[kBlocks];
  Waiting owner([] {
    for (void *&block : blocks) block = hak_malloc(kBytes);
    the_heap->owner.idle_shift = 5;
  });
  background_start(pthread_create);
  size_t before = used_bytes();
  for (void *block : blocks) hak_free(block);
  hak_thread_flush();
  EXPECT_TRUE(comes_true([=] { return used_bytes() < before - kBlocks * kBytes / 10 * 9; })) << used_bytes();
}

/* As of a slab that goes at a refill, or at a visit of its own: while it is awake, some moments before it falls
 * asleep. */
TEST(Background, LooksAfterWhatBecomesDirtyWithoutARing) {
  expect_each(200, 1600, 140, [](int milliseconds) {
    constexpr size_t kUnits = HAK_MIB(16) >> UNIT_SHIFT;
    const unit_t run = arena_take(ZONE_SMALL, kUnits, 1, nullptr);
    std::memset(map_address(run), 1,
                HAK_MIB(16)); /* first: to fault it in can take a second, in which that falls asleep */
    Waiting another([] { hak_free(hak_malloc(1)); });
    background_start(pthread_create);
    usleep(static_cast<unsigned>(milliseconds) * 1000);
    arena_give(run, kUnits);
    return comes_true([] { return arena_usage().dirty < HAK_MIB(2); });
  });
}

/* A fall stays until it is old, and goes then; of a process that is alone again it does not stay. */
TEST(Background, LetsAFallStayUntilItIsOld) {
  expect_each(0, 0, 1, [](int) {
    auto dirty_after_fall = [] {
      std::vector<void *> blocks(256);
      for (void *&block : blocks) std::memset(block = hak_malloc(HAK_MIB(1)), 1, HAK_MIB(1));
      for (void *block : blocks) hak_free(block);
      return arena_usage().dirty;
    };
    {
      Waiting another([] { hak_free(hak_malloc(1)); });
      background_start(pthread_create);
      if (!comes_true([] { return bell_has_listener(); }) || dirty_after_fall() < HAK_MIB(100)) return false;
      if (!comes_true([] { return arena_usage().dirty < HAK_MIB(8); })) return false;
    }
    usleep(100000);                         /* until the other one is not counted any more */
    if (os_thread_count() > 2) return true; /* a sanitizer has a thread of its own, and ours company */
    return comes_true([] { return !background_runs(); }) && dirty_after_fall() < HAK_MIB(64);
  });
}

/* What falls when ours is about to end, at once or by and by, in a process that calls nothing any more. */
TEST(Background, LeavesNoFallBehind) {
  expect_each(1600, 2550, 50, [](int milliseconds) {
    hak_free(hak_malloc(1)); /* it is ready before ours begins, as in a program */
    run_thread([] { hak_free(hak_malloc(1)); });
    usleep(static_cast<unsigned>(milliseconds) * 1000);
    std::vector<void *> blocks(48);
    for (void *&block : blocks) std::memset(block = hak_malloc(HAK_MIB(1)), 1, HAK_MIB(1));
    for (void *block : blocks) {
      hak_free(block);
      if (milliseconds % 100 != 0) usleep(1500);
    }
    if (comes_true([] { return arena_usage().dirty < HAK_MIB(12); })) return true;
    std::fprintf(stderr, "%zu bytes are dirty, %s, the bell's state is %u\n", arena_usage().dirty,
                 background_runs() ? "it runs" : "it has ended", atomic32_load_relaxed(&bell_state));
    return false;
  });
}

/* If that is the last thread there is, our own ends before. */
TEST(Background, DoesNotWaitForTheLastThreadThatOftenCameBackSoon) {
  if (!os_fence_all_threads()) GTEST_SKIP() << "no membarrier here";
  std::vector<void *> blocks(kBlocks);
  for (void *&block : blocks) block = hak_malloc(kBytes);
  the_heap->owner.idle_shift = 5;
  size_t before = used_bytes();
  run_thread([&] {
    for (void *block : blocks) hak_free(block);
  });
  EXPECT_TRUE(comes_true([=] { return used_bytes() < before - kBlocks * kBytes / 10 * 9; })) << used_bytes();
}

/* However many threads have a heap there. */
TEST(Background, EndsWhereTheProgramHasConfinedItself) {
  Waiting one([] { hak_free(hak_malloc(1)); });
  const size_t before = threads_seen(); /* a sanitizer may have one of its own */
  Waiting another([] { hak_free(hak_malloc(1)); });
  background_start(pthread_create);
  ASSERT_EQ(threads_seen(), before + 2);
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    GTEST_SKIP() << "no filter can be installed here";
  EXPECT_TRUE(comes_true([=] { return threads_seen() == before + 1; })) << threads_seen();
  EXPECT_FALSE(background_runs());
}

TEST(Background, IsStartedOnce) {
  allocate_once();
  if (os_thread_count() == 0) GTEST_SKIP() << "nobody says how many threads there are";
  Waiting another([] {});
  uint32_t before = os_thread_count();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++) threads.emplace_back([] { background_start(pthread_create); });
  for (std::thread &thread : threads) thread.join();
  EXPECT_TRUE(comes_true([=] { return os_thread_count() == before + 1; })) << os_thread_count();
}

/* As in a second copy of the library, behind one that serves the program. */
TEST(Background, IsNotStartedWhereNobodyHasAllocated) {
  Waiting another([] {});
  background_start([](pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) { return 0; });
  EXPECT_FALSE(background_runs());
  allocate_once();
  background_start([](pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) { return 0; });
  EXPECT_TRUE(background_runs());
}

/* A program at its limit of threads: it is told, and tried again later, not at each thread. */
TEST(Background, ThatCannotBeStartedIsTold) {
  allocate_once();
  Waiting another([] {});
  const auto refused = [] {
    hak_stats_t stats;
    hak_stats(&stats, sizeof stats);
    return stats.refused_threads;
  };
  const auto none_left = [](pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) { return EAGAIN; };
  errno = 1234;
  background_start(none_left);
  EXPECT_EQ(errno, 1234);
  EXPECT_FALSE(background_runs());
  EXPECT_EQ(refused(), 1u);
  background_start(none_left);
  EXPECT_EQ(refused(), 1u);
}

/* The C library allocates for the start of a thread, and that may find what another thread has freed twice. A program
 * whose handler of SIGABRT jumps away has a background thread all the same. */
TEST(Background, IsStartedBeforeAMistakeIsReported) {
  allocate_once();
  static sigjmp_buf escape;
  static bool is_started;
  Waiting another([] {});
  std::signal(SIGABRT, [](int) { siglongjmp(escape, 1); });
  const auto starts = [](pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) {
    error_note(ERROR_DOUBLE_FREE, &escape, 16, 0);
    error_settle();
    is_started = true;
    return 0;
  };
  volatile bool jumped = false;
  if (sigsetjmp(escape, 1) == 0) background_start(starts);
  else jumped = true;
  EXPECT_TRUE(is_started);
  EXPECT_TRUE(jumped) << "it is never reported";
  EXPECT_TRUE(background_runs());
}

/* As after a fork without handlers: the child's first thread brings it back, once. */
TEST(Background, IsStartedInAChildOfABareClone) {
  allocate_once();
  static std::atomic<int> started;
  const auto starts = [](pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) { return started++, 0; };
  background_start(starts);
  background_start(starts);
  EXPECT_EQ(started, 1);
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    background_start(starts);
    background_start(starts);
    _exit(started == 2 && background_runs() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it is thought to run there";
  EXPECT_EQ(started, 1);
  background_after_fork(); /* there is none in truth */
}

/* What a fork leaves of it: nothing. */
TEST(Background, IsNotThereInAForkedChild) {
  Waiting another([] {});
  background_start(pthread_create);
  background_after_fork(); /* as in the child */
  EXPECT_FALSE(background_runs());
  bell_ring();
  EXPECT_FALSE(is_rung()) << "nobody listens";
}
