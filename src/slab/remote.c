/* See remote.h. SPDX-License-Identifier: MIT */
#include "remote.h"

#include "../arena/metadata.h"
#include "../base/probe.h"
#include "../support/error.h"
#include "bits.h"
#include "claim.h"
#include "parcel.h"
#include "slab.h"

#include <string.h>

/* An entry, and a parcel, is sent when it holds so much: an outbox must not hoard. Mid blocks would travel
 * one by one like this, so some entries may be roomy: ROOMY_ENTRIES of an outbox. */
enum { ENTRY_MAX_BYTES = 8 * 1024, ROOMY_BLOCKS = 8, ROOMY_MAX_BYTES = 64 * 1024, PARCEL_MAX_BYTES = 32 * 1024 };

/* Whether remote bits of blocks of that class may be put there. */
static bool is_slab_of(unsigned size_class, unit_t unit, uint32_t word) {
  return word_kind(word) == size_class && slab_starts_shared(unit, word);
}

/* Whether it is a slab whose bitmap has that word, so that its owner finds a bit there. */
static bool has_bitmap_word(unit_t slab, uint32_t now, unsigned word) {
  return slab_starts_shared(slab, now) && word < size_class_bitmap_words(word_kind(now));
}

static void announce(unit_t slab) {
  unit_shared_t *shared = &the_map.shared[slab];
  uint32_t word;
  do {
    /* R2. Sequentially consistent, see the header. */
    if (atomic32_load_seq(&shared->announced) != 0 || atomic32_exchange_seq(&shared->announced, 1) != 0) return;
    word = atomic32_load_relaxed(map_word(slab));
    if (slab_starts_shared(slab, word)) {
      owner_t *owner = owner_by_id(word_owner(word));
      uint32_t head = atomic32_load_relaxed(&owner->pending.head);
      do shared->pending_next = head;
      while (!atomic32_cas_acq_rel(&owner->pending.head, &head, slab)); /* release: pairs with remote_collect */
      return;
    }
    /* Its owner has fetched our bits already and given the slab back. Withdraw,
     * and look again: it may have become a slab whose freer found it announced. */
    atomic32_exchange_seq(&shared->announced, 0);
    word = atomic32_load_seq(map_word(slab)); /* not before the line above */
  } while (slab_starts_shared(slab, word));
}

/* The slab was gone after we had put our bits there, or another is in its place whose bitmap is shorter. In a
 * right program its owner has collected them. Else the blocks were free before, and as the slab may be made
 * anew the bits must not stay: the owner looks for them after it has said in the word that the slab is gone
 * (slab_unmake), we take them back after we have seen that. So the freer or the owner finds each, and only one
 * of them. Returns those that are ours to report. */
static HAK_COLD uint64_t take_back(unit_t slab, unsigned word, uint64_t bits) {
  /* Acquire: so that the look at the word comes after it. */
  uint64_t ours = atomic64_and_acquire(&the_map.remote_bits[slab][word], ~bits) & bits;
  uint32_t now = atomic32_load_relaxed(map_word(slab));
  if (ours == 0 || !has_bitmap_word(slab, now, word)) return ours;
  /* It was made anew meanwhile, and its blocks have the same bits. A slab with such a
   * bit is not given back, so where it is gone still they cannot be its own. */
  atomic64_or_seq(&the_map.remote_bits[slab][word], ours);
  announce(slab);
  return 0;
}

static void deliver(unit_t slab, unsigned size_class, unsigned word, uint64_t bits) {
  uint64_t twice = bits;
  uint32_t now = atomic32_load_relaxed(map_word(slab));
  if (HAK_LIKELY(is_slab_of(size_class, slab, now))) {
    /* W1; its release part hands over the blocks' contents to the owner's R2. */
    twice = atomic64_or_seq(&the_map.remote_bits[slab][word], bits) & bits;
    announce(slab);
    now = atomic32_load_seq(map_word(slab)); /* not before W1: pairs with slab_unmake */
    if (HAK_UNLIKELY(!has_bitmap_word(slab, now, word))) twice |= take_back(slab, word, bits);
  } /* else the slab is gone, so its blocks were all free: somebody freed these as well */
  if (HAK_UNLIKELY(twice != 0)) slab_report_twice(slab, size_class, word, twice);
}

/* ---- The outbox ------------------------------------------------------------------*/

/* Entries of such blocks are roomy: two of them would fill another one. */
HAK_INLINE bool is_roomy(size_t block_bytes) { return block_bytes >= ENTRY_MAX_BYTES / 2; }

/* Blocks that make an entry full: two at the least, if there is room, so that
 * a block that is freed twice in a row is found at once, and not when its owner collects,
 * which may be never. */
static unsigned entry_room(size_t block_bytes) {
  if (is_roomy(block_bytes)) return (unsigned)min_size(ROOMY_MAX_BYTES / block_bytes, ROOMY_BLOCKS);
  return (unsigned)min_size((ENTRY_MAX_BYTES + block_bytes - 1) / block_bytes, 64);
}

static void deliver_entry(const outbox_entry_t *entry) {
  deliver(entry->slab, entry->size_class, entry->word, entry->bits);
}

/* The parcel leaves the outbox. A lone entry goes quicker without one. */
static void post(owner_t *self, uint32_t *from) {
  parcel_t *parcel = parcel_by_number(*from);
  *from = 0;
  self->parcel_count--;
  if (parcel->count > 1 && parcel_post(parcel)) return;
  for (unsigned i = 0; i < parcel->count; i++) deliver_entry(&parcel->entries[i]);
  parcel_give(self, parcel);
}

/* Where blocks of very many owners are freed in no order, each entry has to go before it has a second
 * block, and each parcel before it has a second entry. Each such parcel counts one, one that had more takes off two,
 * so that it takes four owners to a place: about 64 in all. */
enum { SCATTERED = 32, SCATTERED_MOST = 64 };
static void note_parcel(owner_t *self, const parcel_t *parcel) {
  if (parcel->count > 1) self->scattered = (uint16_t)(self->scattered - min_size(self->scattered, 2));
  else if (self->scattered < SCATTERED_MOST) self->scattered++;
}

/* A parcel for that owner with room for an entry; NULL when there is no memory. */
static parcel_t *parcel_for(owner_t *self, uint32_t owner) {
  uint32_t *at = &self->parcels[owner % OUTBOX_PARCELS];
  if (*at != 0 && parcel_by_number(*at)->owner != owner) {
    note_parcel(self, parcel_by_number(*at));
    post(self, at);
  }
  if (*at != 0) return parcel_by_number(*at);
  parcel_t *parcel = parcel_take(self);
  if (parcel == NULL) return NULL;
  parcel->owner = owner;
  *at = parcel_number(parcel);
  self->parcel_count++;
  return parcel;
}

/* The entry leaves the outbox. `more`: so many blocks more are in it than it has room for. */
static void send(owner_t *self, outbox_entry_t *from, size_t more) {
  outbox_entry_t entry = *from;
  size_t block_bytes = size_classes[entry.size_class].block_bytes, blocks = entry_room(block_bytes) - entry.left + more;
  uint32_t now = atomic32_load_relaxed(map_word(entry.slab));
  from->bits = 0;
  from->left = 0;
  self->outbox_count--;
  atomic64_add_alone(&self->remote_frees, blocks);
  HAK_PROBE(remote, map_address(entry.slab), block_bytes, entry.bits);
  bool is_there = is_slab_of(entry.size_class, entry.slab, now);
  bool fills_a_parcel = blocks * block_bytes >= PARCEL_MAX_BYTES; /* it would be alone in there */
  /* A claimer waits for no gate, and for a new parcel there may be one. */
  bool is_packed = is_there && !fills_a_parcel && !self->puts_aside;
  parcel_t *parcel = is_packed ? parcel_for(self, word_owner(now)) : NULL;
  if (parcel == NULL) {
    deliver_entry(&entry);
    return;
  }
  parcel->entries[parcel->count] = entry;
  parcel->count++;
  parcel->bytes += (uint32_t)(blocks * block_bytes);
  if (parcel->count == PARCEL_ENTRIES || parcel->bytes >= PARCEL_MAX_BYTES) {
    if (parcel->count > 1) note_parcel(self, parcel);
    post(self, &self->parcels[parcel->owner % OUTBOX_PARCELS]);
  }
}

static bool make_outbox(owner_t *self) {
  self->outbox = metadata_take(sizeof *self->outbox);
  if (self->outbox != NULL) memset(self->outbox, 0, sizeof *self->outbox);
  return self->outbox != NULL;
}

/* Words of one slab, and of neighbouring slabs, mostly get different entries: of two thirds as many words in a
 * row as there are entries 7 in 100 have the place of another one, over the shapes that slabs of the classes
 * have, and 30 at the most, of blocks of 16 and 32 bytes; by chance it would be 48. The factor is the best of
 * 12 000: of the slab and of the word there is a fraction of a turn each. */
HAK_INLINE outbox_entry_t *entry_for(owner_t *self, unit_t slab, unsigned bitmap_word) {
  uint64_t place = slab | (uint64_t)bitmap_word << 32;
  return &self->outbox->entries[place * 0x7EF9BC8DB0A841E7 >> (64 - OUTBOX_ENTRIES_LOG2)];
}

/* One more roomy entry: the one that was made so many before goes, if it is still there. */
static void note_roomy(owner_t *self, const outbox_entry_t *entry) {
  uint8_t *turn = &self->roomy[self->roomy_turn++ % ROOMY_ENTRIES];
  outbox_entry_t *old = &self->outbox->entries[*turn];
  *turn = (uint8_t)(entry - self->outbox->entries);
  if (old->bits != 0 && is_roomy(size_classes[old->size_class].block_bytes)) send(self, old, 0);
}

/* An entry's key, but for `left`. The class is in it: a block that was freed twice waits here,
 * and its slab has been made anew since, with another one. */
HAK_INLINE uint64_t key_of(unit_t slab, unsigned word, unsigned size_class) {
  return slab | (uint64_t)word << 32 | (uint64_t)size_class << 48;
}
HAK_INLINE bool has_key(const outbox_entry_t *entry, uint64_t key) { return (entry->key ^ key) << 8 == 0; }

/* As slab_find_place; an address that starts no block is reported. */
HAK_INLINE bool find_place_or_report(const void *address, unsigned size_class, slab_place_t *place) {
  if (HAK_LIKELY(slab_find_place(address, size_class, place))) return true;
  error_note(ERROR_INTERIOR_FREE, address, size_classes[size_class].block_bytes, 0);
  return false;
}

/* false: the entry is another's, the block the last that it has room for, or freed twice. */
HAK_INLINE bool add_bit(outbox_entry_t *entry, const slab_place_t *place, unsigned size_class) {
  uint64_t bits = entry->bits | place->bit, key = entry->key;
  if (!has_key(entry, key_of(place->slab, place->bitmap_word, size_class)) || key >> 56 <= 1 || bits == entry->bits)
    return false;
  entry->bits = bits;
  entry->key = key - ((uint64_t)1 << 56);
  return true;
}

static void note_eviction(owner_t *self) {
  if (self->evictions < EVICTIONS_MANY) self->evictions++;
}

/* The same where blocks of one owner are freed in no order, of more words than there are entries: most entries
 * have to go before they have a third block. */
static void note_entry(owner_t *self, const outbox_entry_t *evicted) {
  uint64_t but_one = evicted->bits & (evicted->bits - 1);
  if ((but_one & (but_one - 1)) != 0) self->sparse = (uint16_t)(self->sparse - min_size(self->sparse, 2));
  else if (self->sparse < SCATTERED_MOST) self->sparse++;
}

/* Whether a block, or a row, goes to its slab at once, as another's entry is in its place: one of 16 takes that
 * place nevertheless, to see whether packing is in vain still. Not by the count of blocks: rows of 16 would
 * leave its remainder as it is. */
static bool goes_alone(owner_t *self) {
  return max_size(self->scattered, self->sparse) >= SCATTERED && ++self->alone % 16 != 0;
}

/* `bits` of the place's word, `count`. */
static void deliver_alone(owner_t *self, unit_t slab, unsigned size_class, unsigned word, uint64_t bits, size_t count) {
  atomic64_add_alone(&self->remote_frees, count);
  HAK_PROBE(remote, map_address(slab), size_classes[size_class].block_bytes, bits);
  deliver(slab, size_class, word, bits);
}

/* Where entries are in each other's way, most blocks take no more than this. Apart, so that the others pay
 * nothing for it, and with the place itself, which is in registers then: from memory the key would be one load
 * of what two stores have just written, for which a processor waits until they are done. */
static HAK_NOINLINE bool deliver_quickly(owner_t *self, const outbox_entry_t *entry, slab_place_t place,
                                         unsigned size_class) {
  bool is_alone = entry->bits != 0 && !has_key(entry, key_of(place.slab, place.bitmap_word, size_class)) &&
                  goes_alone(self);
  if (is_alone) {
    note_eviction(self);
    deliver_alone(self, place.slab, size_class, place.bitmap_word, place.bit, 1);
  }
  return is_alone;
}

bool remote_free_quickly(owner_t *self, void *address, uint32_t word) {
  unsigned size_class = word_kind(word);
  slab_place_t place;
  if (size_class >= MID_CLASS_END || word_owner(word) == 0 || self->outbox == NULL) return false;
  if (!slab_find_place(address, size_class, &place)) return false;
  owner_enter(self); /* E1 to E3 of claim.h, but that who finds a claim does not wait for its end here */
  bool is_added = false, is_delivered = false;
  if (HAK_LIKELY(!claim_is_taken(self))) {
    outbox_entry_t *entry = entry_for(self, place.slab, place.bitmap_word);
    is_added = add_bit(entry, &place, size_class);
    if (HAK_UNLIKELY(!is_added)) is_delivered = deliver_quickly(self, entry, place, size_class);
  }
  owner_leave(self);
  if (is_delivered) error_settle(); /* it may have been free already */
  return is_added || is_delivered;
}

void remote_free_row(owner_t *self, unsigned size_class, unit_t slab, unsigned word, uint64_t bits, size_t count) {
  if (self->outbox == NULL && !make_outbox(self)) {
    deliver(slab, size_class, word, bits);
    return;
  }
  outbox_entry_t *entry = entry_for(self, slab, word);
  uint64_t key = key_of(slab, word, size_class);
  if (entry->bits != 0 && !has_key(entry, key)) {
    note_eviction(self);
    if (HAK_UNLIKELY(goes_alone(self))) {
      deliver_alone(self, slab, size_class, word, bits, count);
      return;
    }
    note_entry(self, entry);
    send(self, entry, 0);
  }
  if (entry->bits == 0) {
    size_t block_bytes = size_classes[size_class].block_bytes;
    if (is_roomy(block_bytes)) note_roomy(self, entry);
    *entry = (outbox_entry_t){.key = key | (uint64_t)entry_room(block_bytes) << 56};
    self->outbox_count++;
  }
  uint64_t twice = entry->bits & bits;
  if (HAK_UNLIKELY(twice != 0)) {
    slab_report_twice(slab, size_class, word, twice);
    count -= bits_count(twice);
    if (count == 0) return;
  }
  size_t left = entry->left;
  entry->bits |= bits;
  entry->left = (uint8_t)(left - min_size(count, left));
  if (count >= left) send(self, entry, count - left);
}

void remote_free_row_directly(unsigned size_class, unit_t slab, unsigned word, uint64_t bits) {
  deliver(slab, size_class, word, bits);
}

void remote_free(owner_t *self, void *address, uint32_t word) {
  unsigned size_class = word_kind(word);
  slab_place_t place;
  if (find_place_or_report(address, size_class, &place))
    remote_free_row(self, size_class, place.slab, place.bitmap_word, place.bit, 1);
}

void remote_free_directly(void *address, uint32_t word) {
  unsigned size_class = word_kind(word);
  slab_place_t place;
  if (find_place_or_report(address, size_class, &place)) deliver(place.slab, size_class, place.bitmap_word, place.bit);
}

void remote_post(owner_t *self) {
  for (size_t i = 0; self->parcel_count > 0; i++)
    if (self->parcels[i] != 0) post(self, &self->parcels[i]);
}

void remote_flush(owner_t *self) {
  for (size_t i = 0; self->outbox_count > 0; i++)
    if (self->outbox->entries[i].bits != 0) send(self, &self->outbox->entries[i], 0);
  remote_post(self);
  self->evictions = 0;
}

static size_t entry_bytes(const outbox_entry_t *entry) {
  return (size_t)__builtin_popcountll(entry->bits) * size_classes[entry->size_class].block_bytes;
}

size_t remote_outbox_bytes(const owner_t *self) {
  size_t bytes = 0;
  for (size_t i = 0; self->outbox_count > 0 && i < OUTBOX_ENTRIES; i++) bytes += entry_bytes(&self->outbox->entries[i]);
  for (size_t i = 0; self->parcel_count > 0 && i < OUTBOX_PARCELS; i++)
    if (self->parcels[i] != 0) bytes += parcel_by_number(self->parcels[i])->bytes;
  return bytes;
}

/* A bit of no block: a block of an earlier slab at this place was freed twice, and the
 * second free came when the slab had just become one of fewer blocks. */
static HAK_COLD uint64_t without_strays(unit_t slab, unsigned word, uint64_t bits) {
  unsigned size_class = map_record(slab)->slab.size_class, capacity = size_classes[size_class].capacity;
  uint64_t blocks = ((uint64_t)1 << capacity % 64) - 1;
  slab_report_twice(slab, size_class, word, bits & ~blocks);
  return bits & blocks;
}

static void collect_slab(owner_t *self, unit_t slab, unsigned size_class) {
  size_t capacity = size_classes[size_class].capacity, words = size_class_bitmap_words(size_class);
  for (unsigned w = 0; w < words; w++) {
    if (atomic64_load_seq(&the_map.remote_bits[slab][w]) == 0) continue;
    /* R2; acquire: pairs with W1 in deliver. */
    uint64_t bits = atomic64_exchange_seq(&the_map.remote_bits[slab][w], 0);
    if (HAK_UNLIKELY(w + 1 == words && capacity % 64 != 0 && bits >> capacity % 64 != 0))
      bits = without_strays(slab, w, bits);
    if (HAK_UNLIKELY(bits == 0)) continue; /* strays alone, or taken back since the load */
    slab_put_bits(self, slab, w, bits, bits_count(bits));
    /* The last of them may have emptied the slab, and it may be gone. No bit is
     * left then: capacity = out + free + remote, and free = capacity. */
    if (atomic32_load_relaxed(map_word(slab)) != word_make(self->id, size_class)) return;
  }
}

/* A slab may be another's by now; or gone, and then its blocks were freed twice. */
static void collect_parcel(owner_t *self, const parcel_t *parcel) {
  for (unsigned i = 0; i < parcel->count; i++) {
    const outbox_entry_t *entry = &parcel->entries[i];
    uint32_t word = atomic32_load_relaxed(map_word(entry->slab));
    /* A slab of the class, so the entry's unit is its first: slab_find_place has aligned that for the class. */
    if (HAK_LIKELY(word == word_make(self->id, entry->size_class))) {
      HAK_ASSERT(slab_starts_shared(entry->slab, word));
      slab_put_bits(self, entry->slab, entry->word, entry->bits, bits_count(entry->bits));
    } else {
      deliver_entry(entry);
    }
  }
}

size_t remote_collect(owner_t *self, size_t most) {
  size_t collected = 0;
  for (parcel_t *parcel; collected < most && (parcel = parcel_receive(self)) != NULL; collected++) {
    collect_parcel(self, parcel);
    parcel_give(self, parcel);
  }
  for (; collected < most; collected++) {
    /* Acquire: pairs with the push in announce. */
    if (self->pending_taken == 0) self->pending_taken = atomic32_exchange_acquire(&self->pending.head, 0);
    unit_t slab = self->pending_taken;
    if (slab == 0) break;
    self->pending_taken = the_map.shared[slab].pending_next;   /* before R1: afterwards it is another's */
    atomic32_exchange_seq(&the_map.shared[slab].announced, 0); /* R1 */
    uint32_t word = atomic32_load_seq(map_word(slab));         /* not before R1 */
    if (!slab_starts_shared(slab, word)) continue;             /* gone since */
    if (word_owner(word) == self->id) collect_slab(self, slab, word_kind(word));
    else announce(slab);
  }
  return collected;
}
