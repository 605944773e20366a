/*
 * A thread on a lead: tests that need things to happen in an order use it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_WORKER_H
#define HAK_TESTS_SUPPORT_WORKER_H

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace hak_test {

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

}  // namespace hak_test
#endif
