/* See single.h. SPDX-License-Identifier: MIT */
#include "single.h"

#include "../arena/arena.h"
#include "../arena/dense.h"
#include "../arena/shelf.h"
#include "slab.h"

/* The shelf has a length for each class of single blocks. */
static_assert((int)SHELF_LENGTHS == (int)SIZE_CLASS_COUNT - (int)MID_CLASS_END, "a length for each");
static unsigned length_of(unsigned size_class) { return size_class - MID_CLASS_END; }

/* Its record and its later words are as they were when it was shelved. Release: pairs with
 * the compare-and-swap of a thread that frees the block, as in slab_make. */
static void *take_shelved(owner_t *owner, unsigned size_class) {
  unit_t slab = arena_take_shelved(length_of(size_class));
  if (slab == 0) return NULL;
  atomic32_store_release(map_word(slab), word_make(owner->id, size_class));
  return map_address(slab);
}

void *slab_make_single(owner_t *owner, unsigned size_class, bool *is_zero) {
  if (is_zero != NULL) *is_zero = false;
  if (shelf_is_open() || shelf_units() > 0) {
    for (unsigned c = size_class; c <= size_class_stand_in(size_class); c++) {
      void *block = take_shelved(owner, c);
      if (block != NULL) return block;
    }
    shelf_note_missed(length_of(size_class));
  }
  unit_t slab = slab_make(owner, size_class, is_zero);
  return slab != 0 ? map_address(slab) : NULL;
}

bool slab_take_over_single(owner_t *owner, unit_t slab, uint32_t word) {
  return atomic32_cas_acq_rel(map_word(slab), &word, word_make(owner->id, word_kind(word)));
}

bool slab_free_single(owner_t *owner, unit_t slab, uint32_t word) {
  unsigned size_class = word_kind(word);
  if (!atomic32_cas_acq_rel(map_word(slab), &word, word_make(0, size_class))) return false;
  bool is_aside = owner != NULL && owner->puts_aside;
  /* Behind a gate that is shut it would serve nobody. */
  if (!is_aside && shelf_put(length_of(size_class), slab, arena_is_shut())) return true;
  slab_unmake(slab, size_class);
  slab_give(owner, slab, 0);
  return true;
}

bool slab_claim_single(unit_t slab, uint32_t word) {
  return atomic32_cas_acq_rel(map_word(slab), &word, word_make(0, KIND_INNER));
}

void slab_unclaim_single(unit_t slab, uint32_t word) { atomic32_store_release(map_word(slab), word); }

bool slab_extend_single(unit_t slab, uint32_t word, unsigned new_class) {
  size_t old_units = size_classes[word_kind(word)].slab_units, new_units = size_classes[new_class].slab_units;
  if (!slab_claim_single(slab, word)) return false;
  bool extended = arena_extend_large(slab, old_units, new_units);
  if (extended) {
    map_record(slab)->slab.size_class = (uint8_t)new_class;
    map_record(slab)->slab.was_clean = false; /* its new part may not be */
    dense_note_wide((int64_t)new_units - (int64_t)old_units);
    map_write_words(slab, old_units, new_units, word_make(0, KIND_INNER));
  }
  slab_unclaim_single(slab, word_make(word_owner(word), extended ? new_class : word_kind(word)));
  return extended;
}

bool slab_cut_single(unit_t slab, uint32_t word, unsigned new_class) {
  size_t old_units = size_classes[word_kind(word)].slab_units, new_units = size_classes[new_class].slab_units;
  if (new_units >= old_units || !slab_claim_single(slab, word)) return false;
  unit_t tail = (unit_t)(slab + new_units);
  size_t rest = old_units - new_units;
  map_write_words(tail, 0, rest, 0);
  map_split_run(slab, new_units, rest);
  map_record(slab)->slab.size_class = (uint8_t)new_class;
  dense_note_wide(-(int64_t)rest);
  slab_unclaim_single(slab, word_make(word_owner(word), new_class));
  arena_give(tail, rest);
  return true;
}
