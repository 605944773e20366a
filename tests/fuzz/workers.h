/*
 * The machine's threads beside the main one. A worker starts when it gets its first
 * job, and may end and start again.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_WORKERS_H
#define HAK_TESTS_FUZZ_WORKERS_H

#include "operation.h"

#include <cstdint>
#include <pthread.h>

namespace hak_fuzz {

class Workers {
 public:
  using Job = void(void *context, unsigned thread);

  /* Whether the worker runs; starts it if it can. It cannot where memory is short. */
  bool start(unsigned worker);
  bool is_running(unsigned worker) const { return runs_[worker]; }
  /* Returns when the worker has done the job. It runs. */
  void run_on(unsigned worker, Job *job, void *context);
  /* The workers 1 .. `count`, which run, do the job together: in turns of `mean_length`
   * basic blocks, or freely if that is 0 or there are no turns. */
  void run_together(unsigned count, Job *job, void *context, std::uint64_t seed, unsigned mean_length);
  void end(unsigned worker);

 private:
  static void *loop(void *argument);

  bool runs_[kThreads] = {};
  pthread_t threads_[kThreads];
  Job *job_ = nullptr; /* nullptr: end */
  void *context_ = nullptr;
};

}  // namespace hak_fuzz
#endif
