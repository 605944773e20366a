/*
 * The fuzzer's short run: inputs that follow from seeds, and the corpus.
 *
 *   HAK_STRESS_SEED=7 build/tests/fuzz/fuzz_test      other inputs
 *   HAK_FUZZ_WITHOUT=locked-pages,… build/tests/fuzz/fuzz_test
 *
 * SPDX-License-Identifier: MIT
 */
#include "generate.h"
#include "machine.h"
#include "runner.h"
#include "support/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace {

using hak_fuzz::Input;

constexpr std::uint64_t kRuns = 16; /* cases, which ctest runs side by side */

std::uint64_t seed() {
  const char *text = std::getenv("HAK_STRESS_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

class FuzzInputs : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Run, FuzzInputs, testing::Range(std::uint64_t{0}, kRuns));

}  // namespace

TEST_P(FuzzInputs, Pass) {
  for (std::uint64_t number = GetParam(); number < HAK_FUZZ_INPUTS; number += kRuns) {
    Input input(hak_fuzz::kMostGenerated);
    input.resize(hak_fuzz::generate(seed(), number, input.data()));
    std::string what = hak_fuzz::run_in_child(input);
    if (!what.empty())
      FAIL() << what << "\nfuzz_soak --seed " << seed() << " --from " << number << " --inputs 1 cuts it down";
  }
}

TEST(FuzzCorpus, Passes) {
  std::size_t inputs = 0;
  for (const auto &entry : std::filesystem::directory_iterator(HAK_FUZZ_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    EXPECT_EQ(hak_fuzz::run_in_child(Input(std::istreambuf_iterator<char>(file), {})), "") << entry.path();
    inputs++;
  }
  EXPECT_GT(inputs, 0u);
}

int main(int argc, char **argv) {
  hak_test::init_with(argc, argv, hak_fuzz::kSettings);
  if (const char *without = std::getenv("HAK_FUZZ_WITHOUT"); without != nullptr && !hak_fuzz::leave_out(without)) {
    std::fprintf(stderr, "HAK_FUZZ_WITHOUT=%s: there is no such part\n", without);
    return EXIT_FAILURE;
  }
  return RUN_ALL_TESTS();
}
