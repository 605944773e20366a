/*
 * Checks the meter of the latency workload: processor time, sleep and waiting for a
 * processor are told apart, what happens between calls is not charged to them, and
 * quantiles are what they say. Nothing here expects the machine to be quick: work is
 * measured out by the clocks themselves, and only what must be there is demanded.
 *
 * Exit status: 0 all is well, 1 not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "workloads/latency/meter.h"

#include <sched.h>
#include <stdatomic.h>

#define CHECK(condition)                                                      \
  do                                                                          \
    if (!(condition)) bench_die("line %d: not so: %s", __LINE__, #condition); \
  while (0)

enum { MS = 1000000 };

static void burn(uint64_t ns) {
  uint64_t start = bench_clock(CLOCK_THREAD_CPUTIME_ID);
  while (bench_clock(CLOCK_THREAD_CPUTIME_ID) - start < ns) {}
}

static void work_is_processor_time(void) {
  meter_t *meter = meter_new();
  uint64_t begin = meter_begin(meter);
  burn(3 * MS);
  meter_end(meter, begin);
  CHECK(meter->calls == 1);
  CHECK(meter->worst >= 3 * MS);
  CHECK(meter->worst_stall >= 3 * MS);
  meter_drop(meter);
}

static void sleep_is_not(void) {
  meter_t *meter = meter_new();
  uint64_t begin = meter_begin(meter);
  bench_sleep(0.03);
  meter_end(meter, begin);
  CHECK(meter->worst < 30 * MS);
  CHECK(meter->worst_wait >= 29 * MS);
  CHECK(meter->worst_stall >= 29 * MS);
  meter_drop(meter);
}

/* A call that works for a moment after a long sleep: were the sleep charged to it,
 * no processor time would be left. */
static void what_was_before_a_call_is_not_its_own(void) {
  meter_t *meter = meter_new();
  bench_sleep(0.02);
  uint64_t begin = meter_begin(meter);
  burn(MS / 2);
  meter_end(meter, begin);
  CHECK(meter->worst >= MS / 2 - MS / 50);
  meter_drop(meter);
}

static atomic_bool over;

static void *rival(void *unused) {
  while (!atomic_load(&over)) {}
  return unused;
}

/* With a rival on the same processor, until the system has let it run instead. */
static void waiting_for_a_processor_is_no_stall(void) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof before, &before);
  CPU_SET((unsigned)sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  uintptr_t thread = bench_thread_start(rival, NULL);
  meter_t *meter = meter_new();
  for (int i = 0; i < 100 && meter->worst_wait < MS; i++) {
    uint64_t begin = meter_begin(meter);
    burn(20 * MS);
    meter_end(meter, begin);
  }
  atomic_store(&over, true);
  bench_thread_join(thread);
  sched_setaffinity(0, sizeof before, &before);
  CHECK(meter->worst_wait >= MS);
  if (meter->schedstat >= 0) CHECK(meter->worst_stall < meter->worst + meter->worst_wait / 2);
  meter_drop(meter);
}

static void quantiles_are_within_a_bucket(void) {
  meter_t *meter = meter_new();
  enum { COUNT = 200000 };
  for (uint64_t i = 1; i <= COUNT; i++) meter_record(meter, i, 0, 0);
  static const double parts[] = {0.0001, 0.5, 0.999, 0.99999, 1};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    double exact = COUNT * parts[i], told = (double)meter_quantile(meter, parts[i]);
    CHECK(told >= exact && told <= exact * 1.032 + 1);
  }
  CHECK(meter_quantile(meter, 1) == COUNT && meter->worst == COUNT);

  meter_t *sum = meter_new();
  meter_record(sum, 7 * COUNT, 5, 2);
  CHECK(sum->worst_stall == 7 * COUNT + 3);
  meter_record(meter, 1, 9 * COUNT, 0);
  meter_add(sum, meter);
  CHECK(sum->calls == COUNT + 2 && sum->worst == 7 * COUNT);
  CHECK(sum->worst_wait == 9 * COUNT && sum->worst_stall == 9 * COUNT + 1);
  CHECK(meter_quantile(sum, 0.5) == meter_quantile(meter, 0.5));
  meter_record(sum, UINT64_MAX, 0, 0); /* more than the largest bucket holds */
  CHECK(meter_quantile(sum, 1) > (uint64_t)1 << 38);
  meter_drop(sum);
  meter_drop(meter);
}

int main(int argc, char **argv) {
  static const bench_option_t options[] = {{0}};
  bench_start(argc, argv, "check_meter", 0, options);
  work_is_processor_time();
  sleep_is_not();
  what_was_before_a_call_is_not_its_own();
  waiting_for_a_processor_is_no_stall();
  quantiles_are_within_a_bucket();
  return 0;
}
