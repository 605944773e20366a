/*
 * Memory for the allocator's own arrays, in a part of the window where no block
 * of the program ever lies.
 *
 * Sizes are powers of two from 64 bytes up; a freed array goes to a list of its
 * size and serves the next that is wanted of that size alone: what magazines need is bounded by the number of
 * threads that lived at once. Its address stays its own; its pages go back to the system with
 * metadata_purge. Thread-safe: a gate of its own, inside which no other is entered.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_METADATA_H
#define HAK_METADATA_H

#include "../base/inspected.h"
#include "../os/lock.h"

HAK_C_BEGIN

extern hak_gate_t metadata_gate;

/* `bytes` is a power of two, at least 64; the result is aligned to a line and its
 * contents are unspecified. NULL when there is no memory. */
void *metadata_take(size_t bytes);
void metadata_give(void *array, size_t bytes);

/* Gives pages back to the system that lie in freed arrays of a page or more alone. Returns the bytes, which may not all
 * have been resident. No gate is held across calls to the system: what is on its way is to be had a moment later, or,
 * by a child that is forked then, not at all. */
size_t metadata_purge(void);

/* Writable memory for the thread heap records at [index * bytes, …) of their
 * part of the window, zero. NULL when there is no memory, or something of the
 * program's lies there. Indices come in order. */
void *metadata_heap_record(size_t index, size_t bytes);

size_t metadata_committed_bytes(void);
/* One of the pieces that these lie in, from 0 on; there may be holes in it. false: there
 * are no more. */
bool metadata_piece(unsigned index, char **at, size_t *bytes);
extern const inspect_field_t metadata_inspected[1];

HAK_C_END
#endif
