/*
 * An owner of slabs: the part of a thread's heap that this layer sees.
 *
 * Owners are records at a fixed stride in the window, so that the number in a
 * page-map word leads to its owner by arithmetic. They are never freed: when a
 * thread ends, its owner waits in the pool (pool.h), slabs and all, for the next
 * thread.
 *
 * An owner is used by one thread at a time, "the owning thread": the one it is
 * attached to or, while it is pooled, whoever holds the pool's gate. Who claims an
 * owner (claim.h) takes its thread's place for a moment. Others touch `pending`, the claim
 * and, behind the pool's gate, what is said so below; of these `pending` alone is written often, and has a line of its
 * own.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_OWNER_H
#define HAK_OWNER_H

#include "../os/lock.h"
#include "size_class.h"

HAK_C_BEGIN

/* Remote frees that wait to be delivered: bits of one word of one slab's bitmap. See
 * remote.h. */
typedef struct {
  uint64_t bits; /* 0: the entry is empty */
  union {
    struct {
      unit_t slab;
      uint16_t word;
      uint8_t size_class;
      uint8_t left; /* so many blocks more, and it is sent */
    };
    uint64_t key; /* all of this, `left` in the highest byte */
  };
} outbox_entry_t;
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "where `left` is in `key`");

enum {
  OUTBOX_ENTRIES_LOG2 = 7,
  OUTBOX_ENTRIES = 1 << OUTBOX_ENTRIES_LOG2,
  OUTBOX_PARCELS = 16,
  ROOMY_ENTRIES = 8,
  MOSTLY_FREE_MOST = 12
};
typedef struct {
  outbox_entry_t entries[OUTBOX_ENTRIES];
} outbox_t;

typedef enum {
  OWNER_ATTACHED, /* to a thread                                              */
  OWNER_POOLED,   /* waits in the pool                                        */
  OWNER_LOST,     /* its thread was inside the allocator when the process was
                     forked: in this child nobody can trust or use it again   */
} owner_state_t;

typedef struct owner {
  /* The head of the stack of slabs that have remote frees for us; unit
   * numbers linked through unit_shared_t.pending_next. And that of the parcels for us,
   * with their number: parcel.h. In a line of its own: others write it. */
  struct {
    atomic32 head;
    atomic64 mail;
  } __attribute__((aligned(HAK_CACHE_LINE))) pending;

  uint32_t id __attribute__((aligned(HAK_CACHE_LINE))); /* from 1 */
  /* Non-zero while anything here, in the owner's slabs or in its magazines is
   * changed out of the fast path: owner_enter. Read by a forked child and, with the
   * claim, by who wants to take the thread's place: claim.h. */
  atomic32 busy;
  hak_lock_t claim;
  /* Guarded by the pool's gate, but `look_class` and `goes_on`, the owning thread's, and `puts_aside`,
   * `stripped` and `put_aside`, which are the claimer's while there is one: */
  uint8_t state;                    /* owner_state_t                                */
  bool is_warm;                     /* pooled with its empty slabs                  */
  uint8_t look_class;               /* see next_look                                */
  uint8_t idle_visits, idle_shift;  /* of tidy.c: visits that found nothing; how long the
                                      thread may be idle before the first           */
  uint8_t vain_tries;               /* the same: to claim it, as its thread runs, or nobody says whether it does */
  uint8_t disown_class;             /* of orphanage_disown: lists before it were looked at */
  bool goes_on;                     /* of purge_unused: the last one has not got through */
  bool puts_aside;                  /* claimed: empty slabs wait in put_aside       */
  bool stripped;                    /* its thread has something to put in order: front/strip.h */
  unit_t put_aside;                 /* linked by returned.next                      */
  uint64_t seen_activity, seen_ms;  /* owner_activity, and when it was seen first   */
  uint32_t left_as[2];              /* of tidy.c: how a sweep, and a purge, have left it; 0: none has been here */
  uint64_t seen_time_ns, served_ms; /* its thread's time; when something was found  */
  uint32_t process_id, thread_id;   /* of the thread it is attached to          */
  uint32_t pool_next;               /* owner id                                     */
  int64_t pooled_bytes;             /* what the pool counts of it: pool_note        */
  /* Of the machine's memory, where its thread needed a slab last. Relaxed: written by the owning
   * thread alone, and read by others while it is pooled, or as a hint. */
  atomic32 node;

  unit_t pending_taken; /* slabs taken from `pending`, not yet collected */
  uint32_t mail_taken;  /* parcels taken from there, not yet emptied      */
  /* Of purge_idle: the listed slab that it looks at next, 0 at the end of a class;
   * look_class: the class after that; when it last looked; when this round began. */
  unit_t next_look;
  uint32_t outbox_count;
  uint64_t look_ms, round_ms;
  int64_t slab_bytes; /* of all blocks of our slabs, single ones not counted */
  int64_t free_bytes; /* of those that are free in them; what the arena was told last */
  int64_t free_bytes_told;
  int64_t grown_from;   /* slab_bytes at the last step of front/growth.h, or the least since */
  int64_t purged_bytes; /* that have gone, of these and of tails: purged.h */
  /* Of slab.c: units of listed slabs of which every block is free; one that is not the only slab of its class stays
   * as long as these are no more than empty_most; units of such as were given to the arena since, and not made
   * again. */
  uint32_t empty_units, empty_most, given_units;
  uint32_t released_units; /* of slabs that went to the arena, for which no free has given memory back yet */
  /* Of surplus.h: what was given back and wanted again lately, and when that was halved last;
   * how much is no surplus; whether the free that is going on has found one, and which slabs
   * it has made mostly free; which listed slab is looked at next, 0 at the end of a class; whether
   * there is one to look for, for so many ends of rounds; how many pieces may go, and when that was said. */
  int64_t regret_bytes, surplus_from;
  uint32_t regret_ms, pieces_ms;
  uint16_t pieces;
  bool has_surplus;
  uint8_t surplus_rounds;
  uint8_t surplus_class, mostly_free_count;
  uint8_t spill_class, spill_turn; /* of spill.c: where its hand is; batch boundaries */
  uint8_t growth_classes;          /* of front/growth.h: that are still to be flushed */
  atomic8 wants_help;              /* of purge_idle: its thread comes by too seldom. Relaxed: a hint */
  unit_t surplus_next, mostly_free[MOSTLY_FREE_MOST];
  /* Statistics; written by the owning thread, read by any: relaxed. */
  atomic64 refills, flushes, remote_frees, adoptions;
  unit_t slabs[MID_CLASS_END];                /* lists of slabs with a free block             */
  uint64_t listed[(MID_CLASS_END + 63) / 64]; /* a bit for each list that is not empty */
  /* What the thread has freed of others' blocks, in the metadata; NULL before the first. The
   * parcels that are being packed, by number, 0 for none; how many these are, whether packing
   * them, or the entries, is in vain, how often entries were in each other's way, and how many were asked
   * about that go alone: remote.c. Empty ones, and how many: parcel.h. */
  outbox_t *outbox;
  uint32_t parcels[OUTBOX_PARCELS], parcel_count;
  uint16_t scattered, sparse, evictions;
  uint8_t alone;
  uint32_t spare_parcels, spare_count;
  uint8_t roomy[ROOMY_ENTRIES], roomy_turn; /* entries that may hold more than others, the last ones; remote.c */
} owner_t;

/* Somewhere there is a slab for surplus.c to look at: in this round of its, or in the next, which is a whole one. */
HAK_INLINE void owner_look_for_surplus(owner_t *owner) { owner->surplus_rounds = 2; }

/* Marks that the owning thread is at work, out of the fast path. Compiler order is
 * enough for a fork in another thread, which copies what was stored in this order
 * (docs/design.md on fork), and for a claim, which sends a fence. Calls may be nested. */
HAK_INLINE void owner_enter(owner_t *owner) {
  atomic32_add_alone(&owner->busy, 1);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
/* Release: pairs with the acquire in claim_begin. */
HAK_INLINE void owner_leave(owner_t *owner) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  atomic32_store_release(&owner->busy, atomic32_load_relaxed(&owner->busy) - 1);
}

/* Changes whenever blocks have moved between magazines and slabs, or one of another owner
 * was freed. Relaxed. */
HAK_INLINE uint64_t owner_activity(const owner_t *owner) {
  return atomic64_load_relaxed(&owner->refills) + atomic64_load_relaxed(&owner->flushes) +
         atomic64_load_relaxed(&owner->remote_frees);
}

/* Before each owner lies room for what the layer above keeps for a thread: its
 * magazines (front/heap.h), which come first because the fast path likes them at
 * the address that it has in hand. */
enum {
  OWNER_STRIDE_BYTES = 4096,
  OWNER_ROOM_BYTES = OWNER_STRIDE_BYTES - (int)sizeof(owner_t),
};

/* The page map's words have 24 bits for an owner. The highest is never set in one of an owner: a heap whose
 * id_word has it is at home nowhere (the_null_heap, and what front/sample.h does). The system
 * has no more than half as many threads. */
enum { OWNERS_MOST = (1 << (32 - KIND_BITS - 1)) - 1 };

HAK_INLINE owner_t *owner_by_id(uint32_t id) {
  HAK_ASSERT(id > 0 && id <= OWNERS_MOST);
  return (owner_t *)(the_map.heaps + (size_t)(id - 1) * OWNER_STRIDE_BYTES + OWNER_ROOM_BYTES);
}

HAK_C_END
#endif
