/*
 * Runs inputs, each in a process of its own with a heap that nobody has used, and cuts
 * down those that fail.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_RUNNER_H
#define HAK_TESTS_FUZZ_RUNNER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hak_fuzz {

using Input = std::vector<std::uint8_t>;

/* Starts this program again with HAKMEM_ABORT_ON_ERROR=0, which the allocator reads
 * before main, unless it is set already. */
void run_with_mistakes_counted(char **arguments);

/* What was wrong; empty if the input ran to its end. */
std::string run_in_child(const Input &input);

/* Operations that all inputs have performed so far. */
std::uint64_t operations_performed();

/* An input with fewer records that fails as well, found in at most `most_runs` runs. */
Input cut_down(const Input &failing, unsigned most_runs);

/* One line for each record. */
std::string describe(const Input &input);

}  // namespace hak_fuzz
#endif
