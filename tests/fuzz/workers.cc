/* See workers.h. SPDX-License-Identifier: MIT */
#include "workers.h"

#include "schedule.h"
#include "testing.h"

namespace hak_fuzz {
namespace {

struct Start {
  Workers *workers;
  unsigned thread;
};
Start starts[kThreads];

}  // namespace

void *Workers::loop(void *argument) {
  auto *start = static_cast<Start *>(argument);
  Workers *self = start->workers;
  schedule_name_thread(start->thread);
  for (;;) {
    schedule_wait_for_turn();
    if (self->job_ == nullptr) return nullptr;
    schedule_enter();
    self->job_(self->context_, start->thread);
    schedule_leave();
  }
}

bool Workers::start(unsigned worker) {
  if (runs_[worker]) return true;
  /* Small stacks, so that a limit on memory is about the allocator. */
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 * 1024);
  starts[worker] = {this, worker};
  runs_[worker] = pthread_create(&threads_[worker], &attributes, loop, &starts[worker]) == 0;
  pthread_attr_destroy(&attributes);
  return runs_[worker];
}

void Workers::run_on(unsigned worker, Job *job, void *context) {
  job_ = job;
  context_ = context;
  schedule_run_alone(worker);
}

void Workers::run_together(unsigned count, Job *job, void *context, std::uint64_t seed, unsigned mean_length) {
  job_ = job;
  context_ = context;
  if (kSteps && mean_length > 0) schedule_run(count, seed, mean_length);
  else schedule_run_freely(count);
}

void Workers::end(unsigned worker) {
  if (!runs_[worker]) return;
  job_ = nullptr;
  schedule_wake(worker);
  pthread_join(threads_[worker], nullptr);
  runs_[worker] = false;
}

}  // namespace hak_fuzz
