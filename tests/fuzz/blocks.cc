/* The machine's operations on blocks. SPDX-License-Identifier: MIT */
#include "machine.h"

#include "fail.h"
#include "pattern.h"
#include "schedule.h"
#include "testing.h"

#include <algorithm>
#include <cerrno>
#include <malloc.h>

namespace hak_fuzz {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;
constexpr std::size_t kMostBytes = 384 * kMiB, kMostOfMany = 16 * kMiB;

/* The work of one record may not grow without bound, whatever the blocks' sizes. */
constexpr std::uint32_t kSpare = 1500;

}  // namespace

/* ---- Choosing ------------------------------------------------------------------------*/
std::uint32_t Machine::pick(const Operation &o) const {
  return together_ ? model_.pick(schedule_this_thread(), o.pick) : model_.pick_of_all(o.pick);
}

/* A giant is asked for only where it will be refused: granted, it would make every
 * walk over the heap slow. */
bool Machine::refuses_giants() const {
  return trouble_.is_exhausted() || (trouble_.is_limited() && has(Part::kRefusedGiants));
}
std::size_t Machine::tamed(std::size_t bytes) const {
  return bytes < kGiB || Trouble::is_absurd(bytes, 1) || refuses_giants() ? bytes : bytes % (64 * kMiB);
}
std::size_t Machine::tamed_alignment(std::size_t alignment) const {
  return alignment < kGiB || Trouble::is_absurd(1, alignment) || refuses_giants() ? alignment : 65536;
}

bool Machine::has_room(std::size_t bytes) const {
  return model_.count() + kSpare < Model::kMost && (bytes >= kGiB || model_.asked_bytes() + bytes <= kMostBytes);
}

/* ---- Heaps of the program's own ---------------------------------------------------------*/

/* A quarter of the requests goes to one. While threads run together none is made. */
unsigned Machine::heap_for(const Operation &o, Function function) {
  bool has_such = function == Function::kMalloc || function == Function::kCalloc || function == Function::kAlignedAlloc;
  if (!has(Part::kHeaps) || !has_such || o.pick % 4 != 0) return 0;
  unsigned number = 1 + o.pick / 4 % kHeaps;
  if (heaps_[number] != nullptr || together_) return heaps_[number] != nullptr ? number : 0;
  errno = 0;
  heaps_[number] = hak_heap_new(0);
  if (heaps_[number] != nullptr) return number;
  refused("a heap", 0, 1, errno);
  return 0;
}

/* Its blocks are gone with it. */
void Machine::destroy_heap(unsigned number) {
  if (heaps_[number] == nullptr || together_) return;
  for (std::size_t i = model_.count(); i-- > 0;) {
    std::uint32_t id = model_.pick_of_all(i);
    if (model_.block(id).heap == number) model_.take(id);
  }
  errno = 4321;
  hak_heap_destroy(heaps_[number]);
  if (errno != 4321) fail("hak_heap_destroy changed errno to %d", errno);
  heaps_[number] = nullptr;
}

Request Machine::request_of(const Operation &o) {
  using F = Function;
  constexpr F kOf[32] = {F::kMalloc,       F::kMalloc,        F::kMalloc,           F::kMalloc,
                         F::kMalloc,       F::kMalloc,        F::kMalloc,           F::kCalloc,
                         F::kCalloc,       F::kCalloc,        F::kCalloc,           F::kCalloc,
                         F::kReallocNull,  F::kReallocNull,   F::kReallocarrayNull, F::kAlignedAlloc,
                         F::kAlignedAlloc, F::kAlignedAlloc,  F::kAlignedAlloc,     F::kAlignedAlloc,
                         F::kAlignedAlloc, F::kPosixMemalign, F::kPosixMemalign,    F::kPosixMemalign,
                         F::kMemalign,     F::kMemalign,      F::kValloc,           F::kPvalloc,
                         F::kNew,          F::kNewArray,      F::kNewAligned,       F::kNewArrayAligned};
  constexpr F kWithoutLibc[8] = {F::kAlignedAlloc, F::kPosixMemalign, F::kMalloc,       F::kCalloc,
                                 F::kMalloc,       F::kCalloc,        F::kAlignedAlloc, F::kPosixMemalign};
  Request r = {};
  r.function = kOf[o.variant];
  if (!kServed && r.function >= F::kMemalign) r.function = kWithoutLibc[o.variant % 8];
  r.by_libc = (o.alignment & 128) != 0;
  r.nothrow = (o.alignment & 64) != 0;
  r.bytes = tamed(size_of(o.size));
  r.alignment = tamed_alignment(alignment_of(o.alignment));
  if (r.function >= F::kNewAligned) r.alignment = std::size_t{1} << o.alignment % 24; /* the language's rule */
  r.count = 1;
  if (r.function == F::kCalloc || r.function == F::kReallocarrayNull) {
    r.count = 1 + o.count % 7;
    r.bytes -= r.bytes % r.count;
  }
  r.heap = heaps_[heap_for(o, r.function)]; /* of number 0 there is none */
  return r;
}

/* ---- Allocating ----------------------------------------------------------------------*/

/* A call that asks for memory, while threads run together: before the model has its block, another may be
 * refused for want of what this one has got. */
class Machine::Asking {
 public:
  Asking(Machine &machine, std::size_t bytes, std::size_t alignment)
      : machine_(machine), cost_(std::min(bytes, kMostCost) + std::min(alignment, kMostCost)) {
    std::size_t now = machine_.asked_now_ += cost_, most = machine_.asked_most_;
    while (machine_.together_ && now > most && !machine_.asked_most_.compare_exchange_weak(most, now)) {}
  }
  ~Asking() { machine_.asked_now_ -= cost_; }
  Asking(const Asking &) = delete;
  Asking &operator=(const Asking &) = delete;

 private:
  static constexpr std::size_t kMostCost = std::size_t{1} << 48; /* no machine has more */
  Machine &machine_;
  std::size_t cost_;
};

/* A request was refused: rightly? */
void Machine::refused(const char *what, std::size_t bytes, std::size_t alignment, int error) {
  if (error != ENOMEM) fail("%s of %zu bytes, alignment %zu, was refused with error %d", what, bytes, alignment, error);
  if (Trouble::is_absurd(bytes, alignment)) return;
  if (!trouble_.may_refuse(bytes, alignment, model_.peak_bytes() + asked_most_))
    fail("%s of %zu bytes, alignment %zu, was refused although there is memory%s", what, bytes, alignment,
         trouble_.is_limited() ? " within the limit" : "");
  if (bytes < kGiB && alignment < kGiB) trouble_.was_refused(); /* a giant needs no failing call for that */
}

bool Machine::allocate_one(const Request &r) {
  if (!has_room(r.bytes)) return false;
  Asking asking(*this, promised_bytes(r), promised_alignment(r));
  errno = 1234;
  Answer answer = allocate(r);
  if (r.function == Function::kPosixMemalign && errno != 1234) fail("posix_memalign changed errno to %d", errno);
  std::size_t bytes = promised_bytes(r), alignment = promised_alignment(r);
  if (answer.block == nullptr) {
    if (is_invalid_alignment(r) && answer.error == EINVAL) return false;
    if (r.function == Function::kMemalign && r.alignment > PTRDIFF_MAX / 2 && !has(Part::kAbsurdMemalign)) return false;
    if (is_invalid_alignment(r)) fail("%s took the alignment %zu", name_of(r.function), r.alignment);
    refused(name_of(r.function), bytes, alignment, answer.error);
    return false;
  }
  if (is_invalid_alignment(r)) fail("%s took the alignment %zu", name_of(r.function), r.alignment);
  if (Trouble::is_absurd(bytes, alignment)) fail("%s gave a block of %zu bytes", name_of(r.function), bytes);
  Block b = {};
  b.at = static_cast<unsigned char *>(answer.block);
  b.bytes = bytes;
  b.usable = usable_size(answer.block, r.by_libc);
  b.alignment = alignment;
  b.asked_alignment = r.alignment;
  b.key = next_key_++ << 32;
  b.origin = origin_of(r);
  while (r.heap != heaps_[b.heap]) b.heap++;
  if (r.heap != nullptr && !hak_heap_owns(r.heap, b.at)) fail("a heap does not own its block");
  b.holder = static_cast<std::uint8_t>(schedule_this_thread());
  std::uint32_t id = model_.add(b);
  if (bytes >= kGiB) { /* what is that large is not written to */
    release(model_.take(id), Told::kNothing, r.by_libc);
    return true;
  }
  if (r.function == Function::kCalloc) {
    std::size_t where = first_not_zero(b.at, bytes);
    if (where != SIZE_MAX) fail("byte %zu of %zu from calloc is not zero", where, bytes);
  }
  model_.write(id);
  return true;
}

void Machine::allocate_many(const Operation &o) {
  Request r = request_of(o);
  std::size_t most = r.bytes < kMostOfMany ? kMostOfMany / (r.bytes + 16) : 1;
  for (std::size_t n = 0; n <= o.count && n < most; n++)
    if (!allocate_one(r)) return;
}

/* ---- Reallocating ----------------------------------------------------------------------*/
void Machine::resize(const Operation &o) {
  std::uint32_t id = pick(o);
  if (id == Model::kNone || model_.block(id).origin >= Origin::kNew) return;
  std::size_t old_bytes = model_.block(id).bytes, bytes = tamed(size_of(o.size));
  if (o.variant < 8) bytes = old_bytes + old_bytes * (o.count % 32) / 16 + 1; /* a little more */
  else if (o.variant < 13) bytes = old_bytes * (o.count % 16) / 16;           /* less, or nothing */
  bool by_libc = (o.alignment & 128) != 0;
  if (bytes > old_bytes && !has_room(bytes - old_bytes)) return;
  if (!has(Part::kGrowAligned) && trouble_.is_any() && model_.block(id).alignment > 65536) return;

  Asking asking(*this, bytes, 1);
  Block old = model_.take(id);
  errno = 1234;
  bool by_heap = old.heap != 0 && o.pick % 2 == 0;
  void *moved = by_heap ? hak_heap_realloc(heaps_[old.heap], old.at, bytes)
                        : reallocate(old.at, bytes, by_libc, (o.alignment & 64) != 0);
  if (bytes == 0) {
    if (moved != nullptr) fail("realloc to 0 bytes gave a block");
    return;
  }
  if (moved == nullptr) {
    int error = errno;
    model_.put_back(old);
    if (bytes <= old.bytes) fail("realloc from %zu to %zu bytes was refused", old.bytes, bytes);
    refused("realloc", bytes, 1, error);
    return;
  }
  if (Trouble::is_absurd(bytes, 1)) fail("realloc gave a block of %zu bytes", bytes);
  if (moved != old.at) trouble_.was_moved(old.at, old.usable);
  Block b = old;
  b.at = static_cast<unsigned char *>(moved);
  b.bytes = bytes;
  b.usable = usable_size(moved, by_libc);
  b.alignment = 16;
  if (b.heap != 0 && !hak_heap_owns(heaps_[b.heap], moved)) fail("realloc has taken a block out of its heap");
  b.key = next_key_++ << 32;
  b.origin = Origin::kSized;
  b.was_reallocated = true;
  b.may_be_roomy = old.may_be_roomy || bytes < old.bytes || old.bytes == 0 || old.origin != Origin::kSized;
  b.is_written = false;
  std::uint32_t new_id = model_.add(b);
  std::size_t kept = bytes < old.bytes ? bytes : old.bytes;
  std::size_t where = pattern_differs(moved, kept, old.bytes, old.key);
  if (where != SIZE_MAX) fail("realloc from %zu to %zu bytes has lost byte %zu", old.bytes, bytes, where);
  if (bytes >= kGiB) {
    release(model_.take(new_id), Told::kNothing, by_libc);
    return;
  }
  model_.write(new_id);
}

/* ---- Freeing -----------------------------------------------------------------------------*/
/* The operator is stricter than free_sized: it has to take a block that was grown, not one that a request for its
 * size is never served with because realloc has left it as large as it was. */
Told Machine::told_of(const Block &b, const Operation &o) const {
  if (o.variant % 2 == 0 || (b.was_reallocated && !has(Part::kSizedAfterRealloc))) return Told::kNothing;
  return (o.alignment & 64) != 0 && b.heap == 0 && !b.may_be_roomy ? Told::kSizeByOperator : Told::kSize;
}

void Machine::free_one(std::uint32_t id, const Operation &o) {
  if (id == Model::kNone) return;
  Block b = model_.take(id);
  Told told = told_of(b, o);
  errno = 4321;
  if (b.heap != 0 && o.variant % 4 == 2) hak_heap_free(heaps_[b.heap], b.at);
  else release(b, told, (o.alignment & 128) != 0);
  if (errno != 4321) fail("a free changed errno to %d", errno);
  if (told == Told::kNothing || together_) return;
  if (stats().errors != expected_errors_)
    fail("a correct sized free of %zu bytes, of a block that holds %zu, was taken for a mistake", b.bytes, b.usable);
}

/* From one block on, in order of address or every so many. */
void Machine::free_many(const Operation &o) {
  Operation each = o;
  each.variant = o.variant / 2 % 4 == 0 ? o.variant : 0; /* a look at the statistics after each would be slow */
  for (unsigned n = 0; n <= o.count; n++) {
    std::uint32_t id = pick(each);
    if (id == Model::kNone) return;
    free_one(id, each);
    each.pick = static_cast<std::uint16_t>(each.pick + o.variant % 3);
  }
}

void Machine::free_all(const Operation &o) {
  Operation each = o;
  each.variant = 0;
  while (model_.count() > 0) {
    each.pick = static_cast<std::uint16_t>(each.pick * 5 + 1);
    free_one(pick(each), each);
  }
}

/* ---- The rest ------------------------------------------------------------------------------*/
void Machine::hand_over(const Operation &o) {
  if (!together_) return;
  for (unsigned n = 0; n <= o.count % 8u; n++) {
    std::uint32_t id = pick(o);
    if (id != Model::kNone) model_.hand_over(id, 1 + o.variant % together_threads_);
  }
}

/* Makes every page of a block resident, beside its pattern. */
void Machine::fill(const Operation &o) {
  std::uint32_t id = pick(o);
  if (id == Model::kNone) return;
  const Block &b = model_.block(id);
  for (std::size_t at = 1024; at + 128 < b.bytes && b.bytes > 4096 && at < 32 * kMiB; at += 4096) b.at[at] = 1;
}

void Machine::look(const Operation &o) {
  std::uint32_t id = pick(o);
  int local = 0;
  bool by_libc = (o.alignment & 128) != 0;
  if (hak_owns(&local)) fail("a local variable is taken for a block");
  if (usable_size(nullptr, by_libc) != 0) fail("a null pointer has a usable size");
  hak_free(nullptr);
  hak_free_sized(nullptr, o.size);
  std::size_t large = SIZE_MAX / 2 + 2 + o.pick;
  errno = 0;
  if (void *block = hak_calloc(large, 2 + o.count); block != nullptr || errno != ENOMEM)
    fail("calloc gave %p for a product that is no size, errno %d", block, errno);
  errno = 0;
  if (void *block = hak_reallocarray(nullptr, large, 2 + o.count); block != nullptr || errno != ENOMEM)
    fail("reallocarray gave %p for a product that is no size, errno %d", block, errno);
  if (id != Model::kNone) {
    const Block &b = model_.block(id);
    if (usable_size(b.at, by_libc) != b.usable) fail("the usable size of a live block has changed");
    if (!hak_owns(b.at) || !hak_owns(b.at + b.usable - 1)) fail("a live block is not owned");
  }
  hak_stats_t now = stats();
  if (now.live < model_.usable_bytes())
    fail("%zu bytes are live, and the program holds %zu", now.live, model_.usable_bytes());
  const std::size_t blocks = now.slab_bytes + now.large_bytes + now.huge_bytes;
  if (now.live + now.cached + now.outboxes + now.free_in_slabs != blocks ||
      blocks + now.slab_tails + now.dirty_free + now.clean_free != now.committed)
    fail("the sums of hak_stats are off");
#if defined(HAK_FUZZ_SERVED)
  struct mallinfo2 info = mallinfo2();
  if (info.uordblks + info.hblkhd < model_.usable_bytes()) fail("mallinfo2 counts less than the program holds");
#endif
}

}  // namespace hak_fuzz
