/*
 * The mistakes that a program can make with free, as a list: each test runs
 * them all, for every range of sizes and for local and remote blocks.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_DEATH_MISTAKES_H
#define HAK_TESTS_DEATH_MISTAKES_H

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <ostream>
#include <thread>

/* A thread that does what it is told, one thing at a time. */
class Worker {
 public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    run(nullptr);
    thread_.join();
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /* Returns when the worker has done it. */
  void run(const std::function<void()> &job) {
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = &job;
    changed_.notify_all();
    changed_.wait(lock, [this] { return job_ == nullptr; });
  }

 private:
  void loop() {
    for (bool more = true; more;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return job_ != nullptr; });
      more = static_cast<bool>(*job_);
      if (more) (*job_)();
      job_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()> *job_ = nullptr;
  std::thread thread_;
};

/* Sizes whose blocks are managed differently. */
struct Range {
  const char *name;
  std::size_t bytes;
  bool has_class; /* a block of a slab: a report can name its class after it was freed */
};
inline std::ostream &operator<<(std::ostream &out, const Range &range) { return out << range.bytes << " bytes"; }
inline constexpr Range kRanges[] = {
    {"Tiny48", 48, true},         {"Tiny1024", 1024, true},      {"Mid8K", 8192, true},
    {"Mid40000", 40000, true},    {"Large300K", 300 << 10, false}, {"Large3M", 3 << 20, false},
    {"Huge10M", 10 << 20, false},
};

/* The block that a mistake is about, among neighbours that stay live. */
struct Victim {
  char *block;
  std::size_t bytes;  /* as asked for   */
  std::size_t usable; /* as it is       */
};

#endif
