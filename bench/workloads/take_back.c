/*
 * Memory that is taken back: a program frees 100 MiB and takes as much again, ten times a second,
 * with pauses in between, and writes all of it each time. What an allocator gives back to the system
 * in the pause it has to fetch again a moment later, page by page.
 *
 * Operations per second are those of processor time, of all threads of the process and with what the kernel does for
 * them: the pauses do not count, but what a thread of the allocator's own does in them counts.
 * `faults` are the page faults, `resident_mib` is the memory at the last pause's end.
 *
 * With --purging refused the kernel refuses every `madvise` that gives pages back (a seccomp filter,
 * which holds for system calls from wherever they come): the same without giving back, to compare with.
 * An allocator that unmaps memory or shrinks the program break still does so.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { POSSIBLE, REFUSED };
static const char *const purgings[] = {"possible", "refused", NULL};

static uint64_t total_bytes = 100 * BENCH_MIB, min_bytes = 64, max_bytes = 64 * BENCH_KIB, per_second = 10;
static uint64_t purging = POSSIBLE, company;

static const bench_option_t options[] = {
    {"total", BENCH_BYTES, &total_bytes, BENCH_KIB, 16 * BENCH_GIB, NULL, "bytes that are freed and taken back"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"rate", BENCH_NUMBER, &per_second, 1, 1000000, NULL, "times a second"},
    {"purging", BENCH_CHOICE, &purging, 0, 0, purgings, "whether the kernel takes pages back"},
    {"company", BENCH_NUMBER, &company, 0, 1000, NULL, "threads that sleep meanwhile"},
    {0},
};

static void **blocks;
static size_t *sizes; /* the same in every round */
static size_t count;

/* Of the latest call of `work`, which is the timed one in the end. */
static struct {
  double seconds, resident_mib;
  uint64_t faults;
} cost;

/* ---- Without giving back -------------------------------------------------*/

#if defined __x86_64__
#define AUDIT_ARCH_HERE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define AUDIT_ARCH_HERE AUDIT_ARCH_AARCH64
#endif

static void refuse_purging(void) {
#ifdef AUDIT_ARCH_HERE
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skipped))
#define SKIP_IF(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (skipped), 0)
  struct sock_filter program[] = {
      LOAD(arch),
      SKIP_UNLESS(AUDIT_ARCH_HERE, 6),
      LOAD(nr),
      SKIP_UNLESS(SYS_madvise, 4),
      LOAD(args[2]), /* the lower half: the advice is an int, and these machines are little-endian */
      SKIP_IF(MADV_DONTNEED, 3),
      SKIP_IF(MADV_FREE, 2),
      SKIP_IF(MADV_PAGEOUT, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  };
  struct sock_fprog filter = {sizeof program / sizeof program[0], program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    bench_die("the kernel cannot be made to refuse madvise: %s", strerror(errno));
  void *page = bench_pages(1);
  if (madvise(page, 1, MADV_DONTNEED) == 0 || errno != EINVAL) bench_die("madvise is not refused");
  bench_pages_drop(page, 1);
#else
  bench_die("--purging refused is not known for this processor");
#endif
}

/* ---- Rounds --------------------------------------------------------------*/

static void take(void) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = bench_alloc(sizes[i], bench_args.verify);
    if (!bench_args.verify) memset(blocks[i], 1, sizes[i]);
  }
}

static void give(void) {
  for (size_t i = 0; i < count; i++) bench_free(blocks[i], bench_args.verify);
}

static void pause_until(double time) {
  double left = time - bench_now();
  if (left > 0) bench_sleep(left);
}

static double processor_seconds(void) { return (double)bench_clock(CLOCK_PROCESS_CPUTIME_ID) * 1e-9; }

static uint64_t page_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_minflt;
}

/* Half of a round the memory is in use, half of it free. */
static uint64_t work(bench_worker_t *worker) {
  uint64_t ops = 0, faults = page_faults();
  double seconds = processor_seconds(), half = 0.5 / (double)per_second, next = bench_now();
  do {
    take();
    pause_until(next += half);
    give();
    pause_until(next += half);
    ops += 2 * count;
  } while (bench_more(worker, ops));
  cost.seconds = processor_seconds() - seconds;
  cost.faults = page_faults() - faults;
  cost.resident_mib = bench_resident_mib(count * (sizeof *blocks + sizeof *sizes));
  return ops;
}

static void *sleeping_thread(void *nothing) {
  bench_crowd_join();
  return nothing;
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "take_back", 2, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  if (purging == REFUSED) refuse_purging();
  uintptr_t *ids = bench_pages((company + 1) * sizeof *ids);
  for (uint64_t i = 0; i < company; i++) ids[i] = bench_thread_start(sleeping_thread, NULL);
  bench_crowd_await(company);

  size_t most = total_bytes / min_bytes + 1;
  blocks = bench_pages(most * sizeof *blocks);
  sizes = bench_pages(most * sizeof *sizes);
  bench_rng_t rng = bench_rng(0);
  for (size_t bytes = 0; bytes < total_bytes; bytes += sizes[count++])
    sizes[count] = bench_log_between(&rng, min_bytes, max_bytes);

  /* An allocator that gives back what a program does not need has to see first what it needs. */
  bench_plan_t plan = {.work = work, .warmup_seconds_min = 1};
  bench_outcome_t outcome = bench_run(&plan, 1);
  bench_put_real("wall_seconds", outcome.seconds);
  bench_put_number("faults", cost.faults);
  bench_put_outcome((bench_outcome_t){outcome.ops, cost.seconds});
  bench_put_memory("resident_mib", cost.resident_mib);
  bench_crowd_dismiss();
  for (uint64_t i = 0; i < company; i++) bench_thread_join(ids[i]);
  bench_finish("ops_per_s");
}
