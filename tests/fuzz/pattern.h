/*
 * What the fuzzer writes into blocks: a pattern by a key of the block's own. A
 * block up to 4 KiB carries it whole, a larger one at both ends and at the start of
 * its pages: those of the first MiB, then one in 64 KiB, so that a block of 100 MiB
 * costs no more than it must. Nothing here allocates.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_PATTERN_H
#define HAK_TESTS_FUZZ_PATTERN_H

#include <cstddef>
#include <cstdint>

namespace hak_fuzz {

void write_pattern(void *block, std::size_t bytes, std::uint64_t key);
/* Where the first `kept` bytes of a block that was written as `bytes` long differ
 * from its pattern; SIZE_MAX if they do not. */
std::size_t pattern_differs(const void *block, std::size_t kept, std::size_t bytes, std::uint64_t key);
/* The first byte that is not zero; SIZE_MAX if all are. Looks at every byte of 8 MiB,
 * and beyond at the first 64 of every page. */
std::size_t first_not_zero(const void *block, std::size_t bytes);

}  // namespace hak_fuzz
#endif
