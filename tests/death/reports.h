/*
 * What a program says that dies of a mistake: one line, which names the address.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_DEATH_REPORTS_H
#define HAK_TESTS_DEATH_REPORTS_H

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

/* Tells the matcher below, by way of standard error, what the report must name. Not with
 * stdio, whose write ends a thread that is to be cancelled. */
inline void announce(const void *address, std::size_t block_bytes) {
  char line[100];
  int n = std::snprintf(line, sizeof line, "victim %p of %zu bytes\n", address, block_bytes);
  (void)!syscall(SYS_write, STDERR_FILENO, line, n);
}

/* Matches standard error when exactly one line of it is a report of hakmem, and that
 * line names the announced address and what was wrong, and, if asked, the block's size. */
class Reports {
 public:
  using is_gtest_matcher = void;
  Reports(std::string what, bool with_size) : what_(std::move(what)), with_size_(with_size) {}

  bool MatchAndExplain(const std::string &text, testing::MatchResultListener *why) const;
  void DescribeTo(std::ostream *out) const { *out << "is one report like \"" << what_ << "\""; }
  void DescribeNegationTo(std::ostream *out) const { *out << "is no report like \"" << what_ << "\""; }

 private:
  std::string what_;
  bool with_size_;
};

inline const char *const kDoubleFree = "double free|already free";
inline const char *const kInvalid = "invalid|interior|wild";
inline const char *const kAnyFree = "double free|already free|invalid";
inline const char *const kSize = "size";

/* `statement` may only return if nothing was noticed. */
#define EXPECT_REPORT(statement, what, with_size) \
  EXPECT_EXIT(                                    \
      {                                           \
        statement;                                \
        std::fputs("nobody noticed\n", stderr);   \
      },                                          \
      testing::KilledBySignal(SIGABRT), Reports(what, with_size))

#endif
