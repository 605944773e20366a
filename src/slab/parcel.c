/* See parcel.h. SPDX-License-Identifier: MIT */
#include "parcel.h"

#include "../arena/metadata.h"

/* Where one thread allocates and another frees, parcels travel in one direction. They come
 * back through a list that all share, so many at a time. */
enum { SPARES = 8 };
static uint32_t shared_spares; /* linked by `next`; guarded by metadata_gate */

/* Up to SPARES that others have given. */
static uint32_t take_shared(uint32_t *count) {
  gate_enter(&metadata_gate);
  uint32_t first = shared_spares, last = 0;
  for (*count = 0; *count < SPARES && shared_spares != 0; ++*count) {
    last = shared_spares;
    shared_spares = parcel_by_number(last)->next;
  }
  if (last != 0) parcel_by_number(last)->next = 0;
  gate_leave(&metadata_gate);
  return first;
}

static uint32_t make_some(uint32_t *count) {
  parcel_t *fresh = metadata_take(SPARES * sizeof *fresh);
  *count = fresh != NULL ? SPARES : 0;
  for (uint32_t i = 0; i < *count; i++) {
    fresh[i].next = i + 1 < SPARES ? parcel_number(&fresh[i + 1]) : 0;
    fresh[i].count = 0;
  }
  return fresh != NULL ? parcel_number(fresh) : 0;
}

parcel_t *parcel_take(owner_t *self) {
  if (self->spare_parcels == 0) self->spare_parcels = take_shared(&self->spare_count);
  if (self->spare_parcels == 0) self->spare_parcels = make_some(&self->spare_count);
  parcel_t *parcel = parcel_by_number(self->spare_parcels);
  if (parcel == NULL) return NULL;
  self->spare_parcels = parcel->next;
  self->spare_count--;
  parcel->next = parcel->count = parcel->bytes = 0;
  return parcel;
}

void parcel_give(owner_t *self, parcel_t *parcel) {
  parcel->count = 0;
  parcel->next = self->spare_parcels;
  self->spare_parcels = parcel_number(parcel);
  if (++self->spare_count >= 2 * SPARES && !self->puts_aside) parcel_give_surplus(parcel_surplus(self));
}

uint32_t parcel_surplus(owner_t *self) {
  if (self->spare_count <= SPARES) return 0;
  parcel_t *last = parcel_by_number(self->spare_parcels);
  for (uint32_t i = 1; i < SPARES; i++) last = parcel_by_number(last->next);
  uint32_t surplus = last->next;
  last->next = 0;
  self->spare_count = SPARES;
  return surplus;
}

void parcel_give_surplus(uint32_t first) {
  if (first == 0) return;
  parcel_t *last = parcel_by_number(first);
  while (last->next != 0) last = parcel_by_number(last->next);
  gate_enter(&metadata_gate);
  last->next = shared_spares;
  shared_spares = first;
  gate_leave(&metadata_gate);
}

bool parcel_post(parcel_t *parcel) {
  atomic64 *mail = &owner_by_id(parcel->owner)->pending.mail;
  uint64_t head = atomic64_load_relaxed(mail), next;
  do {
    if (head >> 32 == MAIL_MOST) return false;
    parcel->next = parcel_mail_first(head);
    next = ((head >> 32) + 1) << 32 | parcel_number(parcel);
  } while (!atomic64_cas_acq_rel(mail, &head, next)); /* P2 */
  return true;
}

parcel_t *parcel_receive(owner_t *self) {
  if (self->mail_taken == 0) /* T1 */
    self->mail_taken = parcel_mail_first(atomic64_exchange_acquire(&self->pending.mail, 0));
  parcel_t *parcel = parcel_by_number(self->mail_taken);
  if (parcel != NULL) self->mail_taken = parcel->next;
  return parcel;
}
