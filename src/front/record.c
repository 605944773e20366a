/* See record.h. SPDX-License-Identifier: MIT */
#include "record.h"

#include "../arena/metadata.h"
#include "../os/os.h"
#include "../support/config.h"

#include <errno.h>
#include <string.h>

/* All of it in one piece, of which only what is used is ever touched. */
typedef struct {
  record_event_t events[RECORD_EVENTS];
  record_stack_t stacks[RECORD_STACKS];
  atomic64 watched[RECORD_WATCHED];
  atomic8 filter[RECORD_FILTER];
} record_t;
enum { WINDOW = HAK_CACHE_LINE / sizeof(atomic64), PAGE_WINDOWS = 4096 / HAK_CACHE_LINE, NEAR = HAK_MIB(4) };
static_assert(sizeof(record_t) <= HAK_MIB(8), "of a power of two");

record_control_t record_control;
static record_t *the_record;                             /* release when it is made: pairs with record_now */
static atomic64 event_count, stack_count, dropped_count; /* relaxed: events' own numbers order them */
static atomic32 is_ending;

static record_t *record_now(void) { return __atomic_load_n(&the_record, __ATOMIC_ACQUIRE); }

/* No gate: whoever holds it may wait for one, and so it may be held in a forked child, by nobody. */
static hak_lock_t lock;

bool record_prepare(void) {
  if (record_now() != NULL) return true;
  /* Only a signal handler can find it taken by its own thread; and who holds it may wait for one that forks. Then there
   * are no samples for now. */
  if (lock_is_mine(&lock) || gates_are_held_by_this_fork()) return false;
  lock_acquire(&lock);
  /* Never given back, so nobody else has written to an array of that size: it is zero. */
  if (record_now() == NULL) __atomic_store_n(&the_record, metadata_take(HAK_MIB(8)), __ATOMIC_RELEASE);
  lock_release(&lock);
  return record_now() != NULL;
}

void record_start(uint64_t mean_bytes) { atomic64_store_relaxed(&record_control.mean_bytes, mean_bytes); }

/* ---- Chance ------------------------------------------------------------------------*/

/* A number between 0 and 1, exclusive, of 2^52. SplitMix64: a counter, well mixed, so that threads
 * need no state of their own. */
static double random_fraction(void) {
  static atomic64 counter;
  uint64_t z = atomic64_add_relaxed(&counter, 0x9E3779B97F4A7C15u) + (uintptr_t)&counter;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return ((double)(z >> 12) + 0.5) / (double)((uint64_t)1 << 52);
}

/* The natural logarithm, without a library of mathematics: that of the power of two, and a row
 * in z = (m - 1) / (m + 1), |z| <= 1/3, for the rest; exact to nine digits. */
static double logarithm(double x) {
  int exponent = 0;
  for (; x < 1.0; x *= 2) exponent--;
  double z = (x - 1) / (x + 1), square = z * z, sum = 0;
  for (int k = 17; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * z * sum;
}

uint64_t record_draw(uint64_t mean_bytes) { return (uint64_t)(-logarithm(random_fraction()) * (double)mean_bytes); }

/* ---- Stacks ------------------------------------------------------------------------*/

/* Words of the stack are the thread's, whatever a sanitizer has put between its variables. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void copy_words(uint64_t *to,
                                                                                      const uint64_t *from,
                                                                                      size_t words) {
  for (size_t i = 0; i < words; i++) to[i] = HAK_LOOK(from[i]);
}

/* What lies on the stack from `from` on, as far as it can be the stack. That of the first thread is there for ever, and
 * the system keeps others from being mapped close below it. Any other may be of the program's own making, and behind it
 * others map and unmap: beyond the page that is in use the system copies, as far as there is anything. Beyond the
 * thread's own variables are no frames, wherever these lie: in threads at the end of the stack. */
enum { SURELY_FIRST = 64 * 1024 };
static size_t copy_stack(uint64_t *to, uintptr_t from, size_t most) {
  /* Huge where that is no end of this stack. */
  size_t until_end = os_first_stack_end() - from, until_own = (uintptr_t)&errno - from;
  most = min_size(most, align_down(min_size(until_end, until_own), sizeof *to));
  size_t in_page = align_up(from + 1, os_page_bytes()) - from;
  size_t at_hand = until_end <= SURELY_FIRST ? most : min_size(in_page, most);
  copy_words(to, (const uint64_t *)from, at_hand / sizeof *to);
  if (at_hand == most) return most;
  return at_hand + os_copy_readable((char *)to + at_hand, (const char *)from + at_hand, most - at_hand);
}

/* The registers that lead from here to the caller, and where that was. x86-64: rsp, rbp; aarch64: sp, x29,
 * x30. */
static HAK_NOINLINE void fill(record_stack_t *stack) {
  uint64_t *r = stack->registers;
#if defined(__x86_64__)
  __asm__ volatile("movq %%rsp, 0(%1)\n movq %%rbp, 8(%1)\n leaq 0(%%rip), %0" : "=&r"(stack->pc) : "r"(r) : "memory");
#elif defined(__aarch64__)
  uint64_t here;
  __asm__ volatile("mov %0, sp\n str %0, [%1]\n stp x29, x30, [%1, 8]\n adr %0, ." : "=&r"(here) : "r"(r) : "memory");
  stack->pc = here;
#endif
  stack->bytes = copy_stack(stack->contents, r[0], sizeof stack->contents);
}

/* ---- The rings ------------------------------------------------------------------------*/

/* Takes an event's number, if there is a place for it. Acquire: pairs with the reader, who has read what lies there. */
static bool event_number_take(uint64_t *number) {
  *number = atomic64_load_relaxed(&event_count);
  do {
    if (*number - atomic64_load_acquire(&record_control.drained) >= RECORD_EVENTS) return false;
  } while (!atomic64_cas_relaxed(&event_count, number, *number + 1));
  return true;
}
/* Takes a stack's. Where all have been read it is that of the first place again, and those before it are
 * nobody's: so no more places are ever touched than wait for the reader at a time. `stacks_begun`, which may be
 * older: everything before it was read, or is nobody's. Acquire: as above, and pairs with the release of who
 * has seen that. */
static bool stack_number_take(uint64_t *number) {
  static atomic64 stacks_begun;
  uint64_t was = atomic64_load_relaxed(&stack_count), drained;
  do {
    drained = atomic64_load_acquire(&record_control.stacks_drained);
    if (was - max_size(drained, atomic64_load_acquire(&stacks_begun)) >= RECORD_STACKS) return false;
    *number = was == drained ? align_up(was, RECORD_STACKS) : was;
  } while (!atomic64_cas_relaxed(&stack_count, &was, *number + 1));
  if (was == drained) atomic64_store_release(&stacks_begun, *number);
  return true;
}
/* Whether the place is the caller's, who has taken the number. */
static bool place_take(atomic64 *number, uint64_t mine) {
  uint64_t was = atomic64_load_relaxed(number);
  return was <= mine && atomic64_cas_acquire(number, &was, RECORD_BUSY);
}
/* Release: who reads the number from outside reads what was written before. */
static void place_leave(atomic64 *number, uint64_t mine) { atomic64_store_release(number, mine + 1); }

/* The reader is gone without a word. When it was last seen is written before what of it was seen. */
static void check_reader(uint64_t now_ms) {
  static atomic32 beat;
  static atomic64 beat_ms;
  uint32_t now = atomic32_load_relaxed(&record_control.beat);
  if (now != atomic32_load_acquire(&beat) || atomic64_load_relaxed(&beat_ms) == 0) { /* pairs with the release */
    atomic64_store_relaxed(&beat_ms, now_ms);
    atomic32_store_release(&beat, now);
  } else if (now_ms > atomic64_load_relaxed(&beat_ms) + RECORD_LEASE_MS) {
    atomic64_store_relaxed(&record_control.mean_bytes, 0);
    atomic64_store_relaxed(&beat_ms, 0);
  }
}

static uint64_t take_stack(record_t *record) {
  uint64_t number;
  if (!stack_number_take(&number)) return 0;
  record_stack_t *stack = &record->stacks[number % RECORD_STACKS];
  if (!place_take(&stack->number, number)) return 0;
  fill(stack);
  place_leave(&stack->number, number);
  return number + 1;
}

static bool add_event(record_t *record, record_event_t event) {
  uint64_t number;
  record_event_t *place = NULL;
  if (event_number_take(&number)) place = &record->events[number % RECORD_EVENTS];
  if (place == NULL || !place_take(&place->number, number)) {
    atomic64_add_relaxed(&dropped_count, 1);
    return false;
  }
  memcpy(&place->kind, &event.kind, sizeof event - offsetof(record_event_t, kind));
  place_leave(&place->number, number);
  return true;
}

/* ---- What is watched ---------------------------------------------------------------*/
static atomic8 *count_of(record_t *record, const void *block) { return &record->filter[record_filter_place(block)]; }
const atomic8 *record_filter(void) { return record_now()->filter; }
/* One that has ever been full stays so: nobody knows then how many there are. */
static void count_add(atomic8 *count, int change) {
  uint8_t was = atomic8_load_relaxed(count);
  while (was != UINT8_MAX && !atomic8_cas_relaxed(count, &was, (uint8_t)(was + change))) {}
}
static uint64_t mixed(uint64_t number) { return number * 0x9E3779B97F4A7C15u >> 32; }
static atomic64 *window_at(record_t *record, uint64_t number) {
  return &record->watched[number % (RECORD_WATCHED / WINDOW) * WINDOW];
}
/* Blocks that lie near each other have a page in common, of which they get half of each window, so that a small heap's
 * samples touch few pages. Where that is full, it is anywhere. */
static atomic64 *near_window_of(record_t *record, const void *block) {
  uint64_t page = mixed((uintptr_t)block / NEAR) * PAGE_WINDOWS;
  return window_at(record, page + mixed((uintptr_t)block >> 4) % PAGE_WINDOWS);
}
static atomic64 *window_of(record_t *record, const void *block) {
  return window_at(record, mixed((uintptr_t)block >> 4));
}
static bool replace(atomic64 *places, unsigned count, uint64_t old, uint64_t new) {
  for (unsigned i = 0; i < count; i++) {
    uint64_t was = old;
    if (atomic64_load_relaxed(&places[i]) == old && atomic64_cas_relaxed(&places[i], &was, new)) return true;
  }
  return false;
}
static bool replace_for(record_t *record, const void *block, uint64_t old, uint64_t new) {
  return replace(near_window_of(record, block), WINDOW / 2, old, new) ||
         replace(window_of(record, block), WINDOW, old, new);
}
/* Relaxed: what hands the block over orders it. false: there is no room. */
static bool watch(record_t *record, void *block) {
  if (!replace_for(record, block, 0, (uintptr_t)block)) return false;
  count_add(count_of(record, block), 1);
  return true;
}

static bool forget(void *block) {
  record_t *record = record_now();
  if (record == NULL || HAK_LIKELY(atomic8_load_relaxed(count_of(record, block)) == 0)) return false;
  if (!replace_for(record, block, (uintptr_t)block, 0)) return false;
  count_add(count_of(record, block), -1);
  return true;
}

/* ---- Samples --------------------------------------------------------------------------*/
static void note_allocated(void *block, size_t bytes, uint64_t mean_bytes) {
  record_t *record = record_now();
  uint64_t now_ms = os_now_ms();
  check_reader(now_ms);
  if (!watch(record, block)) {
    atomic64_add_relaxed(&dropped_count, 1);
    return;
  }
  bool is_told = add_event(record, (record_event_t){.kind = RECORD_ALLOCATED,
                                                    .thread_id = os_thread_id(),
                                                    .block = (uintptr_t)block,
                                                    .bytes = bytes,
                                                    .mean_bytes = mean_bytes,
                                                    .stack = take_stack(record),
                                                    .time_ms = now_ms});
  if (!is_told) forget(block);
}

HAK_COLD void record_allocated(void *block, size_t bytes, uint64_t mean_bytes) {
  int saved_errno = errno; /* no call that a sample makes is the program's */
  if (record_prepare()) note_allocated(block, bytes, mean_bytes);
  errno = saved_errno;
}

void record_freed(void *block) {
  if (!forget(block)) return;
  add_event(record_now(),
            (record_event_t){
                .kind = RECORD_FREED, .thread_id = os_thread_id(), .block = (uintptr_t)block, .time_ms = os_now_ms()});
}

void record_lone(void *block, size_t bytes) {
  uint64_t mean = record_mean();
  if (mean != 0 && record_draw(mean) < bytes) record_allocated(block, bytes, mean);
}

/* ---- The end, and forks -----------------------------------------------------------------*/
enum { NAP_MS = 2 };
void record_finish(void) {
  if (record_mean() == 0 || record_now() == NULL) return;
  /* Nobody has ever read, nor has whoever started the process said that he will. */
  if (atomic32_load_relaxed(&record_control.beat) == 0 && config()->sample_parent == 0) return;
  atomic32_store_release(&is_ending, 1);
  /* The second beat from now is of a round that has begun after this was said. */
  uint32_t beat = atomic32_load_relaxed(&record_control.beat);
  for (int ms = 0; ms < RECORD_EXIT_MS && record_mean() != 0; ms += NAP_MS) {
    bool is_read = atomic64_load_relaxed(&record_control.drained) >= atomic64_load_relaxed(&event_count);
    if (is_read && atomic32_load_relaxed(&record_control.beat) - beat >= 2) return;
    os_sleep(NAP_MS);
  }
}

void record_after_fork(void) {
  atomic64_store_relaxed(&record_control.mean_bytes, 0);
  atomic32_store_relaxed(&record_control.reader, 0);
  atomic32_store_relaxed(&lock.state, 0);
}

#define NUMBER(name, number) HAK_INSPECT_NUMBER("sample." name, number)
#define VARIABLE(name, variable) HAK_INSPECT_VARIABLE("sample." name, variable)
#define EVENT(member) HAK_INSPECT_MEMBER("sample.event." #member, record_event_t, member)
#define STACK(member) HAK_INSPECT_MEMBER("sample.stack." #member, record_stack_t, member)
const inspect_field_t record_inspected[36] = {
    NUMBER("events", RECORD_EVENTS),
    NUMBER("stacks", RECORD_STACKS),
    NUMBER("watched", RECORD_WATCHED),
    NUMBER("filter", RECORD_FILTER),
    NUMBER("mean_most", RECORD_MEAN_MOST),
    NUMBER("allocated", RECORD_ALLOCATED),
    NUMBER("freed", RECORD_FREED),
    NUMBER("event_bytes", sizeof(record_event_t)),
    NUMBER("stack_bytes", sizeof(record_stack_t)),
    NUMBER("at.events", offsetof(record_t, events)),
    NUMBER("at.stacks", offsetof(record_t, stacks)),
    NUMBER("at.watched", offsetof(record_t, watched)),
    NUMBER("at.filter", offsetof(record_t, filter)),
    VARIABLE("record", the_record),
    VARIABLE("mean_bytes", record_control.mean_bytes),
    VARIABLE("drained", record_control.drained),
    VARIABLE("stacks_drained", record_control.stacks_drained),
    VARIABLE("stack_count", stack_count),
    VARIABLE("beat", record_control.beat),
    VARIABLE("reader", record_control.reader),
    VARIABLE("event_count", event_count),
    VARIABLE("dropped_count", dropped_count),
    VARIABLE("is_ending", is_ending),
    EVENT(number),
    EVENT(kind),
    EVENT(thread_id),
    EVENT(block),
    EVENT(bytes),
    EVENT(mean_bytes),
    EVENT(stack),
    EVENT(time_ms),
    STACK(number),
    STACK(bytes),
    STACK(pc),
    HAK_INSPECT_MEMBERS("sample.stack.registers", record_stack_t, registers[0], RECORD_REGISTERS, sizeof(uint64_t)),
    HAK_INSPECT_MEMBERS("sample.stack.contents", record_stack_t, contents[0], 1, 0),
};
