/*
 * Samples of allocations, for who reads them from outside the process (`hak profile`): which
 * block, how large, by which thread, with which stack; and that it has been freed.
 *
 * Nothing is unwound and nothing looked up in here. A sample is the registers and the top of
 * the stack as they are, in a ring that the reader drains with process_vm_readv. Nobody waits:
 * not for the reader, who may be late, and not for another thread. A full ring takes no more: an event that
 * finds no room is dropped and counted, an allocation whose stack finds none has no stack.
 *
 *   events  who allocated or freed what, in the order of the numbers
 *   stacks  of the allocations among them
 *   watched the addresses of sampled blocks that have not been freed; `filter` says in little room where there
 *           are none: hot are few blocks of few pages, so it distinguishes less than a page, and yet all that is
 *           hot has its counts in a few cache lines
 *
 * Invariant: a number n is taken when everything up to n - places has been read, so whoever has it writes the
 * place n % places alone: n + 1 in `number` says that it is complete. Stacks' numbers have gaps. A reader that
 * gives up on a place whose writer sleeps breaks that, so who finds a place busy (RECORD_BUSY) leaves it alone,
 * and is dropped. An event of a free is numbered before the block can be had again, so of the same address
 * events come in the order in which things happened.
 *
 * Who wants samples says so in `record_control`, from outside or in here, and says again and
 * again that it is there still. When it has not for RECORD_LEASE_MS, nobody wants them any more.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_RECORD_H
#define HAK_RECORD_H

#include "../base/inspected.h"

HAK_C_BEGIN

enum {
  RECORD_EVENTS = 16384,
  RECORD_STACKS = 256,
  RECORD_WATCHED = 1 << 18, /* in two windows, of a cache line at most, an address may lie */
  RECORD_FILTER = 1 << 16,  /* counts, each of the blocks that begin in the same RECORD_GRAIN bytes */
  RECORD_GRAIN = 256,
  RECORD_LEASE_MS = 10000,
  RECORD_EXIT_MS = 1000, /* at exit, for the reader to read the rest */
};
#define RECORD_BUSY UINT64_MAX
#define RECORD_MEAN_MOST HAK_GIB(1)

typedef enum { RECORD_ALLOCATED = 1, RECORD_FREED } record_kind_t;

typedef struct {
  atomic64 number; /* its own and 1; 0: never used; RECORD_BUSY */
  uint32_t kind, thread_id;
  uint64_t block, bytes, mean_bytes;
  uint64_t stack; /* the number of its stack and 1; 0: there was no room for it */
  uint64_t time_ms;
  uint64_t spare;
} record_event_t;
static_assert(sizeof(record_event_t) == 64, "a line; tools read these");

enum { RECORD_REGISTERS = 5, RECORD_STACK_BYTES = 16 * 1024 - (3 + RECORD_REGISTERS) * 8 };
typedef struct {
  atomic64 number; /* as in record_event_t */
  uint64_t bytes;  /* of the stack, from the stack pointer upwards */
  uint64_t pc;
  uint64_t registers[RECORD_REGISTERS]; /* record.c says which */
  uint64_t contents[RECORD_STACK_BYTES / 8];
} record_stack_t;
static_assert(sizeof(record_stack_t) == 16 * 1024, "tools read these");

/* Written from outside, a word at a time. */
typedef struct {
  atomic64 mean_bytes;     /* from one sample to the next; 0: nobody wants any   */
  atomic64 drained;        /* every event before this number was read            */
  atomic64 stacks_drained; /* likewise                                        */
  atomic32 beat;           /* changes while somebody reads                       */
  atomic32 reader;         /* who that is: the number of a process, for others   */
} record_control_t;
extern record_control_t record_control;

/* How far samples are apart on average, in bytes; 0: nobody wants any. Relaxed: a thread may
 * learn of it later. */
HAK_INLINE uint64_t record_mean(void) { return atomic64_load_relaxed(&record_control.mean_bytes); }

/* Wants samples from now on: for who does not come from outside. */
void record_start(uint64_t mean_bytes);
/* Room for samples, at first use. false: there is none. */
bool record_prepare(void);

/* The bytes until the next sample: exponentially distributed. `mean_bytes` > 0. */
uint64_t record_draw(uint64_t mean_bytes);

/* The block is a sample, one of so many bytes as it holds. */
void record_allocated(void *block, size_t bytes, uint64_t mean_bytes);
/* 0 at a block's place: it is no sample. */
const atomic8 *record_filter(void);
HAK_INLINE size_t record_filter_place(const void *block) { return (uintptr_t)block / RECORD_GRAIN % RECORD_FILTER; }
/* A block is about to be freed, or to become larger or smaller. */
void record_freed(void *block);
/* A block that comes from no magazine, or has become larger or smaller: a sample by chance. */
void record_lone(void *block, size_t bytes);

/* Waits a little until all is read, if somebody reads. */
void record_finish(void);
/* Nobody reads what a forked child has to say. */
void record_after_fork(void);

extern const inspect_field_t record_inspected[36];

HAK_C_END
#endif
