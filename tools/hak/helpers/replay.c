/*
 * replay PLAN TOUCH
 *
 * Makes the calls of a plan that `hak replay` has written (src/trace/plan.rs), by as many threads as the
 * traced program had, and writes one line to standard output:
 *   replayed  seconds=  peak_kib=  calls=  refused=
 *
 * What it needs itself, it takes from the system before the first call, so that malloc serves the
 * calls of the plan and nothing else, and so that `peak_kib` is what came on top of that.
 *
 * Each call says which block it is about, by a slot, and how many calls have been about that slot before:
 * it waits for those. So a block is freed after its allocation whichever threads do these. And no thread is
 * more than two segments of the plan ahead of another, each of them some thousand calls long, so
 * that about as much is live at a time as it was in the program.
 *
 * TOUCH is a, to write into each page of each block; e, into its first and last byte; or n, nowhere.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As src/trace/plan.rs writes them. */
enum { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, WAS, SEGMENT };
#define MAGIC UINT64_C(0x314e414c504b4148)

struct step {
  uint32_t what; /* from the lowest bit: what, 4; log2 of the alignment, 6; bits 32 to 53 of the size */
  uint32_t slot; /* or the segment that begins */
  uint32_t turn; /* calls that are about this slot before */
  uint32_t size;
};

struct thread {
  uint64_t offset, steps, first_segment;
};

struct plan {
  uint64_t magic, threads, slots, segments;
};

struct slot {
  void *block;
  _Atomic uint32_t turn;
};

enum { BATCH = 2048, PAGE = 4096 };

static int file;
static char touch;
static struct slot *slots;
static _Atomic uint32_t *left;    /* by segment: threads that have not done their part */
static _Atomic uint64_t complete; /* segments from the first one on that all have done */
static uint64_t segments;
static _Atomic uint64_t calls, refused;

static _Noreturn void fail(const char *what) {
  dprintf(2, "replay: %s: %s\n", what, strerror(errno));
  _exit(1);
}

static void *take(size_t bytes) {
  void *at = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) fail("no memory for the plan");
  return at;
}

static void take_in(void *into, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    ssize_t more = pread(file, (char *)into + done, bytes - done, (off_t)(offset + done));
    if (more == 0) errno = EIO;
    if (more <= 0 && errno != EINTR) fail("the plan cannot be read");
    if (more > 0) done += (size_t)more;
  }
}

static void rest(unsigned *times) {
  if (++*times % 64 == 0) sched_yield();
}

static void segment_done(uint64_t segment) {
  if (atomic_fetch_sub(&left[segment], 1) != 1) return;
  /* Whoever ends the first that is open moves on over all that have ended since. */
  uint64_t now = atomic_load(&complete);
  while (now < segments && atomic_load(&left[now]) == 0)
    if (atomic_compare_exchange_weak(&complete, &now, now + 1)) now++;
}

static void touch_from(char *block, size_t from, size_t size) {
  if (touch == 'n' || size <= from) return;
  if (touch == 'e') {
    block[from] = 1, block[size - 1] = 1;
    return;
  }
  for (size_t at = from; at < size; at += PAGE - ((uintptr_t)(block + at) % PAGE)) block[at] = 1;
  block[size - 1] = 1;
}

struct context {
  size_t was;
  uint64_t segment; /* UINT64_MAX before the first */
  uint64_t calls, refused;
};

static void *call(unsigned what, void *block, size_t size, unsigned log2) {
  switch (what) {
    case MALLOC: return malloc(size);
    case CALLOC: return calloc(1, size);
    case REALLOC: return realloc(block, size);
    default: break;
  }
  void *aligned = NULL;
  size_t alignment = (size_t)1 << log2;
  if (posix_memalign(&aligned, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0) return NULL;
  return aligned;
}

static void make(const struct step *step, struct context *context) {
  unsigned what = step->what & 15, log2 = step->what >> 4 & 63, times = 0;
  size_t size = (size_t)(step->what >> 10) << 32 | step->size;
  if (what == WAS) {
    context->was = size;
    return;
  }
  if (what == SEGMENT) {
    if (context->segment != UINT64_MAX) segment_done(context->segment);
    context->segment = step->slot;
    while (atomic_load(&complete) + 2 <= context->segment) rest(&times);
    return;
  }
  struct slot *slot = &slots[step->slot];
  while (atomic_load_explicit(&slot->turn, memory_order_acquire) != step->turn) rest(&times);
  context->calls++;
  if (what == FREE) {
    free(slot->block);
    slot->block = NULL;
  } else {
    size_t from = what == REALLOC ? context->was : 0;
    /* One that was refused before begins anew. */
    if (what == REALLOC && slot->block == NULL) from = 0;
    void *block = call(what, slot->block, size, log2);
    if (block != NULL) {
      touch_from(block, from, size);
      slot->block = block;
    } else {
      context->refused++;
    }
  }
  atomic_store_explicit(&slot->turn, step->turn + 1, memory_order_release);
}

static void *run(void *argument) {
  const struct thread *thread = argument;
  struct step *steps = take(BATCH * sizeof *steps);
  struct context context = {.segment = UINT64_MAX};
  for (uint64_t done = 0; done < thread->steps;) {
    uint64_t count = thread->steps - done < BATCH ? thread->steps - done : BATCH;
    take_in(steps, count * sizeof *steps, thread->offset + done * sizeof *steps);
    for (uint64_t i = 0; i < count; i++) make(&steps[i], &context);
    done += count;
  }
  if (context.segment != UINT64_MAX) segment_done(context.segment);
  atomic_fetch_add(&calls, context.calls);
  atomic_fetch_add(&refused, context.refused);
  munmap(steps, BATCH * sizeof *steps + 1);
  return NULL;
}

/* In KiB, of /proc/self/status; without stdio's streams, which allocate. */
static long status(const char *name) {
  static char text[8192];
  int status_file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t length = status_file >= 0 ? read(status_file, text, sizeof text - 1) : -1;
  if (length < 0) fail("/proc/self/status");
  close(status_file);
  text[length] = '\0';
  const char *line = strstr(text, name);
  return line != NULL ? atol(line + strlen(name)) : 0;
}

int main(int count, char **words) {
  struct plan plan;
  if (count < 3 || (file = open(words[1], O_RDONLY | O_CLOEXEC)) < 0) fail("no plan");
  touch = words[2][0];
  take_in(&plan, sizeof plan, 0);
  if (plan.magic != MAGIC) fail("it is no plan");
  segments = plan.segments;
  struct thread *threads = take(plan.threads * sizeof *threads);
  take_in(threads, plan.threads * sizeof *threads, sizeof plan);
  left = take(plan.segments * sizeof *left);
  take_in((void *)left, plan.segments * sizeof *left, sizeof plan + plan.threads * sizeof *threads);
  slots = take(plan.slots * sizeof *slots);
  pthread_t *ids = take(plan.threads * sizeof *ids);

  /* What was needed until now is no peak. Where that cannot be said, it is a small one. */
  int peak = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (peak >= 0) {
    if (write(peak, "5", 1) != 1) errno = 0;
    close(peak);
  }
  long before = status("VmRSS:");
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  /* A plan of one thread is done by this one. Otherwise each starts when its first call is near. */
  if (plan.threads == 1) run(&threads[0]);
  for (uint64_t i = 0; plan.threads > 1 && i < plan.threads; i++) {
    unsigned times = 0;
    while (atomic_load(&complete) + 2 <= threads[i].first_segment) rest(&times);
    errno = pthread_create(&ids[i], NULL, run, &threads[i]);
    if (errno != 0) fail("a thread cannot be started");
  }
  for (uint64_t i = 0; plan.threads > 1 && i < plan.threads; i++) pthread_join(ids[i], NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  long most = status("VmHWM:") - before;

  double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
  char line[200];
  int length = snprintf(line, sizeof line, "replayed\tseconds=%.9f\tpeak_kib=%ld\tcalls=%llu\trefused=%llu\n", seconds,
                        most > 0 ? most : 0, (unsigned long long)calls, (unsigned long long)refused);
  return write(1, line, (size_t)length) == length ? 0 : 1;
}
