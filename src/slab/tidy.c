/* See tidy.h. SPDX-License-Identifier: MIT */
#include "tidy.h"

#include "../base/probe.h"
#include "../os/os.h"
#include "../support/profile.h"
#include "claim.h"
#include "depot.h"
#include "orphanage.h"
#include "pool.h"
#include "purge.h"
#include "remote.h"
#include "slab.h"

/* Of one tidy_some: some microseconds where nothing waits, some tenths of a
 * millisecond where much does. The gate is open to others after every step. */
enum { TIDY_OWNERS = 64, TIDY_ROUND_MS = 50, STEP_SLABS = 128 };

/* Where tidy_some goes on. Guarded by the pool's gate. */
static struct {
  uint32_t next;         /* owners before it have had their turn in this round          */
  atomic64 ended_ms;     /* when the last round ended; read without the gate            */
  atomic64 idle_from_ms; /* when the last of those that were at work of late may be visited; the same */
} turn;

/* Collects and releases a bounded amount. Returns whether there may be more. */
static bool collect_step(owner_t *owner) {
  remote_post(owner);
  size_t collected = remote_has_pending(owner) ? remote_collect(owner, STEP_SLABS) : 0;
  slab_release_empty(owner);
  return collected == STEP_SLABS;
}

/* A few calls to the system at a time, as long as nobody sleeps at the gate, or waits for the claim. */
static void purge_some(owner_t *owner, uint64_t now_ms) {
  enum { CALLS = 8 };
  for (size_t calls = 0; calls < PURGE_STEP_CALLS; calls += CALLS)
    if (purge_idle_step(owner, now_ms, CALLS) == 0 || gate_is_awaited(&pool_gate) || claim_is_awaited(owner)) break;
}

static bool tidy_step(owner_t *owner, uint64_t now_ms) {
  if (collect_step(owner)) return true;
  purge_some(owner, now_ms);
  return purge_is_under_way(owner);
}

/* Whether the thread has not run since the last call of this. */
static bool has_slept(owner_t *owner) {
  uint64_t before = owner->seen_time_ns;
  return os_thread_time(owner->thread_id, &owner->seen_time_ns) && owner->seen_time_ns == before;
}

/* Since when, as far as we have seen, nothing has moved between its magazines and slabs. A
 * thread that comes back soon after it was served pays for that: the next time it may be
 * idle for twice as long, unless it has been away for good. */
static uint64_t unused_since_ms(owner_t *owner, uint64_t now_ms) {
  enum { SOON_MS = 4000, LONG_MS = 10000, SHIFT_MOST = 6 };
  uint64_t activity = owner_activity(owner);
  if (activity == owner->seen_activity) return owner->seen_ms;
  if (owner->served_ms != 0) {
    uint64_t away_ms = now_ms - owner->served_ms;
    if (away_ms < SOON_MS && owner->idle_shift < SHIFT_MOST) owner->idle_shift++;
    if (away_ms >= LONG_MS) owner->idle_shift = 0;
    owner->served_ms = 0;
  }
  owner->seen_activity = activity;
  owner->idle_visits = owner->vain_tries = 0;
  return owner->seen_ms = now_ms;
}

static tidied_t tidy_pooled(owner_t *owner, uint64_t now_ms, tidy_flush_fn *flush) {
  enum { WARM_MS = 500 };
  if (owner->is_warm && now_ms < unused_since_ms(owner, now_ms) + profile_wait(WARM_MS)) return TIDY_NOTHING;
  pool_cool(owner);
  owner_enter(owner);
  bool worked = (flush != NULL && flush(owner)) || tidy_step(owner, now_ms);
  pool_note(owner);
  owner_leave(owner);
  return worked ? TIDY_MORE : TIDY_NOTHING;
}

static void note_idle_from(uint64_t ms) {
  if (ms > atomic64_load_relaxed(&turn.idle_from_ms)) atomic64_store_relaxed(&turn.idle_from_ms, ms);
}
bool tidy_is_to_come(uint64_t now_ms) { return now_ms < atomic64_load_relaxed(&turn.idle_from_ms); }

/* What a thread leaves undone that is at a batch boundary now and then. The owner is claimed. */
static tidied_t help(owner_t *owner, uint64_t now_ms) {
  purge_some(owner, now_ms);
  bool has_more = purge_is_under_way(owner);
  if (!has_more) purge_has_help(owner);
  claim_end(owner);
  return has_more ? TIDY_MORE : TIDY_DONE;
}

/* A thread that works at batch boundaries does this itself. A visit costs a fence or
 * several: where a few have found nothing to do, only what others free for the owner is
 * reason for another. */
static tidied_t tidy_attached(owner_t *owner, uint64_t now_ms, tidy_flush_fn *strip) {
  enum { IDLE_MS = 100, IDLE_VISITS = 24 };
  if (purge_wants_help(owner) && claim_begin(owner) == CLAIMED) return help(owner, now_ms);
  uint64_t since_ms = unused_since_ms(owner, now_ms);
  /* The last thread left has to be done with before the background thread ends. */
  unsigned shift = pool_attached_count() > 1 ? owner->idle_shift : 0;
  uint64_t idle_from_ms = since_ms + (profile_wait(IDLE_MS) << shift);
  if (since_ms == now_ms) has_slept(owner); /* from here on */
  if (atomic32_load_relaxed(&owner->pending.head) != 0 || atomic64_load_relaxed(&owner->pending.mail) != 0)
    owner->idle_visits = 0;
  if (owner->idle_visits == IDLE_VISITS) return TIDY_NOTHING;
  if (now_ms < idle_from_ms) {
    note_idle_from(idle_from_ms);
    return TIDY_NOTHING;
  }
  bool sleeps = has_slept(owner);
  if (sleeps) pool_make_orphanage(owner);
  if (owner->vain_tries == IDLE_VISITS) return TIDY_NOTHING;
  claimed_t claimed = claim_begin(owner);
  if (claimed == CLAIM_BUSY) return TIDY_NOTHING;
  if (claimed != CLAIMED) {
    owner->vain_tries++;
    if (claimed == CLAIM_RUNS) note_idle_from(now_ms + profile_wait(IDLE_MS)); /* nobody rings when it stops */
    return TIDY_NOTHING;
  }
  owner->vain_tries = 0;
  int64_t free_before = owner->free_bytes;
  bool worked = strip != NULL && strip(owner);
  /* It takes two looks to see that a thread does not use its magazines; this one cannot have. */
  if (sleeps && strip != NULL && !worked) worked = strip(owner);
  if (sleeps && owner->outbox_count > 0) {
    remote_flush(owner);
    worked = true;
  }
  worked = tidy_step(owner, now_ms) || worked;
  if (!worked && sleeps) worked = orphanage_disown(owner);
  owner->seen_activity = owner_activity(owner); /* what we have flushed is not the thread's doing */
  owner->idle_visits = worked ? 0 : owner->idle_visits + 1;
  if (owner->free_bytes != free_before) owner->served_ms = now_ms;
  claim_end(owner);
  HAK_PROBE(tidy, owner->id, sleeps, worked);
  return worked ? TIDY_MORE : TIDY_DONE;
}

/* The gate is held. `self`: the calling thread's number. */
static tidied_t tidy_owner(owner_t *owner, uint32_t self, uint64_t now_ms, tidy_flush_fn *flush, tidy_flush_fn *strip) {
  if (owner->state == OWNER_POOLED) return tidy_pooled(owner, now_ms, flush);
  bool is_anothers = owner->state == OWNER_ATTACHED && owner->thread_id != self;
  return is_anothers ? tidy_attached(owner, now_ms, strip) : TIDY_NOTHING;
}

tidied_t tidy_some(uint64_t now_ms, tidy_flush_fn *flush, tidy_flush_fn *strip) {
  uint32_t made = pool_owner_count();
  if (made == 0) return TIDY_NOTHING;
  if (depot_tick(now_ms)) return TIDY_MORE;
  if (now_ms < atomic64_load_relaxed(&turn.ended_ms) + TIDY_ROUND_MS) return TIDY_NOTHING;
  uint32_t self = os_thread_id();
  bool ends = false;
  tidied_t tidied = TIDY_NOTHING;
  for (uint32_t looked = 0; looked < TIDY_OWNERS && tidied == TIDY_NOTHING && !ends; looked++) {
    if (!pool_enter_soon()) return TIDY_AWAITED;
    if (turn.next >= made) {
      turn.next = 0;
      atomic64_store_relaxed(&turn.ended_ms, now_ms);
      ends = true;
    } else {
      tidied = tidy_owner(owner_by_id(turn.next + 1), self, now_ms, flush, strip);
      if (tidied < TIDY_MORE) turn.next++;
    }
    if (tidied == TIDY_MORE && gate_is_awaited(&pool_gate)) tidied = TIDY_AWAITED;
    pool_leave();
  }
  return ends || tidied >= TIDY_MORE ? tidied : TIDY_DONE; /* others have not had their turn */
}

/* What is done to many owners, and to which. `step` returns whether there is more. */
typedef struct {
  bool pooled, attached;                                         /* and other threads', if they can be claimed */
  bool changed;                                                  /* of those, none that is as it was left      */
  enum { LEFT_IN_PART = -1, LEFT_BY_SWEEP, LEFT_BY_PURGE } mark; /* of owner_t.left_as */
  bool (*step)(owner_t *owner, void *context);
  void *context;
} work_t;

/* Never 0. That another activity has the same is no more likely than harmful. */
static uint32_t left_mark(const owner_t *owner) { return (uint32_t)owner_activity(owner) | 1u << 31; }

static bool is_as_left(const owner_t *owner, int mark) {
  return owner->left_as[mark] == left_mark(owner) && atomic32_load_relaxed(&owner->pending.head) == 0 &&
         atomic64_load_relaxed(&owner->pending.mail) == 0;
}

/* The gate is held. */
static bool work_on(owner_t *owner, uint32_t self, const work_t *work) {
  bool has_more = false;
  if (work->pooled && owner->state == OWNER_POOLED) {
    owner_enter(owner);
    has_more = work->step(owner, work->context);
    pool_note(owner);
    owner_leave(owner);
  } else if (work->attached && owner->state == OWNER_ATTACHED && owner->thread_id != self &&
             !(work->changed && is_as_left(owner, work->mark)) && claim_begin(owner) == CLAIMED) {
    has_more = work->step(owner, work->context);
    if (work->mark != LEFT_IN_PART) owner->left_as[work->mark] = has_more ? 0 : left_mark(owner);
    claim_end(owner);
  }
  return has_more;
}

/* Works on each owner until it has no more to do; the gate is open to others after every step. On none if a signal
 * handler has interrupted the thread that does so. */
static void work_on_all(const work_t *work) {
  if (gate_is_mine(&pool_gate)) return;
  uint32_t made = pool_owner_count(), self = os_thread_id();
  for (uint32_t id = 1; id <= made;) {
    pool_enter();
    bool has_more = work_on(owner_by_id(id), self, work);
    pool_leave();
    if (!has_more) id++;
  }
}

static bool sweep_step(owner_t *owner, void *flush) {
  return (flush != NULL && ((tidy_flush_fn *)flush)(owner)) || collect_step(owner);
}
void tidy_sweep(tidy_flush_fn *flush) {
  work_on_all(&(work_t){true, false, false, LEFT_IN_PART, sweep_step, (void *)flush});
}
void tidy_sweep_attached(tidy_flush_fn *strip) {
  work_on_all(&(work_t){false, true, false, LEFT_BY_SWEEP, sweep_step, (void *)strip});
}
void tidy_sweep_changed(tidy_flush_fn *strip) {
  work_on_all(&(work_t){false, true, true, LEFT_BY_SWEEP, sweep_step, (void *)strip});
}

typedef struct {
  size_t purged, *keep;
} purge_context_t;
static bool purge_step(owner_t *owner, void *context) {
  purge_context_t *p = context;
  p->purged += purge_pages(owner, p->keep);
  return false;
}
static size_t purge_all(size_t *keep, bool changed) {
  purge_context_t p = {.keep = keep};
  work_on_all(&(work_t){true, true, changed, *keep == 0 ? LEFT_BY_PURGE : LEFT_IN_PART, purge_step, &p});
  return p.purged;
}
size_t tidy_purge_pages(size_t *keep) { return purge_all(keep, false); }
size_t tidy_purge_changed(void) {
  size_t keep = 0;
  return purge_all(&keep, true);
}
