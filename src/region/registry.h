/*
 * Regions: the heaps that a program makes for itself (hak_heap_t), each of which can be
 * destroyed with all its blocks. This file has their records, handles and gates.
 *
 * A handle is a region's number and a generation that no other region ever had. So a
 * handle whose region was destroyed is told from every other by comparing, whatever has its number
 * now; nothing is read through a handle. Records are never given back.
 *
 * A record is used by one thread at a time, which has entered the region. Regions share
 * REGION_GATES gates: fork closes each of them, whatever the number of regions. A thread
 * is in one region at a time, and enters no gate inside it but the arena's and the metadata's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_REGISTRY_H
#define HAK_REGISTRY_H

#include "../os/lock.h"
#include "region_word.h"

HAK_C_BEGIN

enum { REGION_GATES = 16 };
enum { RUN_UNITS_MOST = 32, OPEN_LISTS = 6 }; /* units of a run that is cut; lists of such runs, see spare.h */
static_assert(1 << (OPEN_LISTS - 1) == RUN_UNITS_MOST, "a list for each row that a run may have");
extern hak_gate_t registry_gate; /* numbers, records and tables of caches; never held together with those below */
extern hak_gate_t region_gates[REGION_GATES];
HAK_INLINE hak_gate_t *registry_gate_of(uint32_t number) { return &region_gates[number % REGION_GATES]; }
/* Of each gate, who is behind it and in which region; 0: nobody. Read by a forked child. */
extern atomic64 region_inside[REGION_GATES];
HAK_INLINE uint64_t region_inside_word(uint32_t number, uint32_t thread) { return (uint64_t)thread << 32 | number; }

typedef struct region {
  atomic64 handle; /* 0: there is none of that number; changed inside the region */
  uint32_t number;
  bool is_lost;             /* in this child: another thread was inside when the process was forked */
  bool is_tidy;             /* whoever is inside has given back all that is free                    */
  uint32_t forks;           /* registry_forks when the caches were all of threads of this process   */
  struct region *next_free; /* of those without a region                                            */
  struct region_cache *caches;
  struct region_cache *inherited; /* from this one on they may be of threads that this child has not     */
  unit_t runs;                    /* all that the arena has given, linked by region.run_next           */
  unit_t open[OPEN_LISTS];        /* those with spare units, linked by region.open_next                */
  unit_t going;                   /* to be given to the arena when the thread leaves; as `runs`        */
  unit_t kept;                    /* a run that became all spare and may be so still; 0: none */
  unit_t slabs[MID_CLASS_END];    /* with a free block, linked by region.next                      */
  size_t taken_units, peak_units; /* of all runs, with what is being fetched; the most ever            */
  size_t coming_units;            /* of those, what is being fetched                                   */
  size_t limit_units;             /* SIZE_MAX: none                                                    */
  size_t limit_bytes;             /* as it was asked for: 0: none                                      */
  size_t spare_units, lone_units; /* of the runs                                                       */
  size_t slab_bytes, free_bytes;  /* in blocks of slabs; of those, in free ones                        */
  uint64_t refused;               /* requests that the limit has refused                               */
} region_t;
enum { REGION_RECORD_BYTES = 1024 };
static_assert(sizeof(region_t) <= REGION_RECORD_BYTES, "a record");

/* How often this process and those before it were forked. Changed in a child, before it has a second thread. */
extern uint32_t registry_forks;
/* Whether caches of threads may be among the region's that this child has not. */
HAK_INLINE bool region_has_forked(const region_t *region) {
  return HAK_UNLIKELY(region->forks != registry_forks) || HAK_UNLIKELY(region->inherited != NULL);
}

HAK_INLINE uint32_t region_number(uint64_t handle) { return (uint32_t)(handle & UINT16_MAX); }

/* A region without memory. 0: there is none to be had for its record, or all numbers are taken. */
uint64_t registry_new(size_t limit_bytes);
/* Its number is free for another. It is nobody's any more: its handle is 0. */
void registry_drop(region_t *region);

/* Enters the region of a handle, or of a number, whatever its generation. NULL: there is none. */
region_t *registry_enter(uint64_t handle);
region_t *registry_enter_number(uint32_t number);
/* For units.h, which has more to do then. */
void registry_leave(region_t *region);

void registry_set_limit(region_t *region, size_t limit_bytes);

/* In a forked child. Looks at no region but those that somebody was inside: each is put in order by who enters it
 * first there. Many are never used by a child, and to write to them all would copy the pages of all. */
void registry_after_fork(void);
/* The number of the thread that has forked this process: the only one that the child has, too. */
uint32_t registry_forker(void);

/* The next region after that number which may have something to give back: it has units, and somebody was inside
 * since the last one who has left it `is_tidy`. 0: there are no more. A hint: none of them is left out for good. */
uint32_t registry_next_untidy(uint32_t number);

/* The highest number that a region ever had, and the record of one; its handle may be 0. Without a gate. */
uint32_t registry_made(void);
region_t *registry_record(uint32_t number);

HAK_C_END
#endif
