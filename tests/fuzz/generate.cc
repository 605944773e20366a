/* See generate.h. SPDX-License-Identifier: MIT */
#include "generate.h"

#include "operation.h"
#include "support/payload.h"

namespace hak_fuzz {

static_assert(kMostGenerated % kRecordBytes == 0, "whole records");

std::size_t generate(std::uint64_t seed, std::uint64_t number, std::uint8_t *input) {
  hak_test::Random random(hak_test::mix(seed) + number);
  std::size_t records = random.size_between(8, kMostGenerated / kRecordBytes);

  /* The theme: some kinds come often, some not at all, and most sizes are of a few. */
  Kind often[4];
  for (Kind &kind : often) kind = static_cast<Kind>(random.below(kKinds));
  unsigned often_share = static_cast<unsigned>(random.below(3) * 25);
  std::uint32_t never = static_cast<std::uint32_t>(random.next()) & static_cast<std::uint32_t>(random.next());
  never &= ~7u; /* allocating stays */
  std::uint16_t sizes[4];
  constexpr std::size_t kLeast[4] = {0, 96, 160, 208}, kMost[4] = {100, 176, 226, 256};
  std::size_t range = random.below(4);
  for (std::uint16_t &size : sizes)
    size = static_cast<std::uint16_t>(random.between(kLeast[range], kMost[range] - 1) | random.below(256) << 8);
  unsigned sizes_share = static_cast<unsigned>(random.below(4) * 30);
  unsigned main_share = static_cast<unsigned>(random.below(3) * 40); /* of records for the main thread */

  for (std::size_t i = 0; i < records; i++) {
    std::uint8_t *r = input + i * kRecordBytes;
    std::uint64_t bits = random.next();
    for (std::size_t byte = 0; byte < kRecordBytes; byte++) r[byte] = static_cast<std::uint8_t>(bits >> 8 * byte);
    if (random.below(100) < often_share) write_kind(r, often[random.below(4)]);
    for (int tries = 0; tries < 4 && (never >> static_cast<unsigned>(decode(r).kind) & 1) != 0; tries++)
      r[0] = static_cast<std::uint8_t>(random.next());
    if (random.below(100) < main_share) r[1] &= 0xf8;
    if (random.below(100) < sizes_share) {
      std::uint16_t size = sizes[random.below(4)];
      r[4] = static_cast<std::uint8_t>(size);
      if (random.below(2) == 0) r[5] = static_cast<std::uint8_t>(size >> 8);
    }
  }
  /* A limit that is there before the first block is another one: the window is not
   * reserved then. */
  if (random.below(8) == 0) write_kind(input, Kind::kLimitAddressSpace);
  return records * kRecordBytes;
}

}  // namespace hak_fuzz
