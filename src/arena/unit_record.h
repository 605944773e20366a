/*
 * What is known of a unit: a line of its own in each of two tables of the window (map.h).
 *
 * The record is written by whoever the run is of: the arena while it is free, else the slab's owner, the holder
 * of a huge or lone block, or who is in the region. The arena needs the length of each run, and looks at
 * nothing else of those in use. But a run goes from one to the next, and they share the line: so what upper
 * layers keep there has its layout here, and its meaning with them. The other line is for threads that may not
 * write to the record.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_UNIT_RECORD_H
#define HAK_UNIT_RECORD_H

#include "../base/base.h"

HAK_C_BEGIN

/* A unit number names a run by its first unit; 0 is the page map itself and
 * serves as nil.                                                             */
typedef uint32_t unit_t;

typedef struct {
  uint32_t run_units; /* length, at the first unit of every run             */
  unit_t run_first;   /* at the last unit of a free run                     */
  union {
    struct {
      unit_t left, right; /* children in the tree of free runs                */
    } free;
    struct {
      unit_t next;         /* of those that wait: returns.h                       */
      bool is_clean;       /* it reads as zero                                    */
      uint32_t gone_bytes; /* so much of it is not charged any more: charge.h     */
    } returned;
    /* A slab. Invariants:
     *   free_count = number of set bits in its free bitmap
     *   in its owner's list of its class  <=>  free_count > 0
     *   capacity = blocks out + free_count + bits in its remote bitmap       */
    struct {
      unit_t previous, next; /* the first one's `previous` is the last          */
      uint16_t capacity, free_count;
      uint16_t first_word; /* no free bit lies in a word before this one      */
      uint8_t size_class;
      bool listed;
      bool was_full;      /* all blocks were out at once, at some time */
      uint8_t idle_looks; /* since a block was taken or put: see purge_idle; SLAB_PASSED and others */
      /* See slab/purged.h; the first one is in the records of all units of a slab. */
      uint16_t purged, purged_pages;
      uint16_t look_at; /* so many free blocks are worth a look: slab/surplus.h */
      bool has_pieces;  /* short rows of free pages were left: slab/purge.h     */
      bool was_clean;   /* a single block: nobody wrote there before it was one */
    } slab;
    struct {
      uint32_t asked_units; /* what was asked for takes so many; at most the run */
    } huge;
    /* Of a region, see region/units.h and region/blocks.h. The first unit of a run may be that
     * of a slab or a lone block, too. */
    struct {
      unit_t previous, next; /* a slab: others of its class with a free block       */
      uint16_t capacity, free_count, first_word;
      uint8_t size_class;
      bool listed;
      bool is_whole;       /* a run: it is one lone block */
      uint16_t not_its[2]; /* slab.purged and slab.purged_pages, which are 0 where no slab is */
      uint32_t units;      /* a lone block's                                */
      unit_t run;          /* a slab or a lone block: the run that it is in */
      unit_t run_previous, run_next, open_previous, open_next; /* a run: the region's others; those of its list */
      uint32_t spare;                                          /* a run: a bit for each unit that nothing is in */
      uint32_t asked_units; /* a lone block: what was asked for takes so many; at most `units` */
    } region;
  };
} __attribute__((aligned(HAK_CACHE_LINE))) unit_record_t;
static_assert(sizeof(unit_record_t) == HAK_CACHE_LINE, "a line");
static_assert(offsetof(unit_record_t, region.not_its[0]) == offsetof(unit_record_t, slab.purged) &&
                  offsetof(unit_record_t, region.not_its[1]) == offsetof(unit_record_t, slab.purged_pages),
              "they lie in the same place");

/* One line a unit, written by threads that free into another's slab. It
 * outlives the slab: see remote.h.                                           */
typedef struct {
  atomic32 announced; /* 1 while the unit is, or is about to be, on a pending stack */
  unit_t pending_next;
} __attribute__((aligned(HAK_CACHE_LINE))) unit_shared_t;

HAK_C_END
#endif
