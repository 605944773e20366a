/*
 * What the tests of misuse are run for: a block of every range of sizes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_DEATH_MISTAKES_H
#define HAK_TESTS_DEATH_MISTAKES_H

#include "support/payload.h"

#include <hakmem.h>

#include <cstddef>
#include <ostream>

/* Sizes whose blocks are managed differently. */
struct Range {
  const char *name;
  std::size_t bytes;
  bool has_class; /* a block of a slab: a report can name its class after it was freed */
};
inline std::ostream &operator<<(std::ostream &out, const Range &range) { return out << range.bytes << " bytes"; }
inline constexpr Range kRanges[] = {
    {"Tiny48", 48, true},         {"Tiny1024", 1024, true},        {"Mid8K", 8192, true},
    {"Mid40000", 40000, true},    {"Large300K", 300 << 10, false}, {"Large3M", 3 << 20, false},
    {"Huge10M", 10 << 20, false},
};

/* The block that a mistake is about, among neighbours that stay live. */
struct Victim {
  char *block;
  std::size_t bytes;  /* as asked for   */
  std::size_t usable; /* as it is       */
};

/* By hakmem's own name, which serves in programs where malloc is another's, too. */
inline Victim make(std::size_t bytes) {
  void *before = hak_malloc(bytes), *block = hak_malloc(bytes), *after = hak_malloc(bytes);
  (void)hak_test::opaque(before);
  (void)hak_test::opaque(after);
  return {static_cast<char *>(hak_test::opaque(block)), bytes, hak_usable_size(block)};
}

#endif
