/* See schedule.h. SPDX-License-Identifier: MIT */
#include "schedule.h"

#include "fail.h"
#include "operation.h"
#include "support/payload.h"
#include "testing.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hak_fuzz {
namespace {

constexpr unsigned kChildSeconds = 60;

enum Mode : int { kOff, kAlone, kTurns, kFree };

struct {
  std::atomic<int> mode{kOff};
  sem_t turn[kThreads];
  bool is_made = false;
  hak_test::Random random{0};
  unsigned mean_length = 1;
  std::uint64_t left = 0; /* basic blocks of this turn                */
  unsigned runnable = 0;  /* bit n: thread n                          */
  std::atomic<unsigned> running_freely{0};
  std::atomic<std::uint64_t> interrupt_after{0};
  void (*handler)() = nullptr;
} schedule;

thread_local unsigned this_thread;
thread_local bool takes_turns, is_in_handler;

void wait_on(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0 && errno == EINTR) {}
}

/* Turns are mostly short or mostly long; some of each. */
std::uint64_t next_length() {
  std::uint64_t drawn = schedule.random.next();
  if (drawn % 16 == 0) return 1 + drawn / 16 % 4;
  return 1 + drawn / 16 % (2 * schedule.mean_length);
}

/* One of the runnable threads but `self`; 0 if there is none. */
unsigned another(unsigned self) {
  unsigned others = schedule.runnable & ~(1u << self);
  if (others == 0) return 0;
  for (std::size_t skip = schedule.random.below(static_cast<std::size_t>(__builtin_popcount(others))); skip > 0; skip--)
    others &= others - 1;
  return static_cast<unsigned>(__builtin_ctz(others));
}

bool give_turn_away() {
  unsigned self = this_thread, next = another(self);
  if (next == 0) return false;
  int saved_errno = errno;
  sem_post(&schedule.turn[next]);
  wait_on(&schedule.turn[self]);
  schedule.left = next_length();
  errno = saved_errno;
  return true;
}

[[maybe_unused]] void interrupt() {
  if (is_in_handler || schedule.interrupt_after.fetch_sub(1) != 1) return;
  int saved_errno = errno;
  is_in_handler = true;
  schedule.handler();
  is_in_handler = false;
  errno = saved_errno;
}

/* A thread wants to sleep until another wakes it. */
void wait_for_others() {
  if (takes_turns && give_turn_away()) return;
  fail("thread %u waits%s for a lock that nobody will release", this_thread,
       is_in_handler ? ", in a signal handler," : "");
}

using SystemCall = long(long, ...);
SystemCall *real_syscall() {
  static std::atomic<SystemCall *> found{nullptr};
  SystemCall *call = found.load(std::memory_order_relaxed);
  if (call == nullptr) {
    call = reinterpret_cast<SystemCall *>(dlsym(RTLD_NEXT, "syscall"));
    found.store(call, std::memory_order_relaxed);
  }
  return call;
}

}  // namespace

void schedule_name_thread(unsigned thread) { this_thread = thread; }
unsigned schedule_this_thread() { return this_thread; }
void schedule_wait_for_turn() { wait_on(&schedule.turn[this_thread]); }
void schedule_wake(unsigned thread) { sem_post(&schedule.turn[thread]); }

void schedule_begin() {
  if (!schedule.is_made) {
    real_syscall();
    for (sem_t &turn : schedule.turn) sem_init(&turn, 0, 0);
    schedule.is_made = true;
  }
  schedule.mode = kAlone;
}
void schedule_end() { schedule.mode = kOff; }

void schedule_run_alone(unsigned thread) {
  schedule_wake(thread);
  wait_on(&schedule.turn[0]);
}

void schedule_run(unsigned threads, std::uint64_t seed, unsigned mean_length) {
  schedule.random = hak_test::Random(seed);
  schedule.mean_length = mean_length;
  schedule.runnable = ((1u << threads) - 1) << 1;
  schedule.left = next_length();
  schedule.mode = kTurns;
  schedule_wake(another(0));
  wait_on(&schedule.turn[0]);
  schedule.mode = kAlone;
}

void schedule_run_freely(unsigned threads) {
  schedule.running_freely = threads;
  schedule.mode = kFree;
  for (unsigned t = 1; t <= threads; t++) schedule_wake(t);
  wait_on(&schedule.turn[0]);
  schedule.mode = kAlone;
}

void schedule_enter() { takes_turns = schedule.mode == kTurns; }

void schedule_leave() {
  if (schedule.mode == kFree) {
    if (schedule.running_freely.fetch_sub(1) == 1) schedule_wake(0);
    return;
  }
  takes_turns = false;
  schedule.runnable &= ~(1u << this_thread);
  schedule_wake(schedule.mode == kTurns ? another(0) : 0);
}

/* A forked child has one thread, and neither outlives its parent nor hangs. */
static void after_fork() {
  schedule.mode = kAlone;
  schedule.interrupt_after = 0;
  takes_turns = is_in_handler = false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kChildSeconds);
}

/* Before the allocator's constructor registers its own handlers, which are called in
 * the child in the same order: they may already give turns away. */
static void prepare(int, char **, char **) { pthread_atfork(nullptr, nullptr, after_fork); }
__attribute__((section(".preinit_array"), used)) static void (*const prepare_first)(int, char **, char **) = prepare;

bool schedule_interrupt(std::uint64_t nth, void (*handler)()) {
  schedule.handler = handler;
  return schedule.interrupt_after.exchange(nth) != 0;
}

}  // namespace hak_fuzz

/* ---- What the core calls -------------------------------------------------------------*/
using namespace hak_fuzz;

/* At each basic block. libFuzzer has the name for itself: its target is linked with
 * --wrap, which leads the core's calls to the other one. */
#if defined(HAK_FUZZ_STEPS)
extern "C" void __wrap___sanitizer_cov_trace_pc() __attribute__((alias("__sanitizer_cov_trace_pc")));
extern "C" void __sanitizer_cov_trace_pc() {
  if (schedule.interrupt_after.load(std::memory_order_relaxed) != 0) interrupt();
  if (!takes_turns || --schedule.left > 0) return;
  if (!give_turn_away()) schedule.left = next_length();
}
#endif

/* The program's own syscall(2) stands before the C library's. As that one it takes six arguments, however many there
 * are, so the last may be no more than what lies on the caller's stack. */
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long &argument : a) argument = va_arg(list, long);
  va_end(list);
  int mode = schedule.mode.load(std::memory_order_relaxed);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && (mode == kAlone || mode == kTurns)) {
    /* One that ends by itself: it looks whether memory can be read, which takes no time, or lets others go on. Where
     * they have gone on it has been woken: who waits with the turn keeps those waiting that it waits for. */
    if (const auto *time = reinterpret_cast<const timespec *>(a[3]); time != nullptr) {
      const bool have_gone_on = takes_turns && give_turn_away();
      if (have_gone_on && (time->tv_sec != 0 || time->tv_nsec != 0)) return 0;
      return real_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    auto *word = reinterpret_cast<std::uint32_t *>(a[0]);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == static_cast<std::uint32_t>(a[2])) wait_for_others();
    return 0;
  }
  return real_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
