/* See slab_list.h. SPDX-License-Identifier: MIT */
#include "slab_list.h"

static void set_listed(owner_t *owner, unsigned size_class, bool is_listed) {
  uint64_t bit = (uint64_t)1 << size_class % 64, *listed = &owner->listed[size_class / 64];
  *listed = is_listed ? *listed | bit : *listed & ~bit;
}

static void list_as(owner_t *owner, unit_t slab, bool last) {
  unit_record_t *r = map_record(slab);
  unit_t first = owner->slabs[r->slab.size_class];
  r->slab.next = first;
  r->slab.previous = first != 0 ? map_record(first)->slab.previous : slab;
  if (first != 0) map_record(first)->slab.previous = slab;
  r->slab.listed = true;
  if (first == 0) set_listed(owner, r->slab.size_class, true);
  if (first != 0 && last) {
    map_record(r->slab.previous)->slab.next = slab;
    r->slab.next = 0;
  } else owner->slabs[r->slab.size_class] = slab;
}
void slab_enlist(owner_t *owner, unit_t slab) { list_as(owner, slab, slab_is_empty(slab)); }

void slab_unlist(owner_t *owner, unit_t slab) {
  unit_record_t *r = map_record(slab);
  unit_t *first = &owner->slabs[r->slab.size_class];
  if (owner->next_look == slab) owner->next_look = r->slab.next;
  if (owner->surplus_next == slab) owner->surplus_next = r->slab.next;
  if (r->slab.next != 0) map_record(r->slab.next)->slab.previous = r->slab.previous;
  else map_record(*first)->slab.previous = r->slab.previous;
  if (slab == *first) *first = r->slab.next;
  else map_record(r->slab.previous)->slab.next = r->slab.next;
  if (*first == 0) set_listed(owner, r->slab.size_class, false);
  r->slab.listed = false;
}

/* Which is not the first. */
static void begin_with_empty(owner_t *owner, unit_t slab) {
  slab_unlist(owner, slab);
  list_as(owner, slab, false);
}
/* Which is not the first. */
static void begin_with_used(owner_t *owner, unit_t slab) {
  unit_t *first = &owner->slabs[map_record(slab)->slab.size_class], behind = 0; /* the first of the empty ones */
  unit_t end = map_record(*first)->slab.previous, last = end, before = map_record(slab)->slab.previous;
  for (; slab_is_empty(last); last = map_record(last)->slab.previous) behind = last;
  map_record(last)->slab.next = *first;
  map_record(*first)->slab.previous = last;
  map_record(before)->slab.next = behind;
  if (behind != 0) map_record(behind)->slab.previous = before;
  map_record(slab)->slab.previous = behind != 0 ? end : before;
  *first = slab;
}
HAK_COLD void slab_begin_with(owner_t *owner, unit_t slab) {
  if (slab == owner->slabs[map_record(slab)->slab.size_class]) return;
  if (slab_is_empty(slab)) begin_with_empty(owner, slab);
  else begin_with_used(owner, slab);
}
