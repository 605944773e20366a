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

/* What start_again_with has to set: mistakes are counted, and one thread at a time runs, so
 * that each run is like the last. */
extern const std::vector<std::string> kSettings;

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
