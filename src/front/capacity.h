/*
 * How large a magazine is to be, and how much travels at once: counts in, counts out.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CAPACITY_H
#define HAK_CAPACITY_H

#include "../slab/size_class.h"

HAK_C_BEGIN

enum {
  FIRST_CAPACITY = 15, /* and at most FIRST_BYTES of blocks */
  FIRST_BYTES = 4 * 1024,
  BATCH_CAPACITY = 127, /* running empty alone grows it to this, and to BATCH_BYTES */
  BATCH_BYTES = 16 * 1024,
  BATCH_ONE_WAY_BYTES = 64 * 1024, /* capacity_batch_bytes */
  BATCH_ALL_BYTES = 1024 * 1024,
  MID_BATCH_CAPACITY = 7, /* the same for mid blocks, if that is more */
  MID_BATCH_BYTES = 64 * 1024,
  MAX_CAPACITY = 8191,
  FLUSH_COST = 8192,             /* of one overflow: capacity_block_cost */
  FLUSH_BYTES = 2 * 1024 * 1024, /* as much as a call purges */
};

/* What all magazines of a process may hold, in bytes of blocks, shared among its threads, but each has the least: where
 * somebody looks after threads that sleep or do not use theirs (bell.h), and where nobody does. A lone thread's. */
#define BUDGET_BYTES HAK_MIB(256)
#define BUDGET_UNATTENDED_BYTES HAK_MIB(64)
#define BUDGET_LEAST_BYTES HAK_KIB(512)
#define BUDGET_LONE_BYTES HAK_MIB(128)
/* Of a thread's share, those of tiny and mid blocks: four times what of its slabs was out lately, and this at least. */
#define SMALL_FLOOR_BYTES HAK_MIB(16)
size_t capacity_small(size_t out_bytes);
/* Beyond how many threads even the first magazines are much; and beyond how many, what each has at hand of
 * every size. */
enum { FEW_THREADS = 128, SOME_THREADS = 16 };

/* What all magazines of one of so many threads may hold, in bytes of blocks. */
size_t capacity_budget(size_t threads, bool is_attended);

/* What those of large blocks may hold of it: of a lone thread four times what is out; of several, whose blocks
 * serve each other, as much as is out, all threads' taken together, of which `others_bytes` are others'. And
 * where `resident` of `looked_at` units are resident, at least the floor in resident memory. `wide_bytes` are
 * out or in magazines. */
size_t capacity_large(size_t wide_bytes, size_t others_bytes, size_t floor_bytes, unsigned looked_at,
                      unsigned resident);
/* Of large blocks of so many bytes, what is in no memory. */
size_t capacity_absent(size_t large_bytes, unsigned looked_at, unsigned resident);
/* The floor of one of so many threads: what others have left of LARGE_FLOOR_BYTES, or of what the profile trusts
 * (profile.h), and no less than its share of that and LARGE_FLOOR_LEAST_BYTES. */
#define LARGE_FLOOR_BYTES HAK_MIB(4)
#define LARGE_FLOOR_LEAST_BYTES HAK_MIB(1)
size_t capacity_large_floor(size_t threads, size_t others_bytes);

/* What flushing a block of the class costs: about the time of so many tiny blocks, some
 * nanoseconds each. */
size_t capacity_block_cost(unsigned size_class);

/* Where a magazine begins. One less than a power of two, as every capacity. */
size_t capacity_first(unsigned size_class);
/* Below which it never shrinks; 0 for single blocks, since one that stays is worth much
 * memory. */
size_t capacity_least(unsigned size_class);

/* How much a fair batch is, in bytes of blocks: BATCH_BYTES. Of a thread that only gets blocks of the class from
 * others, or only frees others', it is BATCH_ONE_WAY_BYTES, or its part of BATCH_ALL_BYTES if that is less, of so many
 * threads: what passes from thread to thread costs some lines of the cache and a locked instruction, however much it
 * is, and all of it passes. */
size_t capacity_batch_bytes(size_t threads, bool is_one_way);

/* The capacity of a magazine that has run empty; `missed`: the second time since it last
 * ran full; `gave`: it has run full at all. Single blocks are kept only where some have
 * come back and were wanted again: what is freed at the end of a program's work, or of a
 * part of it, is not. */
size_t capacity_when_empty(unsigned size_class, size_t capacity, size_t batch_bytes, bool missed, bool gave);
/* The same for one that has run full, or is none yet; `missed`: it ran empty since it last
 * ran full. So it oscillates: half of it travels to the slabs and back each time. */
size_t capacity_when_full(unsigned size_class, size_t capacity, bool missed);

/* The same for one whose blocks go to other threads and come from there: no more than a fair batch. */
size_t capacity_when_sent(unsigned size_class, size_t capacity, size_t batch_bytes);

/* How many blocks a refill brings: half, so that frees that follow find room, too. */
size_t capacity_refill(size_t capacity);
/* How many an overflow flushes: half, but no more than a call may take time for, and no
 * more memory than one call purges. */
size_t capacity_flush(unsigned size_class, size_t capacity);

HAK_C_END
#endif
