/*
 * fork in a signal handler: crash reporters and profilers do it, POSIX once called it
 * async-signal-safe, and the interrupted code may be anywhere inside the allocator.
 *
 * The child does what a handler's child may do: nothing that allocates, then _exit or
 * exec. The interrupted call goes on when the handler returns, and works; in the child,
 * too.
 *
 * SPDX-License-Identifier: MIT
 */
#include "life/busy_threads.h"
#include "support/process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

using hak_test::Random;

namespace {

/* Enough that, interrupted at any moment, many are inside the arena and the slabs. */
int most_forks = 500;

std::atomic<int> forks, finished, failures;
/* In every hundredth child the handler returns, and the interrupted call has to go on. */
volatile sig_atomic_t is_child;
bool children_return;

void fork_here(int) {
  const int saved_errno = errno;
  if (is_child || forks >= most_forks) return;
  const int number = ++forks;
  const pid_t child = fork();
  if (child == 0) {
    alarm(hak_test::kWatchdogSeconds);
    if (!children_return || number % 100 != 0) _exit(0);
    is_child = 1;
    errno = saved_errno;
    return;
  }
  int status = -1;
  if (child > 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (status != 0) failures++;
  finished++;
  errno = saved_errno;
}

void on_signal(int number) {
  struct sigaction action = {};
  action.sa_handler = fork_here;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

/* Allocates and frees so that slabs, runs and huge blocks come and go all the time. */
bool churn(Random &random, int operations) {
  static thread_local std::vector<Held> *own = new std::vector<Held>;
  for (int i = 0; i < operations; i++) {
    const std::size_t dice = random.below(120);
    own->push_back(Held::make(dice == 0   ? random.size_between(1 << 20, 5 << 20)
                              : dice < 40 ? random.size_between(20000, 300000)
                                          : random.size_between(1, 20000),
                              random.next()));
    if (own->size() < 40) continue;
    std::swap((*own)[random.below(own->size())], own->back());
    if (!own->back().intact()) return false;
    free(own->back().block);
    own->pop_back();
    if (i % 64 == 0) malloc_trim(0);
  }
  return true;
}

/* A child that came out of the handler is in the middle of a call of ours: it works on
 * for a while, and says with its exit status whether all was well. */
void end_if_child(Random &random) {
  if (is_child) _exit(churn(random, 300) ? 0 : 1);
}

void expect_good(const hak_test::Outcome &outcome) {
  EXPECT_TRUE(outcome.exited_with(0))
      << "1: a block was overwritten, 2: a child did not end well; a hang: fork waits for what its thread holds\n"
      << outcome.describe();
}

}  // namespace

class ForkInAHandler : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WhoseChildren, ForkInAHandler, testing::Bool(),
                         [](const auto &info) { return info.param ? "Return" : "Exit"; });

/* By a timer, in a program that has one thread. */
TEST_P(ForkInAHandler, OfTheOnlyThread) {
  expect_good(hak_test::in_child([&] {
    children_return = GetParam();
    Random random(3);
    churn(random, 1000);
    on_signal(SIGPROF);
    const itimerval often = {{0, 400}, {0, 400}};
    setitimer(ITIMER_PROF, &often, nullptr);
    while (forks < most_forks) {
      if (!churn(random, 10)) return 1;
      end_if_child(random);
    }
    signal(SIGPROF, SIG_IGN);
    return churn(random, 1000) && failures == 0 ? 0 : 2;
  }));
}

/* By another thread, in whichever of the threads that allocate. The children just end: what
 * the other threads were doing is left half done in them. */
TEST(ForkInAHandlerToo, OfOneOfManyThreads) {
  expect_good(hak_test::in_child([&] {
    most_forks = 150;
    on_signal(SIGUSR1);
    std::atomic<bool> stop{false}, bad{false};
    std::vector<pthread_t> threads(3);
    struct Job {
      std::atomic<bool> *stop, *bad;
      std::uint64_t seed;
    };
    std::vector<Job> jobs;
    for (std::uint64_t t = 0; t < threads.size(); t++) jobs.push_back({&stop, &bad, t});
    for (std::size_t t = 0; t < threads.size(); t++)
      pthread_create(
          &threads[t], nullptr,
          [](void *argument) -> void * {
            const Job &job = *static_cast<Job *>(argument);
            Random random(job.seed);
            while (!*job.stop)
              if (!churn(random, 10)) *job.bad = true;
            return nullptr;
          },
          &jobs[t]);
    Random random(9);
    /* Several at a time: each may hold a gate that the others wait for. */
    while (forks < most_forks) {
      const int before = finished;
      for (pthread_t thread : threads) pthread_kill(thread, SIGUSR1);
      while (finished == before) sched_yield();
    }
    stop = true;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    return bad ? 1 : failures == 0 ? 0 : 2;
  }));
}

/* Two threads fork at the same time, one in a handler and one as usual. */
TEST(ForkInAHandlerToo, WhileAnotherThreadForks) {
  expect_good(hak_test::in_child([] {
    most_forks = 150;
    on_signal(SIGUSR1);
    std::atomic<bool> stop{false};
    const pthread_t main_thread = pthread_self();
    std::thread other([&] {
      while (forks < most_forks) {
        pthread_kill(main_thread, SIGUSR1);
        const pid_t child = fork();
        if (child == 0) {
          alarm(hak_test::kWatchdogSeconds);
          free(malloc(100));
          _exit(0);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) failures++;
      }
      stop = true;
    });
    Random random(4);
    bool good = true;
    while (!stop) good = churn(random, 10) && good;
    other.join();
    return !good ? 1 : failures == 0 ? 0 : 2;
  }));
}
