/*
 * Latency: how long single calls take at their worst. Throughput hides one call in
 * a million that takes a hundred milliseconds; a server's client does not.
 *   growth         a heap that only grows
 *   mass_free      a gigabyte of small blocks freed at once, by whomever
 *   thread_ends    threads that end with full caches and with freed blocks pending
 *   foreign_purge  another thread frees gigabytes
 *   large_churn    many threads replace large blocks
 *   nothing        no call at all: what the machine itself does
 *   lock           no call at all, but for one lock: what any lock does
 * Each scenario is a file in latency/, and says what exactly it does.
 *
 * The figure is the worst processor time of one call, so that other programs on
 * the machine cannot be blamed on the allocator; for foreign_purge and lock it is
 * that and the time asleep (stall_us), since what the caller suffers there is a lock
 * that another one holds; for large_churn it is the processor time per operation.
 *
 * SPDX-License-Identifier: MIT
 */
#include "latency/scenarios.h"

enum { GROWTH, MASS_FREE, THREAD_ENDS, FOREIGN_PURGE, LARGE_CHURN, NOTHING, LOCK };
static const char *const scenarios[] = {"growth",      "mass_free", "thread_ends", "foreign_purge",
                                        "large_churn", "nothing",   "lock",        NULL};
static const char *const freers[] = {"owner", "other", "survivor", NULL};
static const char *const orders[] = {"same", "random", NULL};

latency_options_t latency = {
    .scenario = GROWTH,
    .min_bytes = 16,
    .max_bytes = 1024,
    .total_bytes = BENCH_GIB,
    .every = 1,
    .blocks = 1,
    .slots = 8,
    .threads = 1,
    .ends = 4,
};

static const bench_option_t options[] = {
    {"scenario", BENCH_CHOICE, &latency.scenario, 0, 0, scenarios, "what happens"},
    {"min", BENCH_BYTES, &latency.min_bytes, 16, 64 * BENCH_MIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &latency.max_bytes, 16, 64 * BENCH_MIB, NULL, "largest block"},
    {"total", BENCH_BYTES, &latency.total_bytes, 0, 64 * BENCH_GIB, NULL, "bytes of all blocks"},
    {"order", BENCH_CHOICE, &latency.order, 0, 0, orders, "mass_free: order of the frees"},
    {"freer", BENCH_CHOICE, &latency.freer, 0, 0, freers, "mass_free: who frees"},
    {"every", BENCH_NUMBER, &latency.every, 1, 1000, NULL, "mass_free, thread_ends: free one of so many"},
    {"own", BENCH_NUMBER, &latency.own, 0, 1000, NULL, "mass_free: one of so many freed by the owner before, or 0"},
    {"ends", BENCH_NUMBER, &latency.ends, 1, 100000, NULL, "thread_ends: threads that end"},
    {"blocks", BENCH_NUMBER, &latency.blocks, 1, 1000000, NULL, "foreign_purge: blocks that are freed"},
    {"slots", BENCH_NUMBER, &latency.slots, 1, 4096, NULL, "large_churn: blocks of each thread"},
    {"threads", BENCH_NUMBER, &latency.threads, 1, 1024, NULL, "large_churn, nothing, lock: threads"},
    {0},
};

static meter_t *measured(void) {
  switch (latency.scenario) {
    case GROWTH: return latency_growth();
    case MASS_FREE: return latency_mass_free();
    case THREAD_ENDS: return latency_thread_ends();
    case FOREIGN_PURGE: return latency_foreign_purge();
    case LARGE_CHURN: return latency_large_churn();
    case NOTHING: return latency_nothing();
    default: return latency_lock();
  }
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "latency", 0.5, options);
  if (latency.min_bytes > latency.max_bytes) bench_usage("--min is above --max");
  if (!latency.total_bytes && latency.scenario != THREAD_ENDS) bench_usage("--total is 0");
  meter_t *meter = measured();
  meter_put(meter);
  meter_drop(meter);
  static const char *const figures[] = {
      [GROWTH] = "worst_us",
      [MASS_FREE] = "worst_us",
      [THREAD_ENDS] = "worst_us",
      [FOREIGN_PURGE] = "stall_us",
      [LARGE_CHURN] = "processor_ns_per_op",
      [NOTHING] = "worst_us",
      [LOCK] = "stall_us",
  };
  bench_finish(figures[latency.scenario]);
}
