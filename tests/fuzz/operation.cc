/* See operation.h. SPDX-License-Identifier: MIT */
#include "operation.h"

namespace hak_fuzz {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kKiB * kMiB;

/* How many of the 256 values of the first byte stand for each kind. */
struct Share {
  Kind kind;
  const char *name;
  unsigned values;
};
constexpr Share kShares[kKinds] = {
    {Kind::kAllocate, "allocate", 64},
    {Kind::kAllocateMany, "allocate many", 14},
    {Kind::kRealloc, "realloc", 38},
    {Kind::kFree, "free", 44},
    {Kind::kFreeMany, "free many", 14},
    {Kind::kFreeAll, "free all", 2},
    {Kind::kHandOver, "hand over", 5},
    {Kind::kFill, "fill", 3},
    {Kind::kBurst, "burst", 10},
    {Kind::kThreadEnd, "thread end", 5},
    {Kind::kFlush, "flush", 6},
    {Kind::kTrim, "trim", 5},
    {Kind::kSettle, "settle", 3},
    {Kind::kFork, "fork", 2},
    {Kind::kForkInHandler, "fork in a handler", 1},
    {Kind::kRefuseOne, "refuse one call", 7},
    {Kind::kRefuseAll, "refuse all calls", 4},
    {Kind::kRecover, "recover", 6},
    {Kind::kLimitData, "limit data", 3},
    {Kind::kLimitAddressSpace, "limit address space", 1},
    {Kind::kLock, "lock a page", 4},
    {Kind::kUnlock, "unlock", 2},
    {Kind::kClock, "clock", 4},
    {Kind::kLook, "look", 3},
    {Kind::kCheck, "check", 2},
    {Kind::kMisuse, "misuse", 3},
    {Kind::kDestroyHeap, "destroy a heap", 1},
};

constexpr unsigned total_of_shares() {
  unsigned total = 0;
  for (const Share &share : kShares) total += share.values;
  return total;
}
static_assert(total_of_shares() == 256, "every first byte stands for an operation");

/* The table is in the order of Kind. */
constexpr bool in_order() {
  for (std::size_t i = 0; i < kKinds; i++)
    if (static_cast<std::size_t>(kShares[i].kind) != i) return false;
  return true;
}
static_assert(in_order(), "name_of looks a kind up by its number");

/* The j-th of the sizes that go up from `first` by `steps` steps a doubling. */
constexpr std::size_t stepped(std::size_t first, std::size_t steps, std::size_t j) {
  return (first << j / steps) / steps * (steps + j % steps);
}

std::size_t base_of(std::size_t code) {
  if (code < 96) return 16 * code;
  if (code < 160) return stepped(kKiB, 8, code - 96);
  if (code < 176) return 64 * kKiB * (code - 159);
  if (code < 224) return stepped(256 * kKiB, 8, code - 176);
  if (code < 240) return stepped(16 * kMiB, 4, code - 224);
  if (code < 248) return kGiB << 2 * (code - 240);
  constexpr std::size_t kAbsurd[8] = {PTRDIFF_MAX - 65536, PTRDIFF_MAX - 1, PTRDIFF_MAX,  std::size_t{PTRDIFF_MAX} + 1,
                                      SIZE_MAX / 4 * 3,    SIZE_MAX - 4096, SIZE_MAX - 1, SIZE_MAX};
  return kAbsurd[code - 248];
}

}  // namespace

Operation decode(const std::uint8_t *r) {
  constexpr std::uint8_t kThreadOf[8] = {0, 0, 0, 1, 1, 2, 3, 4};
  Operation o = {};
  unsigned value = r[0];
  for (const Share &share : kShares) {
    o.kind = share.kind;
    if (value < share.values) break;
    value -= share.values;
  }
  o.thread = kThreadOf[r[1] % 8];
  o.variant = static_cast<std::uint8_t>(r[1] / 8);
  o.pick = static_cast<std::uint16_t>(r[2] | r[3] << 8);
  o.size = static_cast<std::uint16_t>(r[4] | r[5] << 8);
  o.alignment = r[6];
  o.count = r[7];
  return o;
}

void write_kind(std::uint8_t *record, Kind kind) {
  unsigned value = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kind); i++) value += kShares[i].values;
  record[0] = static_cast<std::uint8_t>(value);
}

const char *name_of(Kind kind) { return kShares[static_cast<std::size_t>(kind)].name; }

std::size_t size_of(std::uint16_t code) {
  constexpr std::ptrdiff_t kNear[16] = {0, 1, -1, 8, -8, 15, -15, 16, -16, 17, -17, 0, 1, -1, 4096, -4096};
  std::size_t base = base_of(code & 255), high = code >> 8;
  if (high >= 128) { /* anywhere up to the next bound */
    std::size_t more = (base / 8 + 16) / 128 * (high - 128) + (high - 128) % 16;
    return base > PTRDIFF_MAX - 65536 ? base : base + more;
  }
  std::ptrdiff_t change = kNear[high % 16];
  std::size_t changed = base + static_cast<std::size_t>(change); /* modulo 2^64 */
  bool wraps = change < 0 ? changed > base : changed < base;
  return wraps ? base : changed;
}

std::size_t alignment_of(std::uint8_t code) {
  constexpr std::size_t kOthers[8] = {16, 4096, 65536, 131072, 0, 24, std::size_t{1} << 40, std::size_t{1} << 62};
  code %= 32;
  return code < 24 ? std::size_t{1} << code : kOthers[code - 24];
}

}  // namespace hak_fuzz
