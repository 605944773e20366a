/*
 * What the background thread does in a program, seen from the outside.
 *
 *   single            one thread works, then looks for others: prints how many there are
 *   sleepers SECONDS  threads fill 256 MiB and sleep, the main thread frees all and calls nothing;
 *                     prints "gone" when no more than a tenth is resident, or "there" after so long
 *   ends SECONDS      the same, and then "ended" when the background thread is not there any more
 *   child             a child of such a program: prints how many threads it has, and whether one of
 *                     them is the background thread when it has a second one of its own
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t kThreads = 8, kBytes = 4096, kBlocks = (32 << 20) / kBytes;

/* Of this process; `background`: how many of them are the allocator's. */
std::size_t threads(std::size_t *background = nullptr) {
  std::size_t all = 0, ours = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (dirent *entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::string name;
    std::ifstream("/proc/self/task/" + std::string(entry->d_name) + "/comm") >> name;
    all++;
    ours += name == "hakmem-int";
  }
  closedir(tasks);
  if (background != nullptr) *background = ours;
  return all;
}

void work() {
  std::vector<void *> blocks(20000);
  for (int round = 0; round < 30; round++) {
    for (void *&block : blocks) block = malloc(100);
    for (void *block : blocks) free(block);
    usleep(5000); /* the coarse clock moves on */
  }
}

/* Threads that each fill their blocks, one after the other, and sleep. */
class Sleepers {
 public:
  Sleepers() {
    for (std::size_t i = 0; i < kThreads; i++) {
      threads_.emplace_back([this, i] { fill_and_sleep(i); });
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this, i] { return filled_ > i; });
    }
  }
  ~Sleepers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }
  void free_all() {
    for (auto &blocks : blocks_)
      for (void *&block : blocks) free(block), block = nullptr;
  }

 private:
  void fill_and_sleep(std::size_t i) {
    for (void *&block : blocks_[i]) {
      block = malloc(kBytes);
      memset(block, 1, kBytes);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    filled_++;
    changed_.notify_all();
    changed_.wait(lock, [this] { return end_; });
  }
  std::vector<std::vector<void *>> blocks_{kThreads, std::vector<void *>(kBlocks)};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t filled_ = 0;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

/* Calls nothing of the allocator's meanwhile. */
template <typename Done> bool comes_true(Done done, int seconds) {
  for (int tenths = 0; tenths < 10 * seconds; tenths++) {
    if (done()) return true;
    usleep(100000);
  }
  return false;
}

int sleepers(int seconds, bool until_it_ends) {
  const std::size_t before = hak_test::resident_bytes();
  Sleepers sleepers;
  if (hak_test::resident_bytes() < before + kThreads * (32 << 20)) return 2;
  sleepers.free_all();
  const bool gone = comes_true([=] { return hak_test::resident_bytes() < before + kThreads * (32 << 20) / 10; },
                               seconds);
  std::puts(gone ? "gone" : "there");
  if (until_it_ends) {
    const bool ended = comes_true(
        [] {
          std::size_t ours;
          threads(&ours);
          return ours == 0;
        },
        seconds);
    std::puts(ended ? "ended" : "runs");
  }
  return 0;
}

int child() {
  std::thread other(work);
  work();
  other.join();
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    std::printf("%zu thread\n", threads());
    std::thread second(work);
    work();
    second.join();
    std::thread third([] {});
    std::size_t ours;
    threads(&ours);
    std::printf("%zu of the allocator\n", ours);
    third.join();
    return 0;
  }
  int status;
  return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "single") {
    work();
    return std::printf("%zu thread\n", threads()) < 0;
  }
  if (what == "sleepers" || what == "ends") return sleepers(seconds, what == "ends");
  if (what == "child") return child();
  return 2;
}
