/* The function of slab.h that only looks. SPDX-License-Identifier: MIT */
#include "../os/os.h"
#include "../support/error.h"
#include "slab.h"
#include "slab_list.h"

static size_t count_bits(const uint64_t *bits, size_t words) {
  size_t count = 0;
  for (size_t w = 0; w < words; w++) count += (size_t)__builtin_popcountll(bits[w]);
  return count;
}

void slab_check(const owner_t *owner) {
  int64_t slab_bytes = 0, free_bytes = 0, purged_bytes = 0, tail_bytes = 0;
  uint32_t empty_units = 0;
  for (unsigned c = 0; c < MID_CLASS_END; c++) {
    unit_t first = owner->slabs[c], previous = 0;
    HAK_CHECK((owner->listed[c / 64] >> c % 64 & 1) == (first != 0));
    for (unit_t slab = first; slab != 0; previous = slab, slab = map_record(slab)->slab.next) {
      const unit_record_t *r = map_record(slab);
      HAK_CHECK(r->slab.listed && r->slab.size_class == c);
      HAK_CHECK(slab == first || r->slab.previous == previous);
      HAK_CHECK(r->slab.next != 0 || map_record(first)->slab.previous == slab);
      HAK_CHECK(r->run_units == size_classes[c].slab_units && r->slab.capacity == size_classes[c].capacity);
      HAK_CHECK(slab_first_unit(slab, c) == slab);
      for (unsigned i = 0; i < r->run_units; i++)
        HAK_CHECK(atomic32_load_relaxed(map_word(slab + i)) == word_make(owner->id, c));
      size_t words = size_class_bitmap_words(c);
      HAK_CHECK(r->slab.free_count > 0 && count_bits(the_map.free_bits[slab], words) == r->slab.free_count);
      HAK_CHECK(count_bits(the_map.free_bits[slab], r->slab.first_word) == 0);
      for (size_t w = 0; w < words && error_ends_program(); w++)
        HAK_CHECK((the_map.free_bits[slab][w] & atomic64_load_relaxed(&the_map.remote_bits[slab][w])) == 0);
      HAK_CHECK(!slab_is_empty(slab) || r->slab.next == 0 || slab_is_empty(r->slab.next)); /* those are the last */
      if (slab_is_empty(slab)) empty_units += r->run_units;
      slab_bytes += (int64_t)r->slab.capacity * size_classes[c].block_bytes;
      free_bytes += slab_free_bytes(slab);
      purged_bytes += (int64_t)(r->slab.purged_pages * os_page_bytes());
      if (r->slab.purged_pages != 0) tail_bytes += (int64_t)size_class_tail_bytes(&size_classes[c]);
    }
  }
  HAK_CHECK(empty_units == owner->empty_units);
  HAK_CHECK(slab_bytes <= owner->slab_bytes); /* full ones are not listed */
  HAK_CHECK(free_bytes == owner->free_bytes && purged_bytes == owner->purged_bytes);
  HAK_CHECK(purged_bytes <= free_bytes + tail_bytes); /* the last page of a slab lies in both */
  HAK_CHECK(owner->next_look == 0 || (map_record(owner->next_look)->slab.listed &&
                                      word_owner(atomic32_load_relaxed(map_word(owner->next_look))) == owner->id));
  size_t outbox = 0;
  for (size_t i = 0; owner->outbox != NULL && i < OUTBOX_ENTRIES; i++) outbox += owner->outbox->entries[i].bits != 0;
  HAK_CHECK(outbox == owner->outbox_count);
  size_t parcels = 0;
  for (size_t i = 0; i < OUTBOX_PARCELS; i++) parcels += owner->parcels[i] != 0;
  HAK_CHECK(parcels == owner->parcel_count);
}
