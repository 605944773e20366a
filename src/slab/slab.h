/*
 * Slabs: runs of units cut into blocks of one size class, and the bitmaps that
 * say which blocks are free.
 *
 * A slab belongs to one owner. Its free bitmap is the owning thread's alone; the
 * remote bitmap is where other threads put blocks that they free (remote.h).
 * Blocks themselves are never read or written here.
 *
 * The functions are the owning thread's and work a batch at a time. A block of
 * a class with size_class_is_single() fills its slab: single.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "owner.h"

HAK_C_BEGIN

/* Gives every slab without a block in use back to the arena. */
void slab_release_empty(owner_t *owner);
/* Half as many of them may stay from now on. */
void slab_age_empty(owner_t *owner);

/* ---- For this layer's other files ------------------------------------------*/
/* A fresh slab, in no list, of which all blocks are free; a single one is out. 0: no memory. `is_zero`, if not NULL:
 * whether it reads as zero. */
unit_t slab_make(owner_t *owner, unsigned size_class, bool *is_zero);
/* Every block is free and the slab is in no list: none any more. slab_give comes next. */
void slab_unmake(unit_t slab, unsigned size_class);
/* Its run to the arena; or aside, if the owner is claimed. `gone_bytes` of it are not charged, as all of it has gone
 * back to the system; 0: it may be resident. */
void slab_give(owner_t *owner, unit_t slab, size_t gone_bytes);
/* Adds a fresh slab of a class of several blocks to the owner's list; the last, as it is empty. 0: no memory. */
unit_t slab_add(owner_t *owner, unsigned size_class);
/* A listed slab of the class from which blocks may be taken, mostly the first one. 0: there is none, or a hard
 * limit does not allow that its pages are there again. `makes_room`: what is dirty goes before that is said, so the
 * caller must not hold the pool's gate; who does looks at a bounded number of them, and goes on there the next time. */
HAK_COLD unit_t slab_to_take_of(owner_t *owner, unit_t first, bool makes_room);
/* The same of that one alone, which is listed. */
HAK_COLD unit_t slab_to_take_this(owner_t *owner, unit_t slab);
HAK_INLINE unit_t slab_to_take(owner_t *owner, unsigned size_class, bool makes_room) {
  unit_t first = owner->slabs[size_class];
  if (HAK_LIKELY(first == 0 || map_record(first)->slab.purged_pages == 0)) return first;
  return slab_to_take_of(owner, first, makes_room);
}
/* Takes up to `wanted` free blocks of such a slab, those with the lowest addresses, into the places before `end`, the
 * lowest last. Returns how many. */
size_t slab_take_blocks(owner_t *owner, unit_t slab, unsigned size_class, void **end, size_t wanted);
/* Notes a double free for each of the bits of a bitmap's word. */
HAK_COLD void slab_report_twice(unit_t slab, unsigned size_class, unsigned word, uint64_t bits);
/* Sets the bits, `count` of them and one at the least, in the slab's free bitmap. Those that are set already are double
 * frees and reported. The slab may be gone afterwards. */
void slab_put_bits(owner_t *owner, unit_t slab, unsigned word, uint64_t bits, size_t count);
/* Gives a listed slab back to the arena, every block of which is free; or puts it aside,
 * if the owner is claimed. */
void slab_release(owner_t *owner, unit_t slab);
/* Gives slabs to the arena that were put aside; the first of them, 0 for none. */
void slab_give_aside(unit_t first);
/* The arena learns what lies free in the owner's slabs, where we meet it anyway. */
void slab_tell_arena(owner_t *owner);
/* Of slab.look_at, of a slab that was not looked at yet since it is mostly free: more than
 * any slab's capacity. */
enum { LOOK_IS_DUE = UINT16_MAX };
/* Of slab.idle_looks, beside its number: no block was taken or put since the hand of spill.c came by. */
enum { SLAB_PASSED = 0x80 };
/* A listed slab of a class of several blocks changes hands. */
void slab_hand_over(owner_t *from, owner_t *to, unit_t slab, unsigned size_class);
/* Whether three quarters of its blocks are free: few are left whose thread has to free them as another's when the slab
 * changes hands. */
bool slab_is_hardly_used(unit_t slab);
bool slab_is_half_free(unit_t slab);
int64_t slab_free_bytes(unit_t slab);

/* The first unit of the slab that a unit of that class belongs to: slabs of
 * several blocks are aligned to their length. */
HAK_INLINE unit_t slab_first_unit(unit_t unit, unsigned size_class) {
  HAK_ASSERT(size_class < SIZE_CLASS_COUNT);
  return unit & ~(unit_t)(size_class_is_single(size_class) ? 0 : size_classes[size_class].slab_units - 1);
}
/* Whether a slab of several blocks starts at the unit, whose word is `word`: others than its owner put remote
 * bits there. */
HAK_INLINE bool slab_starts_shared(unit_t unit, uint32_t word) {
  unsigned kind = word_kind(word);
  return word_owner(word) != 0 && kind < MID_CLASS_END && slab_first_unit(unit, kind) == unit;
}
/* The record of a slab of several blocks, which belongs to the owner. In the debug build
 * it has to look like one. */
HAK_INLINE unit_record_t *slab_record(const owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  HAK_ASSERT(r->slab.size_class < MID_CLASS_END && r->slab.capacity == size_classes[r->slab.size_class].capacity);
  HAK_ASSERT(r->slab.free_count <= r->slab.capacity && slab_first_unit(slab, r->slab.size_class) == slab);
  HAK_ASSERT(atomic32_load_relaxed(map_word(slab)) == word_make(owner->id, r->slab.size_class));
  (void)owner;
  return r;
}
/* Whether a block starts at the address, and its number in the slab. */
HAK_INLINE bool slab_block_number(const void *address, unit_t slab, unsigned size_class, unsigned *number) {
  return size_class_starts_block(&size_classes[size_class], (size_t)((const char *)address - map_address(slab)),
                                 number);
}
/* Where a block has its bit, in the free bitmap and the remote one. */
typedef struct {
  unit_t slab;
  unsigned bitmap_word;
  uint64_t bit;
} slab_place_t;
/* false: the address, in a unit of that class, starts no block. The class is one of several blocks. */
HAK_INLINE bool slab_find_place(const void *address, unsigned size_class, slab_place_t *place) {
  const size_class_t *c = &size_classes[size_class];
  size_t at = (size_t)((const char *)address - map_address(0)), offset = at & (size_class_slab_bytes(c) - 1);
  unsigned number;
  HAK_ASSERT(!size_class_is_single(size_class));
  if (!size_class_starts_block(c, offset, &number)) return false;
  place->slab = (unit_t)((at - offset) >> UNIT_SHIFT);
  place->bitmap_word = number / 64;
  place->bit = (uint64_t)1 << number % 64;
  return true;
}
/* Whether a block starts there. The address is in a unit of that class: one of a single class is its slab's
 * first, and slabs of several blocks are aligned to their length. Shorter than by slab_find_place. */
HAK_INLINE bool slab_starts_block(const void *address, unsigned size_class) {
  const size_class_t *c = &size_classes[size_class];
  size_t length = size_class_is_single(size_class) ? (size_t)UNIT_BYTES : size_class_slab_bytes(c);
  size_t offset = (size_t)((const char *)address - map_address(0)) & (length - 1);
  unsigned number;
  return size_class_starts_block(c, offset, &number);
}
HAK_INLINE void *slab_block_address(unit_t slab, unsigned size_class, unsigned number) {
  return map_address(slab) + (size_t)number * size_classes[size_class].block_bytes;
}

/* Checks every slab of the owner. Nothing may run meanwhile. */
void slab_check(const owner_t *owner);

HAK_C_END
#endif
