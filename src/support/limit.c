/* See limit.h. SPDX-License-Identifier: MIT */
#include "limit.h"

#define NONE UINT64_MAX

enum {
  LOOK_BYTES = 16 * 1024 * 1024, /* the container's limit is asked for: to this most processes never come */
  NEAR_SHARE = 10,               /* of a limit, which are left when the heap is near it                   */
  LEFT_SHARE = 4,                /* of what is left then, which may be slack                              */
  SLACK_SHARE = 32,              /* of what is charged beside it, which may be slack anyway               */
  SQUEEZE_SHARE = 32,            /* of that: when it has grown by so much, the heap is squeezed again     */
  FALL_SHARE = 4,                /* below being near: when it has fallen by so much, the next time is a first */
};

atomic32 limit_passed;
atomic64 limit_near_any = {NONE};

/* Relaxed: see limit.h. Every run that comes or goes writes to `charged`, so nothing that is only read lies
 * beside it. */
static struct { atomic64 bytes; } __attribute__((aligned(HAK_CACHE_LINE))) charged;
static atomic64 hard = {NONE}, look_at = {LOOK_BYTES};
/* The slack when somebody watched last, and what was charged without it; from where on to squeeze. */
static atomic64 slack, needed, squeeze_at = {NONE};
static atomic64 soft_bytes, container_bytes; /* as they were told */

const inspect_field_t limit_inspected[4] = {
    HAK_INSPECT_VARIABLE("hard_limit", hard),
    HAK_INSPECT_VARIABLE("soft_limit", soft_bytes),
    HAK_INSPECT_VARIABLE("container_limit", container_bytes),
    HAK_INSPECT_VARIABLE("charged", charged.bytes),
};

static uint64_t load(const atomic64 *value) { return atomic64_load_relaxed(value); }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t above(uint64_t bytes, uint64_t more) { return more > NONE - bytes ? NONE : bytes + more; }

/* ---- Charging --------------------------------------------------------------------*/
static void look_at_mark(uint64_t now) {
  if (HAK_UNLIKELY(now >= load(&look_at))) atomic32_store_relaxed(&limit_passed, 1);
}

bool limit_charge(size_t bytes) {
  uint64_t before = load(&charged.bytes);
  do {
    if (above(before, bytes) > load(&hard)) return false;
  } while (!atomic64_cas_relaxed(&charged.bytes, &before, before + bytes));
  look_at_mark(before + bytes);
  return true;
}

void limit_charge_anyway(size_t bytes) { look_at_mark(atomic64_add_relaxed(&charged.bytes, bytes) + bytes); }

void limit_credit(size_t bytes) { atomic64_add_relaxed(&charged.bytes, (uint64_t)-bytes); }

size_t limit_charged(void) { return load(&charged.bytes); }
bool limit_allows(size_t bytes) { return above(load(&charged.bytes), bytes) <= load(&hard); }
bool limit_is_hard(void) { return load(&hard) != NONE; }
bool limit_could_ever_allow(size_t bytes) { return bytes <= load(&hard); }

/* ---- Being near --------------------------------------------------------------------*/
bool limit_is_near(size_t more_bytes) {
  uint64_t from = load(&limit_near_any);
  return from != NONE && above(load(&needed), more_bytes) >= from;
}

bool limit_is_tight(void) { return load(&charged.bytes) >= load(&limit_near_any); }

size_t limit_slack(void) {
  uint64_t from = load(&limit_near_any), fixed = load(&needed), end = from + from / (NEAR_SHARE - 1);
  if (from == NONE) return SIZE_MAX;
  uint64_t of_the_rest = end > fixed ? least(end - fixed, end - from) / LEFT_SHARE : 0;
  uint64_t below = from > fixed ? from - fixed : 0;
  return max_size(max_size(of_the_rest, below), fixed / SLACK_SHARE);
}

bool limit_allows_huge_pages(size_t more_bytes) { return !limit_is_hard() && !limit_is_near(more_bytes); }

/* ---- The limits ----------------------------------------------------------------------*/

/* Charged bytes from which on the heap is near that limit. */
static uint64_t near_from(uint64_t bytes) { return bytes == 0 || bytes == NONE ? NONE : bytes - bytes / NEAR_SHARE; }

static uint64_t nearest_now(void) {
  uint64_t told = least(near_from(atomic64_load_seq(&soft_bytes)), near_from(atomic64_load_seq(&container_bytes)));
  return least(near_from(atomic64_load_seq(&hard)), told);
}

/* Sequentially consistent, as those who call this have stored their limit: of two at a time, the last one to look
 * sees both, and whose stores came too late looks again (tests/model/weak/src/protocols/limits.rs). */
static void combine(void) {
  uint64_t nearest;
  do {
    nearest = nearest_now();
    atomic64_store_seq(&limit_near_any, nearest);
    uint64_t now = load(&needed), next = now + now / SQUEEZE_SHARE;
    if (now < nearest) atomic64_store_seq(&squeeze_at, nearest);
    else if (load(&squeeze_at) > next) atomic64_store_seq(&squeeze_at, next);
  } while (nearest != nearest_now());
}

void limit_set_hard(size_t bytes) {
  atomic64_store_seq(&hard, bytes == 0 ? NONE : bytes);
  combine();
}

void limit_set_soft(size_t bytes) {
  atomic64_store_seq(&soft_bytes, bytes);
  combine();
}

void limit_set_container(size_t bytes) {
  atomic64_store_seq(&container_bytes, bytes);
  combine();
}

limits_t limits_now(void) {
  return (limits_t){.hard = limit_is_hard() ? load(&hard) : 0,
                    .soft = load(&soft_bytes),
                    .container = load(&container_bytes),
                    .charged = load(&charged.bytes)};
}

/* ---- Marks ---------------------------------------------------------------------------*/
void limit_watch(size_t slack_bytes) {
  atomic64_store_relaxed(&slack, slack_bytes);
  limit_watch_again();
}

void limit_watch_again(void) {
  uint64_t sum = load(&charged.bytes), without = load(&slack), now = sum > without ? sum - without : 0;
  uint64_t from = load(&limit_near_any);
  atomic64_store_relaxed(&needed, now);
  if (now >= load(&squeeze_at)) atomic32_store_relaxed(&limit_passed, 1);
  else if (now < from - from / FALL_SHARE && load(&squeeze_at) != from) atomic64_store_relaxed(&squeeze_at, from);
}

limit_answer_t limit_answer(void) {
  limit_answer_t answer = {0};
  if (atomic32_exchange_relaxed(&limit_passed, 0) == 0) return answer;
  uint64_t now = load(&needed);
  answer.squeeze = now >= load(&squeeze_at);
  answer.look = load(&charged.bytes) >= load(&look_at);
  if (answer.squeeze) atomic64_store_relaxed(&squeeze_at, now + now / SQUEEZE_SHARE + 1);
  if (answer.look) atomic64_store_relaxed(&look_at, NONE);
  return answer;
}
