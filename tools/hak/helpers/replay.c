/*
 * replay PLAN TOUCH
 *
 * Makes the calls of a plan that `hak replay` has written (src/trace/plan.rs), by as many threads as the
 * traced program had, and writes one line to standard output:
 *   replayed  seconds=  peak_kib=  calls=  refused=
 *
 * What it needs itself, it takes from the system before the first call and writes to, also the stacks of its
 * threads, so that malloc serves the calls of the plan and little else, and so that `peak_kib` is what came
 * on top of that. All code is resident beforehand, too, also the allocator's.
 *
 * Each call says which block it is about, by a slot, and how many calls have been about that slot before:
 * it waits for those. So a block is freed after its allocation whichever threads do these. And a thread begins
 * a segment of the plan when all segments but the one before it are done, so that as much is live at a time
 * as it was in the program (src/trace/segments.rs).
 *
 * A thread starts when its first segment may begin, on a seat that a thread that has ended has left.
 *
 * TOUCH is a, to write into each page of each block, or into as many as the program used; e, into its first and last
 * byte; or n, nowhere.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As src/trace/plan.rs writes them. */
enum { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, WAS, SEGMENT, USED };
#define MAGIC UINT64_C(0x324e414c504b4148)

struct step {
  uint32_t what; /* from the lowest bit: what, 4; log2 of the alignment, 6; bits 32 to 53 of the size */
  uint32_t slot; /* or the segment that begins */
  uint32_t turn; /* calls that are about this slot before, as far as TURNS counts */
  uint32_t size;
};

struct thread {
  uint64_t offset, steps, first_segment;
};

struct plan {
  uint64_t magic, threads, slots, segments, seats;
};

/* The highest bit of a slot's turn: somebody sleeps until it changes. */
#define WAITED (UINT32_C(1) << 31)
#define TURNS (WAITED - 1)

struct slot {
  void *block;
  _Atomic uint32_t turn;
};

/* Of a segment. */
enum { CLOSED, WAITED_FOR, OPEN };

enum { BATCH = 2048, PAGE = 4096 };

/* Of a thread's stack, what is resident beforehand: the allocator's thread-local variables lie there, too. */
enum { STACK = 512 << 10, RESIDENT = 64 << 10 };

/* Threads cannot be started as long as the system has not done with others: tries, and nanoseconds between. */
enum { TRIES = 1000, PAUSE = 10000000 };

struct seat {
  char *stack;
  struct step *steps;
  const struct thread *thread; /* NULL: free */
  pthread_t id;
  _Atomic int has_ended;
};

static int file;
static char touch;
static int is_alone; /* all calls are of one thread */
static struct slot *slots;
static _Atomic uint32_t *left;    /* by segment: threads that have not done their part */
static _Atomic uint32_t *gates;   /* by segment, whether it may begin */
static _Atomic uint64_t complete; /* segments from the first one on that all have done */
static uint64_t segments;
static _Atomic uint32_t ended; /* threads */
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

static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* Whoever waits sleeps at once: on a busy machine each sched_yield would be a turn of all the others. */
static void await_turn(struct slot *slot, uint32_t turn) {
  uint32_t seen = atomic_load_explicit(&slot->turn, memory_order_acquire); /* with next_turn's release */
  while ((seen & TURNS) != turn) {
    if ((seen & WAITED) == 0 && !atomic_compare_exchange_weak(&slot->turn, &seen, seen | WAITED)) continue;
    sleep_while(&slot->turn, seen | WAITED);
    seen = atomic_load(&slot->turn);
  }
}

/* Those who wait for another turn look again, and say again that they wait. */
static void next_turn(struct slot *slot, uint32_t turn) {
  uint32_t before = atomic_exchange_explicit(&slot->turn, (turn + 1) & TURNS, memory_order_acq_rel);
  if ((before & WAITED) != 0) wake_all(&slot->turn);
}

static void open_gate(uint64_t segment) {
  if (segment < segments && atomic_exchange(&gates[segment], OPEN) == WAITED_FOR) wake_all(&gates[segment]);
}

static void await_gate(uint64_t segment) {
  uint32_t seen = CLOSED;
  while (atomic_compare_exchange_strong(&gates[segment], &seen, WAITED_FOR) || seen != OPEN) {
    sleep_while(&gates[segment], WAITED_FOR);
    seen = CLOSED;
  }
}

/* Whoever ends the first segment that is open moves on over all that have ended since, and over empty ones. */
static void move_on(void) {
  uint64_t now = atomic_load(&complete);
  while (now < segments && atomic_load(&left[now]) == 0)
    if (atomic_compare_exchange_strong(&complete, &now, now + 1)) open_gate(++now + 1);
}

static void segment_done(uint64_t segment) {
  if (atomic_fetch_sub(&left[segment], 1) == 1) move_on();
}

/* Of all pages, only those of the first `used` bytes of the block. */
static void touch_from(char *block, size_t from, size_t size, size_t used) {
  if (touch == 'n' || size <= from) return;
  if (touch == 'e') {
    block[from] = 1, block[size - 1] = 1;
    return;
  }
  bool is_whole = used >= size;
  if (!is_whole) size = used;
  for (size_t at = from; at < size; at += PAGE - ((uintptr_t)(block + at) % PAGE)) block[at] = 1;
  if (is_whole) block[size - 1] = 1;
}

struct context {
  size_t was, used; /* of the next block: its size before; how much of it the program used, SIZE_MAX: all */
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
  unsigned what = step->what & 15, log2 = step->what >> 4 & 63;
  size_t size = (size_t)(step->what >> 10) << 32 | step->size;
  if (what == WAS) {
    context->was = size;
    return;
  }
  if (what == USED) {
    context->used = size;
    return;
  }
  if (what == SEGMENT) {
    if (context->segment != UINT64_MAX) segment_done(context->segment);
    context->segment = step->slot;
    if (!is_alone) await_gate(context->segment);
    return;
  }
  struct slot *slot = &slots[step->slot];
  if (!is_alone) await_turn(slot, step->turn & TURNS);
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
      touch_from(block, from, size, context->used);
      slot->block = block;
    } else {
      context->refused++;
    }
  }
  context->used = SIZE_MAX;
  if (!is_alone) next_turn(slot, step->turn & TURNS);
}

static void run(const struct thread *thread, struct step *steps) {
  struct context context = {.used = SIZE_MAX, .segment = UINT64_MAX};
  for (uint64_t done = 0; done < thread->steps;) {
    uint64_t count = thread->steps - done < BATCH ? thread->steps - done : BATCH;
    take_in(steps, count * sizeof *steps, thread->offset + done * sizeof *steps);
    for (uint64_t i = 0; i < count; i++) make(&steps[i], &context);
    done += count;
  }
  if (context.segment != UINT64_MAX) segment_done(context.segment);
  atomic_fetch_add(&calls, context.calls);
  atomic_fetch_add(&refused, context.refused);
}

static void *run_on_seat(void *argument) {
  struct seat *seat = argument;
  run(seat->thread, seat->steps);
  atomic_store(&seat->has_ended, 1);
  atomic_fetch_add(&ended, 1);
  wake_all(&ended);
  return NULL;
}

/* The page below a stack is not accessible, so stacks are mappings of their own, too small for a huge page. */
static void prepare(struct seat *seat) {
  seat->steps = take(BATCH * sizeof *seat->steps);
  char *at = mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (at == MAP_FAILED || mprotect(at, PAGE, PROT_NONE) != 0) fail("no memory for a stack");
  seat->stack = at + PAGE;
  memset(seat->stack + STACK - RESIDENT, 1, RESIDENT);
}

static int is_free(struct seat *seat) {
  if (seat->thread != NULL && atomic_load(&seat->has_ended)) {
    pthread_join(seat->id, NULL);
    seat->thread = NULL;
  }
  return seat->thread == NULL;
}

/* The plan has a seat for each thread that is there at a time, so one is free, or soon. */
static struct seat *free_seat(struct seat *seats, uint64_t count) {
  for (;;) {
    uint32_t seen = atomic_load(&ended);
    for (uint64_t i = 0; i < count; i++)
      if (is_free(&seats[i])) return &seats[i];
    sleep_while(&ended, seen);
  }
}

static void begin(struct seat *seat, const struct thread *thread) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, seat->stack, STACK);
  seat->thread = thread;
  atomic_store(&seat->has_ended, 0);
  errno = EAGAIN;
  for (unsigned tries = 0; errno == EAGAIN && tries < TRIES; tries++) {
    if (tries > 0) nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
    errno = pthread_create(&seat->id, &attributes, run_on_seat, seat);
  }
  if (errno != 0) fail("a thread cannot be started");
  pthread_attr_destroy(&attributes);
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

/* Of all that is not written to. */
static int read_pages(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  for (const ElfW(Phdr) *part = object->dlpi_phdr; part < object->dlpi_phdr + object->dlpi_phnum; part++) {
    if (part->p_type != PT_LOAD || (part->p_flags & (PF_R | PF_W)) != PF_R) continue;
    const volatile char *at = (const char *)(object->dlpi_addr + part->p_vaddr);
    for (size_t page = 0; page < part->p_memsz; page += PAGE) (void)at[page];
  }
  return 0;
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
  gates = take(plan.segments * sizeof *gates);
  is_alone = plan.threads == 1;
  struct seat *seats = take(plan.seats * sizeof *seats);
  for (uint64_t i = 0; i < plan.seats; i++) prepare(&seats[i]);
  open_gate(0);
  open_gate(1);
  move_on();
  dl_iterate_phdr(read_pages, NULL);

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
  if (is_alone) run(&threads[0], seats[0].steps);
  for (uint64_t i = 0; !is_alone && i < plan.threads; i++) {
    await_gate(threads[i].first_segment);
    begin(free_seat(seats, plan.seats), &threads[i]);
  }
  for (uint64_t i = 0; i < plan.seats; i++)
    if (seats[i].thread != NULL) pthread_join(seats[i].id, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  long most = status("VmHWM:") - before;

  double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
  char line[200];
  int length = snprintf(line, sizeof line, "replayed\tseconds=%.9f\tpeak_kib=%ld\tcalls=%llu\trefused=%llu\n", seconds,
                        most > 0 ? most : 0, (unsigned long long)calls, (unsigned long long)refused);
  return write(1, line, (size_t)length) == length ? 0 : 1;
}
