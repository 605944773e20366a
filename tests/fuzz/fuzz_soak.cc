/*
 * Fuzzes for as long as it is told, or runs inputs from files. See README.md.
 *
 * SPDX-License-Identifier: MIT
 */
#include "generate.h"
#include "machine.h"
#include "runner.h"
#include "support/process.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <getopt.h>
#include <iterator>

using namespace hak_fuzz;
namespace fs = std::filesystem;

namespace {

struct Options {
  std::uint64_t seed = 1, inputs = 0;
  double seconds = 0;
  unsigned cut_runs = 300;
  bool show = false;
  fs::path out = ".";
  std::vector<fs::path> files;
};

[[noreturn]] void usage(int status) {
  std::fputs(
      "usage: fuzz_soak [--seed N] [--minutes M | --seconds S | --inputs N] [--from N] [--out FOLDER]\n"
      "                 [--without PART,...]\n"
      "       fuzz_soak [--show] [--without PART,...] FILE|FOLDER...\n"
      "\n"
      "Runs inputs that follow from the seed, or those in files, each in a process of its own.\n"
      "The first that fails is cut down and written to the folder (default: .); the status is 1.\n"
      "The last line is `N passed, N failed`.\n"
      "  --show     says what each record of the files means, and runs nothing\n"
      "  --without  leaves out:",
      status == 0 ? stdout : stderr);
  for (unsigned p = 0; p < kParts; p++)
    std::fprintf(status == 0 ? stdout : stderr, "%s %s", p > 0 ? "," : "", name_of(static_cast<Part>(p)));
  std::fputs("\n", status == 0 ? stdout : stderr);
  std::exit(status);
}

Input read(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::perror(path.c_str());
    std::exit(EXIT_FAILURE);
  }
  return Input(std::istreambuf_iterator<char>(file), {});
}

void write(const fs::path &path, const Input &input) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(input.data()), static_cast<std::streamsize>(input.size()));
  if (!file.flush()) std::perror(path.c_str());
}

/* Says what failed and keeps the input, whole and cut down. */
void report(const Options &options, const Input &input, const std::string &name, const std::string &what) {
  std::printf("\nFAILED %s %s\n", name.c_str(), what.c_str());
  fs::path whole = options.out / ("fuzz-" + name + ".input"), small = options.out / ("fuzz-" + name + ".small.input");
  std::error_code ignored;
  fs::create_directories(options.out, ignored);
  write(whole, input);
  std::printf("cutting it down; the whole input is in %s\n", whole.c_str());
  std::fflush(stdout);
  Input fewer = cut_down(input, options.cut_runs);
  write(small, fewer);
  std::printf("\n%s fails with\n%s%s\n", small.c_str(), describe(fewer).c_str(), run_in_child(fewer).c_str());
}

int run_files(const Options &options) {
  std::vector<fs::path> files;
  for (const fs::path &path : options.files) {
    if (!fs::is_directory(path)) files.push_back(path);
    else
      for (const auto &entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  int failed = 0;
  for (const fs::path &path : files) {
    Input input = read(path);
    if (options.show) {
      std::printf("%s\n%s", path.c_str(), describe(input).c_str());
      continue;
    }
    std::string what = run_in_child(input);
    if (what.empty()) continue;
    std::printf("FAILED %s %s\n", path.c_str(), what.c_str());
    failed++;
  }
  if (!options.show) std::printf("%zu passed, %d failed\n", files.size() - static_cast<std::size_t>(failed), failed);
  return failed == 0 && !files.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run_seed(const Options &options, std::uint64_t from) {
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::uint64_t number = from;
  for (; options.seconds > 0 ? seconds() < options.seconds : number < from + options.inputs; number++) {
    Input input(kMostGenerated);
    input.resize(generate(options.seed, number, input.data()));
    std::string what = run_in_child(input);
    if (what.empty()) continue;
    std::printf("seed %llu: input %llu fails after %.1f s and %llu operations\n",
                static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(number), seconds(),
                static_cast<unsigned long long>(operations_performed()));
    report(options, input, std::to_string(options.seed) + "-" + std::to_string(number), what);
    std::printf("%llu passed, 1 failed\n", static_cast<unsigned long long>(number - from));
    return EXIT_FAILURE;
  }
  std::printf("seed %llu: %llu inputs, %llu operations in %.0f s, none failed\n",
              static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(number - from),
              static_cast<unsigned long long>(operations_performed()), seconds());
  std::printf("%llu passed, 0 failed\n", static_cast<unsigned long long>(number - from));
  return number > from ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char **argv) {
  hak_test::start_again_with(argv, kSettings);
  Options options;
  std::uint64_t from = 0;
  enum { kSeed = 1, kMinutes, kSeconds, kInputs, kFrom, kOut, kShow, kWithout, kHelp };
  const option known[] = {{"seed", 1, nullptr, kSeed},       {"minutes", 1, nullptr, kMinutes},
                          {"seconds", 1, nullptr, kSeconds}, {"inputs", 1, nullptr, kInputs},
                          {"from", 1, nullptr, kFrom},       {"out", 1, nullptr, kOut},
                          {"show", 0, nullptr, kShow},       {"without", 1, nullptr, kWithout},
                          {"help", 0, nullptr, kHelp},       {}};
  for (int found; (found = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    switch (found) {
      case kSeed: options.seed = std::strtoull(optarg, nullptr, 10); break;
      case kMinutes: options.seconds = 60 * std::strtod(optarg, nullptr); break;
      case kSeconds: options.seconds = std::strtod(optarg, nullptr); break;
      case kInputs: options.inputs = std::strtoull(optarg, nullptr, 10); break;
      case kFrom: from = std::strtoull(optarg, nullptr, 10); break;
      case kOut: options.out = optarg; break;
      case kShow: options.show = true; break;
      case kWithout:
        if (!leave_out(optarg)) usage(2);
        break;
      case kHelp: usage(0);
      default: usage(2);
    }
  }
  for (int i = optind; i < argc; i++) options.files.emplace_back(argv[i]);
  if (options.files.empty() && options.seconds <= 0 && options.inputs == 0) usage(2);
  return options.files.empty() ? run_seed(options, from) : run_files(options);
}
