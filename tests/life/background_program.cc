/*
 * What the background thread does in a program, seen from the outside. Each way says on
 * standard output what it has seen; what it waits for, it waits for no longer than a minute.
 *
 *   single    one thread works, then looks for others: how many there are
 *   sleepers  threads fill 256 MiB and sleep, the main thread frees all and calls nothing:
 *             "gone" when no more than a tenth is resident, else "there"
 *   brief     the same, but does not wait: "there" or "gone", whatever it is by now
 *   ended     threads that have freed all they had end: "begun" if the background thread is there, "gone" when nearly
 *             nothing is resident, and "ended" when it is not there any more
 *   ends      a thread works and ends, and the main thread calls nothing: "ended" when the
 *             background thread is not there any more, and "begun" when the next one is
 *   sleeps    the same with a thread that stays: "asleep" when the background thread has not
 *             been woken for some seconds
 *   c11       a thread that C11's thrd_create starts stays: "begun" if the background thread is there
 *   signals   "blocked" if the background thread takes no signals
 *   child     a child of such a program: how many threads it has, and how many of them are
 *             the background thread when it has a second one of its own
 *   fallen    a child of a program that has just freed 128 MiB: "gone" when no more than a tenth is resident there,
 *             else "there"
 *   leader    the first thread ends, then another one that never used the allocator; an exit
 *             handler says "exit", with or without signals
 *   ids       setuid(2) of a process with threads, which interrupts each of them: "set"
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/process.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

namespace {

constexpr int kSeconds = 60;
constexpr std::size_t kThreads = 8, kBytes = 4096, kBlocks = (32 << 20) / kBytes, kAll = kThreads * (32 << 20);

struct Tasks {
  std::size_t all = 0, ours = 0;
  std::string our_status; /* the file of one of ours */
};
Tasks tasks() {
  Tasks found;
  DIR *folder = opendir("/proc/self/task");
  while (dirent *entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    std::string place = "/proc/self/task/" + std::string(entry->d_name), name;
    std::ifstream(place + "/comm") >> name;
    found.all++;
    if (name != "hakmem-int") continue;
    found.ours++;
    found.our_status = place + "/status";
  }
  closedir(folder);
  return found;
}

std::string field(const std::string &file, const std::string &name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name, 0) == 0) return line.substr(name.size());
  return "";
}

void work() {
  std::vector<void *> blocks(20000);
  for (void *&block : blocks) block = malloc(100);
  for (void *block : blocks) free(block);
}

/* Looks without the allocator's help: it would be at work. */
template <typename Done> bool comes_true(Done done) {
  for (int tenths = 0; tenths < 10 * kSeconds; tenths++) {
    if (done()) return true;
    usleep(100000);
  }
  return false;
}
/* It is there when it has its name. */
bool has_background() {
  return comes_true([] { return tasks().ours == 1; });
}

/* Looks seldom, and lets the allocator alone meanwhile. */
template <typename Done> bool comes_true_if_let_alone(Done done) {
  for (int waited = 0; waited < kSeconds; waited += 5) {
    sleep(5);
    if (done()) return true;
  }
  return false;
}

/* A thread that has used the allocator and waits. */
class Worker {
 public:
  ~Worker() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool end_ = false;
  std::thread thread_{[this] {
    work();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return end_; });
  }};
};

/* Threads that fill their blocks, one after the other, and wait. */
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

int say(const char *text) {
  std::puts(text);
  std::fflush(stdout);
  return 0;
}

int single() {
  work();
  return std::printf("%zu thread\n", tasks().all) < 0;
}

int sleepers(bool waits) {
  const std::size_t before = hak_test::resident_bytes();
  Sleepers sleepers;
  if (hak_test::resident_bytes() < before + kAll) return 2;
  sleepers.free_all();
  auto gone = [=] { return hak_test::resident_bytes() < before + kAll / 10; };
  if (waits) comes_true(gone);
  else sleep(4);
  return say(gone() ? "gone" : "there");
}

/* Threads end that have freed all they had. */
int ended() {
  const std::size_t before = hak_test::resident_bytes();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; i++)
    threads.emplace_back([] {
      std::vector<void *> blocks(kBlocks);
      for (void *&block : blocks) memset(block = malloc(kBytes), 1, kBytes);
      for (void *block : blocks) free(block);
    });
  for (std::thread &thread : threads) thread.join();
  if (has_background()) say("begun");
  comes_true([=] { return hak_test::resident_bytes() < before + kAll / 50; });
  if (hak_test::resident_bytes() < before + kAll / 50) say("gone");
  return comes_true([] { return tasks().all == 1; }) ? say("ended") : 3;
}

int ends() {
  Worker worker;
  if (!has_background()) return 2;
  worker.end();
  if (!comes_true_if_let_alone([] { return tasks().all == 1; })) return say("stays");
  say("ended");
  Worker another;
  return say(has_background() ? "begun" : "none");
}

int c11() {
  static std::atomic<bool> end{false};
  thrd_t thread;
  auto body = [](void *) {
    work();
    while (!end) usleep(1000);
    return 7;
  };
  if (thrd_create(&thread, body, nullptr) != thrd_success) return 2;
  const bool begun = has_background();
  end = true;
  int result = 0;
  return thrd_join(thread, &result) == thrd_success && result == 7 ? say(begun ? "begun" : "none") : 3;
}

int sleeps() {
  Worker worker;
  if (!has_background()) return 2;
  const std::string status = tasks().our_status;
  /* Without the allocator, which would wake it. */
  auto switches = [&status] {
    char text[8192] = {0};
    const int file = open(status.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    const char *line = bytes > 0 ? std::strstr(text, "\nvoluntary_ctxt_switches:") : nullptr;
    return line != nullptr ? std::atol(line + std::strlen("\nvoluntary_ctxt_switches:")) : -1L;
  };
  auto is_asleep = [&] {
    const long before = switches();
    sleep(3);
    return before > 0 && switches() == before;
  };
  return say(comes_true_if_let_alone(is_asleep) ? "asleep" : "awake");
}

int signals() {
  Worker worker;
  if (!has_background()) return 2;
  std::string blocked = field(tasks().our_status, "SigBlk:");
  unsigned long long mask = std::stoull(blocked, nullptr, 16);
  for (int signal : {SIGTERM, SIGINT, SIGPROF, SIGUSR1, SIGCHLD, SIGALRM})
    if ((mask >> (signal - 1) & 1) == 0) return say("open");
  return say("blocked");
}

int child() {
  Worker worker;
  work();
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    std::printf("%zu thread\n", tasks().all);
    {
      Worker second;
      has_background();
      std::printf("%zu of the allocator\n", tasks().ours);
    }
    std::fflush(stdout);
    _exit(0);
  }
  int status;
  return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int fallen() {
  constexpr std::size_t kMiB = 1 << 20, kCount = 128;
  Worker worker;
  if (!has_background()) return 2;
  std::vector<void *> blocks(kCount);
  for (void *&block : blocks) std::memset(block = malloc(kMiB), 1, kMiB);
  for (void *block : blocks) free(block);
  const pid_t pid = fork();
  if (pid == 0) {
    say(hak_test::resident_bytes() <= kCount * kMiB / 10 ? "gone" : "there");
    std::fflush(stdout);
    _exit(0);
  }
  int status;
  return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

void at_exit() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  say(sigismember(&mask, SIGTERM) ? "exit without signals" : "exit with signals");
}

int leader() {
  std::atexit(at_exit);
  std::thread([] {
    for (int tenths = 0; tenths < 20; tenths++) usleep(100000); /* calls nothing of the allocator's */
  }).detach();
  work();
  pthread_exit(nullptr);
}

int ids() {
  Worker worker;
  for (int i = 0; i < 100; i++)
    if (setuid(getuid()) != 0) return 2;
  return say("set");
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "single") return single();
  if (what == "sleepers" || what == "brief") return sleepers(what == "sleepers");
  if (what == "ended") return ended();
  if (what == "ends") return ends();
  if (what == "c11") return c11();
  if (what == "sleeps") return sleeps();
  if (what == "signals") return signals();
  if (what == "child") return child();
  if (what == "fallen") return fallen();
  if (what == "leader") return leader();
  if (what == "ids") return ids();
  return 2;
}
