/*
 * What an input says: a byte string is a row of records of eight bytes, and each
 * is one operation. Every byte string is a valid input, a record means the same
 * wherever it stands, and to take records out leaves the others as they are, so
 * inputs can be cut down and joined.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_OPERATION_H
#define HAK_TESTS_FUZZ_OPERATION_H

#include <cstddef>
#include <cstdint>

namespace hak_fuzz {

enum class Kind : std::uint8_t {
  kAllocate,
  kAllocateMany,
  kRealloc,
  kFree,
  kFreeMany,
  kFreeAll,
  kHandOver,
  kFill,
  kBurst,
  kThreadEnd,
  kFlush,
  kTrim,
  kSettle,
  kFork,
  kForkInHandler,
  kRefuseOne,
  kRefuseAll,
  kRecover,
  kLimitData,
  kLimitAddressSpace,
  kLock,
  kUnlock,
  kClock,
  kLook,
  kCheck,
  kMisuse,
  kDestroyHeap,
};
constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kDestroyHeap) + 1;

/* As written: what the fields mean is said where they are used. */
struct Operation {
  Kind kind;
  std::uint8_t thread;    /* 0..4: the main thread, and workers  */
  std::uint8_t variant;   /* 0..31                               */
  std::uint16_t pick;     /* which block                         */
  std::uint16_t size;     /* size_of                             */
  std::uint8_t alignment; /* alignment_of; the high bits: forms  */
  std::uint8_t count;
};

constexpr std::size_t kRecordBytes = 8;
constexpr unsigned kThreads = 5;

Operation decode(const std::uint8_t *record);
/* A record that decodes to the kind; the other bytes are the caller's. */
void write_kind(std::uint8_t *record, Kind kind);
const char *name_of(Kind kind);

/* The size that a code stands for: the bounds of the size classes, a little more
 * and a little less, everything between, and sizes that no machine has. Small
 * codes are small sizes. */
std::size_t size_of(std::uint16_t code);
/* Powers of two to 8 MiB for most codes; some that are none, or absurd. */
std::size_t alignment_of(std::uint8_t code);

}  // namespace hak_fuzz
#endif
