/*
 * How far an input has come, and how its run ends when something is wrong.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_FAIL_H
#define HAK_TESTS_FUZZ_FAIL_H

#include <atomic>
#include <cstdint>

namespace hak_fuzz {

/* Lies in memory that a driver shares with the process that runs the input. */
struct Progress {
  std::atomic<std::uint64_t> operations; /* that did something, over all inputs */
  std::atomic<std::uint32_t> record;     /* the one that runs                   */
};
extern Progress *progress;

/* One line on standard error with the number of the record, then abort(). Allocates
 * nothing. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace hak_fuzz
#endif
