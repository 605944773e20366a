/* See runner.h. SPDX-License-Identifier: MIT */
#include "runner.h"

#include "fail.h"
#include "machine.h"
#include "operation.h"
#include "support/process.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace hak_fuzz {

const std::vector<std::string> kSettings = {"HAKMEM_ABORT_ON_ERROR=0", "HAKMEM_INT=inline"};

/* An input takes some hundredths of a second; one that takes so long hangs. */
static constexpr unsigned kInputSeconds = 60;

static Progress *shared_progress() {
  static Progress *shared = [] {
    void *at = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      std::perror("mmap");
      std::exit(EXIT_FAILURE);
    }
    return new (at) Progress{};
  }();
  return shared;
}

std::string run_in_child(const Input &input) {
  static Machine machine;
  progress = shared_progress();
  progress->record = 0;
  hak_test::Outcome outcome = hak_test::in_child([&] {
    alarm(kInputSeconds);
    machine.run(input.data(), input.size());
    return 0;
  });
  if (outcome.exited_with(0)) return "";
  return "at record " + std::to_string(progress->record.load()) + " of " + std::to_string(input.size() / kRecordBytes) +
         ": " + outcome.describe();
}

std::uint64_t operations_performed() { return shared_progress()->operations; }

/* Takes halves away, then quarters, ... down to single records, as long as what is
 * left still fails: A. Zeller, R. Hildebrandt, "Simplifying and Isolating
 * Failure-Inducing Input", 2002. */
Input cut_down(const Input &failing, unsigned most_runs) {
  Input best = failing;
  std::size_t piece = best.size() / kRecordBytes;
  for (unsigned runs = 0; piece >= 1 && runs < most_runs;) {
    bool found = false;
    for (std::size_t at = 0; at * kRecordBytes < best.size() && runs < most_runs; runs++) {
      Input fewer = best;
      auto from = fewer.begin() + static_cast<std::ptrdiff_t>(at * kRecordBytes);
      auto to = static_cast<std::size_t>(fewer.end() - from) <= piece * kRecordBytes
                    ? fewer.end()
                    : from + static_cast<std::ptrdiff_t>(piece * kRecordBytes);
      fewer.erase(from, to);
      if (fewer.size() >= kRecordBytes && !run_in_child(fewer).empty()) {
        best = fewer;
        found = true;
      } else {
        at += piece;
      }
    }
    if (!found || piece > 1) piece /= 2;
  }
  return best;
}

std::string describe(const Input &input) {
  std::string text;
  for (std::size_t i = 0; (i + 1) * kRecordBytes <= input.size(); i++) {
    Operation o = decode(&input[i * kRecordBytes]);
    char line[200];
    std::snprintf(line, sizeof line,
                  "%4zu  thread %u  %-20s variant %-2u pick %-5u size %-20zu alignment %-8zu count %u\n", i, o.thread,
                  name_of(o.kind), o.variant, o.pick, size_of(o.size), alignment_of(o.alignment), o.count);
    text += line;
  }
  return text;
}

}  // namespace hak_fuzz
