/*
 * The libFuzzer target. Inputs follow one another in one process, on a heap that the
 * earlier ones have used.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include "runner.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerInitialize(int *, char ***argv) {
  hak_fuzz::run_with_mistakes_counted(*argv);
  if (const char *without = std::getenv("HAK_FUZZ_WITHOUT"); without != nullptr && !hak_fuzz::leave_out(without)) {
    std::fprintf(stderr, "HAK_FUZZ_WITHOUT=%s: there is no such part\n", without);
    std::exit(EXIT_FAILURE);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t bytes) {
  static hak_fuzz::Machine machine;
  machine.run(data, bytes);
  return 0;
}
