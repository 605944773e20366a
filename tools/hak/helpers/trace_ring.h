/*
 * How a traced process hands its events to `hak trace`: rings in memory that both share.
 *
 * hak makes the memory (a memfd), and names it in HAK_TRACE as PARENT:DESCRIPTOR. The process that
 * hak itself has started, and what that becomes by exec, maps it at its first allocation; it opens
 * /proc/PARENT/fd/DESCRIPTOR for that and closes it at once, so the program has no descriptor more.
 * hak is the parent of others, too: of those whose own parents have ended. So which process it is
 * stands in the memory before that process begins.
 *
 *   struct region   one page, then RING_COUNT struct ring, then RING_COUNT times RING_EVENTS events
 *
 * A ring belongs to one thread at a time, which alone writes its events and `head`; hak alone writes
 * `tail`. Nothing is lost: a thread whose ring is full waits for hak, until hak says that it has stopped
 * or is gone. Numbers that one counter gives out order the events of all threads without a gap, so hak
 * knows when one is missing still. The counter is taken before a free takes effect and after an
 * allocation has: whoever is given a block has a larger number than who gave it back.
 *
 * Memory that is shared stays so in a forked child. A child must not write into its parent's rings,
 * so whether to record stands on a page that the kernel clears in children (MADV_WIPEONFORK).
 *
 * A signal handler that allocates while its thread is recording, and a thread whose own ring is given
 * back already, take another ring for the one event.
 *
 * Nothing here allocates, or changes errno.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TRACE_RING_H
#define HAK_TRACE_RING_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
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

/* As src/trace/region.rs has them. */
enum { RING_COUNT = 1024, RING_EVENTS = 32768, RING_VERSION = 3 };
#define RING_MAGIC UINT64_C(0x3145434152544b48)

/* As src/trace/call.rs has them. */
enum op {
  OP_NONE,
  OP_THREAD,       /* size: its id; whoever writes into this ring from now on */
  OP_IMAGE,        /* another program in this process: all blocks have gone */
  OP_MALLOC,       /* address, or 0; size */
  OP_CALLOC,       /* the same; size is the product, or the largest number if there is none */
  OP_ALIGNED,      /* the same; OP_ALIGNMENT comes before it */
  OP_FREE,         /* address */
  OP_REALLOC_FROM, /* address: the block, before it may go */
  OP_REALLOC_TO,   /* address, or 0; size; of the block of the last OP_REALLOC_FROM of this ring without one */
  OP_ALIGNMENT,    /* for the next event of this ring; the number is cut as below */
  OP_SIZE,         /* the same, for a size that has more than SIZE_BITS */
  OP_RESIDENT,     /* address, of a large block that is about to go; size: the bytes of its pages that are resident */
};

/* Small, as most of what the tracer costs is that it goes from one processor to another. All blocks are
 * at multiples of 16. Of an event's number only the lowest bits are there, so many that no two events that
 * hak has not read yet have the same ones. */
enum { ADDRESS_SHIFT = 4, ADDRESS_BITS = 48, NUMBER_LOW_BITS = 12, SIZE_BITS = 44 };
struct event {
  uint64_t address; /* without its lowest 4 bits, in 48; the op in 4; the 12 lowest bits of the number */
  uint64_t size;    /* in 44; the number's next 20 bits */
};
#define LOW_BITS(number, bits) ((number) & ((UINT64_C(1) << (bits)) - 1))

struct ring {
  _Alignas(64) _Atomic uint64_t head; /* events ever written */
  _Atomic uint32_t owner;             /* the thread's id, or 0: to be had */
  _Alignas(64) _Atomic uint64_t tail; /* events ever read */
  _Atomic uint32_t tail_word;         /* changes with it; what a thread that waits sleeps on */
  _Atomic uint32_t waits;             /* a thread sleeps */
};

struct region {
  uint64_t magic;
  uint32_t version, ring_count, ring_events;
  _Alignas(64) _Atomic uint64_t number; /* the last that was given out */
  _Alignas(64) _Atomic uint32_t stopped; /* by hak: nothing is recorded any more */
  _Atomic uint32_t bell;                 /* changes when hak is to look */
  _Atomic uint32_t asleep;               /* hak is */
  _Alignas(64) _Atomic uint32_t images;  /* how many programs have begun to record */
  _Atomic uint32_t failure;              /* errno, of a program that cannot */
  _Atomic uint64_t lost;                 /* events of threads that got no ring */
  _Atomic uint32_t traced;               /* by hak: the process that records */
  _Atomic uint32_t given_up;             /* a program records no more, as hak seemed to be gone */
  _Atomic uint32_t mark;                 /* the signal that the program catches while it is what recorded; or 0 */
  _Atomic uint32_t last_look;            /* LOOK_ASKED by a program that ends, LOOK_DONE by hak */
};

enum { HEADER_BYTES = 4096, STATE_OFF = 0, STATE_ON = 1, STATE_NEW = 2, LOOK_ASKED = 1, LOOK_DONE = 2 };
#define RINGS_BYTES ((size_t)RING_COUNT * sizeof(struct ring))
#define REGION_BYTES (HEADER_BYTES + RINGS_BYTES + (size_t)RING_COUNT * RING_EVENTS * sizeof(struct event))
_Static_assert(sizeof(struct region) <= HEADER_BYTES, "it has one page");
_Static_assert(sizeof(struct ring) == 128 && sizeof(struct event) == 16, "as hak reads them");

/* STATE_OFF in forked children, once it is on a page of its own. */
static _Atomic uint32_t state_before_start = STATE_NEW;
static _Atomic uint32_t *state = &state_before_start;
static struct region *region;
static pid_t reader, own; /* hak, and this process */
static pthread_key_t thread_key;
static bool has_key;

/* Of the calling thread. */
static __thread struct ring *mine;
static __thread uint64_t room_until; /* `head` may grow to it before `tail` is looked at again */
static __thread bool is_recording, has_ended;

static struct ring *ring_at(uint32_t index) { return (struct ring *)((char *)region + HEADER_BYTES) + index; }
static struct event *events_of(const struct ring *ring) {
  size_t index = (size_t)(ring - ring_at(0));
  return (struct event *)((char *)region + HEADER_BYTES + RINGS_BYTES) + index * RING_EVENTS;
}

static long futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most) {
  return syscall(SYS_futex, word, what, value, most, NULL, 0);
}

static void wake_reader(void) {
  if (atomic_load(&region->asleep) == 0) return;
  atomic_fetch_add(&region->bell, 1);
  futex(&region->bell, FUTEX_WAKE, 1, NULL);
}

/* A child of vfork has another parent, and this process's memory. A program that has given up its rights, or that a
 * filter of system calls concerns, is told EPERM of a hak that is there. */
static bool is_reader_gone(void) {
  pid_t parent = getpid() == own ? getppid() : reader;
  return (parent >= 0 && parent != reader) || (kill(reader, 0) != 0 && errno == ESRCH);
}

/* Whether there is room. Where there is none it waits, and gives up for good when nobody reads. */
static __attribute__((noinline, cold)) bool make_room(struct ring *ring, uint64_t head, uint64_t *until) {
  for (bool has_waited = false;; has_waited = true) {
    bool is_stopped = atomic_load_explicit(&region->stopped, memory_order_relaxed) != 0;
    if (is_stopped || (has_waited && is_reader_gone())) {
      /* Should hak be there after all, it says that events are missing. */
      if (!is_stopped) atomic_store(&region->given_up, 1);
      atomic_store(state, STATE_OFF);
      return false;
    }
    uint32_t word = atomic_load(&ring->tail_word);
    uint64_t used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);
    /* In halves: hak is woken when the first is full, and reads while the second fills. */
    if (used >= RING_EVENTS / 2) wake_reader();
    if (used < RING_EVENTS) {
      uint64_t step = RING_EVENTS - used < RING_EVENTS / 2 ? RING_EVENTS - used : RING_EVENTS / 2;
      *until = head + step;
      return true;
    }
    atomic_store(&ring->waits, 1);
    futex(&ring->tail_word, FUTEX_WAIT, word, &(struct timespec){.tv_nsec = 50 * 1000 * 1000});
  }
}

/* On x86, a locked instruction waits until all that was written before it is in the cache, also into the ring, whose
 * lines hak has. As long as glibc says that the process has one thread, one without a lock does, which no signal
 * handler can come into the middle of; glibc says otherwise before it starts a thread. */
static inline uint64_t next_number(void) {
#ifdef __x86_64__
  extern char __libc_single_threaded __attribute__((weak, visibility("default"))); /* since glibc 2.32 */
  if (&__libc_single_threaded != NULL && __libc_single_threaded != 0) {
    uint64_t number = 1;
    __asm__ volatile("xaddq %0, %1" : "+r"(number), "+m"(region->number) : : "memory", "cc");
    return number + 1;
  }
#endif
  return atomic_fetch_add(&region->number, 1) + 1;
}

static bool put(struct ring *ring, uint64_t *until, enum op op, uint64_t address, uint64_t size) {
  uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  if (__builtin_expect(head == *until, 0) && !make_room(ring, head, until)) return false;
  struct event *event = events_of(ring) + head % RING_EVENTS;
  uint64_t number = next_number();
  address = LOW_BITS(address >> ADDRESS_SHIFT, ADDRESS_BITS);
  event->address = address | (uint64_t)op << ADDRESS_BITS | number << (64 - NUMBER_LOW_BITS);
  event->size = size | number >> NUMBER_LOW_BITS << SIZE_BITS;
  atomic_store_explicit(&ring->head, head + 1, memory_order_release);
  return true;
}

/* What is still allocated where the program ends, hak knows, and how much of that is resident it can see for as long as
 * this waits. */
static __attribute__((noinline, cold)) void await_last_look(void) {
  int saved = errno;
  atomic_store(&region->last_look, LOOK_ASKED);
  do {
    wake_reader();
    futex(&region->last_look, FUTEX_WAIT, LOOK_ASKED, &(struct timespec){.tv_nsec = 50 * 1000 * 1000});
  } while (atomic_load(&region->last_look) == LOOK_ASKED && atomic_load(&region->stopped) == 0 && !is_reader_gone());
  errno = saved;
}

/* What does not fit into an event, in one that comes before it. */
static __attribute__((noinline, cold)) bool put_more(struct ring *ring, uint64_t *until, enum op op, uint64_t number) {
  return put(ring, until, op, number << ADDRESS_SHIFT, number >> ADDRESS_BITS);
}

static inline __attribute__((always_inline)) bool put_call(struct ring *ring, uint64_t *until, enum op op,
                                                           uint64_t address, uint64_t size, uint64_t alignment) {
  if (op == OP_ALIGNED && !put_more(ring, until, OP_ALIGNMENT, alignment)) return false;
  if (__builtin_expect(size >> SIZE_BITS != 0, 0)) {
    if (!put_more(ring, until, OP_SIZE, size)) return false;
    size = 0;
  }
  return put(ring, until, op, address, size);
}

/* A ring that nobody has, for the calling thread, which is said in it. */
static struct ring *take_ring(uint64_t *until) {
  uint32_t id = (uint32_t)syscall(SYS_gettid), first = id % RING_COUNT;
  for (uint32_t i = 0; i < RING_COUNT; i++) {
    struct ring *ring = ring_at((first + i) % RING_COUNT);
    uint32_t nobody = 0;
    if (atomic_load_explicit(&ring->owner, memory_order_relaxed) != 0) continue;
    if (!atomic_compare_exchange_strong(&ring->owner, &nobody, id)) continue;
    *until = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (put(ring, until, OP_THREAD, 0, id)) return ring;
    atomic_store(&ring->owner, 0);
    return NULL;
  }
  atomic_fetch_add(&region->lost, 1);
  return NULL;
}

static void give_ring(struct ring *ring) { atomic_store_explicit(&ring->owner, 0, memory_order_release); }

/* Later destructors may allocate, each event by a ring that it takes and gives back. */
static void thread_ends(void *unused) {
  (void)unused;
  struct ring *ring = mine;
  has_ended = true;
  mine = NULL;
  if (ring != NULL && atomic_load(state) == STATE_ON) give_ring(ring);
}

/* "PARENT:DESCRIPTOR", if it is for this process. */
static int open_region(void) {
  extern char **environ;
  const char *text = environ != NULL ? getenv("HAK_TRACE") : NULL;
  char *end, path[64];
  if (text == NULL) return -1;
  long parent = strtol(text, &end, 10);
  if (*end != ':' || parent != getppid()) return -1;
  long descriptor = strtol(end + 1, &end, 10);
  if (*end != '\0') return -1;
  reader = (pid_t)parent, own = getpid();
  snprintf(path, sizeof path, "/proc/%ld/fd/%ld", parent, descriptor);
  return open(path, O_RDWR | O_CLOEXEC);
}

static void *map(int descriptor, size_t bytes, int flags) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  return at != MAP_FAILED ? at : NULL;
}

/* NULL if it is not for this process, or cannot be mapped. The first page is mapped by itself before: where a limit
 * does not allow the rest, that can be said in it. */
static struct region *map_region(int descriptor) {
  struct region *all = NULL, *header = map(descriptor, HEADER_BYTES, MAP_SHARED);
  if (header == NULL) return NULL;
  if (header->magic == RING_MAGIC && header->version == RING_VERSION && atomic_load(&header->traced) == (uint32_t)own) {
    all = map(descriptor, REGION_BYTES, MAP_SHARED | MAP_NORESERVE);
    if (all == NULL) atomic_store(&header->failure, (uint32_t)errno);
  }
  munmap(header, HEADER_BYTES);
  return all;
}

/*
 * What the process becomes by exec may be unable to record, and to say so: another user's, static, or without this
 * library. But exec sets all signals that are caught back, and whether one is caught can be read even of a process
 * that has ended. So this catches one that programs cannot: the first real-time signal, which the C library keeps for
 * itself, and whose own handler for it, set by the first pthread_cancel, is as good.
 */
static void end_as_without(int signal) {
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal); /* it is caught once only: this ends the process */
}
static void set_mark(void) {
  enum { SIGNAL = 32, RESTORER = 0x04000000 };
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(int); /* x86 demands one; end_as_without never returns to it */
    uint64_t mask;
  } old, new = {.handler = end_as_without, .flags = SA_NODEFER | SA_RESETHAND};
#ifdef __x86_64__
  new.flags |= RESTORER;
  new.restorer = end_as_without;
#endif
  bool is_known = syscall(SYS_rt_sigaction, SIGNAL, NULL, &old, sizeof new.mask) == 0;
  if (is_known && (old.handler == SIG_DFL || old.handler == SIG_IGN))
    is_known = syscall(SYS_rt_sigaction, SIGNAL, &new, NULL, sizeof new.mask) == 0;
  atomic_store(&region->mark, is_known ? SIGNAL : 0);
}

/* By the first call, while there is one thread. */
static void start(void) {
  extern char **environ;
  if (environ == NULL) return; /* too early: the next call */
  int saved = errno;
  atomic_store(state, STATE_OFF);
  int descriptor = open_region();
  if (descriptor >= 0) {
    _Atomic uint32_t *page = map(-1, (size_t)sysconf(_SC_PAGESIZE), MAP_PRIVATE | MAP_ANONYMOUS);
    int why = errno;
    region = map_region(descriptor);
    close(descriptor);
    if (region != NULL && page != NULL && madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0) {
      why = errno;
      page = NULL;
    }
    if (region != NULL) {
      if (page != NULL) {
        atomic_store(page, STATE_ON);
        state = page;
        has_key = pthread_key_create(&thread_key, thread_ends) == 0;
        /* exec has ended the threads of what this was before. */
        for (uint32_t i = 0; i < RING_COUNT; i++)
          if (atomic_load(&ring_at(i)->owner) != 0) give_ring(ring_at(i));
        is_recording = true;
        mine = take_ring(&room_until);
        if (mine != NULL) put(mine, &room_until, OP_IMAGE, 0, 0);
        is_recording = false;
        set_mark();
        atomic_fetch_add(&region->images, 1);
      } else {
        atomic_store(&region->failure, (uint32_t)why);
      }
    }
  }
  errno = saved;
}

/* The calling thread has no ring, or is interrupted while it writes into it. */
static __attribute__((noinline, cold)) void record_elsewhere(enum op op, uint64_t address, uint64_t size,
                                                             uint64_t alignment) {
  int saved = errno;
  uint64_t until;
  if (!is_recording && !has_ended && has_key) {
    is_recording = true;
    mine = take_ring(&room_until);
    if (mine != NULL) put_call(mine, &room_until, op, address, size, alignment);
    is_recording = false;
    /* For its destructor; any value. This may allocate, which is recorded like any other. */
    if (mine != NULL) pthread_setspecific(thread_key, &thread_key);
  } else {
    struct ring *ring = take_ring(&until);
    if (ring != NULL) {
      put_call(ring, &until, op, address, size, alignment);
      give_ring(ring);
    }
  }
  errno = saved;
}

static inline __attribute__((always_inline)) bool is_on(void) {
  uint32_t now = atomic_load_explicit(state, memory_order_relaxed);
  if (__builtin_expect(now == STATE_NEW, 0)) {
    start();
    now = atomic_load_explicit(state, memory_order_relaxed);
  }
  return now == STATE_ON;
}

/* The program's errno is its own: what waits in here saves it. An event may need three places, see `put_call`. */
static inline __attribute__((always_inline)) void record(enum op op, const void *block, uint64_t size,
                                                         uint64_t alignment) {
  uint64_t address = (uint64_t)(uintptr_t)block;
  if (!is_on()) return;
  if (__builtin_expect(mine == NULL || is_recording, 0)) {
    record_elsewhere(op, address, size, alignment);
    return;
  }
  is_recording = true;
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(room_until - atomic_load_explicit(&mine->head, memory_order_relaxed) < 3, 0)) {
    int saved = errno;
    put_call(mine, &room_until, op, address, size, alignment);
    errno = saved;
  } else {
    put_call(mine, &room_until, op, address, size, alignment);
  }
  atomic_signal_fence(memory_order_seq_cst);
  is_recording = false;
}

#endif
