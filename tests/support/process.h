/*
 * Running programs and children, and looking at one's own process.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_PROCESS_H
#define HAK_TESTS_SUPPORT_PROCESS_H

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace hak_test {

/* How a process ended and what it said. */
struct Outcome {
  int status = -1; /* as waitpid gives it */
  std::string out, err;

  bool exited_with(int code) const;
  bool killed_by(int signal) const;
  /* "exit status 3", "killed by signal 6", and both outputs: for failure messages. */
  std::string describe() const;
};

/* A child that still runs after this long is killed by SIGALRM: a hang becomes
 * a failure. Long enough never to matter otherwise. */
constexpr unsigned kWatchdogSeconds = HAK_TEST_WATCHDOG;

/* Runs a program (argv[0] is looked up in PATH) with `environment` added to or
 * replacing the own one ("NAME=value"; "NAME" removes). */
Outcome run(const std::vector<std::string> &argv, const std::vector<std::string> &environment = {});

/* Starts this program again with `settings` ("NAME=value") in its environment, which the allocator
 * reads before main, unless they are there. */
void start_again_with(char **argv, const std::vector<std::string> &settings);

/* Runs `body` in a forked child, which then leaves by _exit(body()). */
Outcome in_child(const std::function<int()> &body);

/* From /proc/self/statm, without allocating. */
std::size_t resident_bytes();
/* A field of /proc/self/status such as "VmData:", 0 if absent; without allocating. */
std::size_t status_kib(const char *field);

/* Makes the peak of resident memory, "VmHWM:", start anew from what is resident now. */
void reset_peak();

/* Returns when a thread of this process has given its number (gettid), and sleeps. */
void wait_until_asleep(const std::atomic<int> &thread_id);

/* The number of lines of `text` in which `needle` occurs. */
std::size_t lines_with(const std::string &text, const std::string &needle);

}  // namespace hak_test
#endif
