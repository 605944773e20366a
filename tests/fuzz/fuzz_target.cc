/*
 * The libFuzzer target. Inputs follow one another in one process, on a heap that the
 * earlier ones have used.
 *
 * SPDX-License-Identifier: MIT
 */
#include "generate.h"
#include "machine.h"
#include "runner.h"
#include "support/process.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerInitialize(int *, char ***argv) {
  hak_test::start_again_with(*argv, hak_fuzz::kSettings);
  if (const char *without = std::getenv("HAK_FUZZ_WITHOUT"); without != nullptr && !hak_fuzz::leave_out(without)) {
    std::fprintf(stderr, "HAK_FUZZ_WITHOUT=%s: there is no such part\n", without);
    std::exit(EXIT_FAILURE);
  }
  return 0;
}

/* Now and then an input from a seed instead of a changed one: from nothing, libFuzzer
 * would take long to find rows of operations that go deep. */
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t bytes, std::size_t most);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t bytes, std::size_t most, unsigned seed) {
  if (seed % 8 != 0) return LLVMFuzzerMutate(data, bytes, most);
  std::uint8_t input[hak_fuzz::kMostGenerated];
  std::size_t length = std::min(hak_fuzz::generate(1, seed, input), most);
  std::memcpy(data, input, length);
  return length;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t bytes) {
  static hak_fuzz::Machine machine;
  machine.run(data, bytes);
  return 0;
}
