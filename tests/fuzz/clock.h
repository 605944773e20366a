/*
 * The coarse clock, by which the allocator ages what it caches, goes as the input
 * says and not as the machine does.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_CLOCK_H
#define HAK_TESTS_FUZZ_CLOCK_H

#include <cstdint>

namespace hak_fuzz {

void clock_advance(std::uint64_t ms);

}  // namespace hak_fuzz
#endif
