/*
 * Scenarios string_builder, token_stream and small_objects of the original
 * reports, through operator new and delete. As with scenarios.c, they are
 * reconstructed from their names and sizes:
 *   string_builder  a builder that collects pieces of text and joins them to one
 *   token_stream    a lexer that makes tokens and a parser that drops them some
 *                   tokens later: small blocks, first in first out
 *   small_objects   polymorphic objects of 16–96 bytes, made, used and deleted
 *                   a few hundred at a time
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <memory>
#include <string>
#include <vector>

namespace {

enum { string_builder, token_stream, small_objects };
const char *const names[] = {"string_builder", "token_stream", "small_objects", nullptr};

uint64_t scenario = string_builder, threads = 1;

const bench_option_t options[] = {
    {"scenario", BENCH_CHOICE, &scenario, 0, 0, names, "what to play"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, nullptr, "each on its own"},
    {},
};

/* ---- string_builder ------------------------------------------------------*/

/* Text whose every character follows from its place: enough to verify it. */
constexpr size_t alphabet_bytes = 26;
constexpr char letter(size_t place) { return static_cast<char>('a' + place * 7 % alphabet_bytes); }

std::string alphabet(size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; i++) text += letter(i);
  return text;
}

uint64_t build_string(bench_worker_t *worker) {
  static const std::string source = alphabet(alphabet_bytes + 120);
  uint64_t ops = 0;
  std::vector<std::string> parts; /* not reserved: a builder does not know what will come */
  size_t bytes = 0, count = bench_between(&worker->rng, 4, 40);
  for (size_t i = 0; i < count; i++) {
    size_t length = bench_between(&worker->rng, 17, 120); /* longer than what a string keeps inside itself */
    if (parts.size() == parts.capacity()) ops += 2;
    parts.emplace_back(source, bytes % alphabet_bytes, length);
    bytes += length;
  }
  std::string text;
  text.reserve(bytes);
  for (const auto &part : parts) text += part;
  if (bench_args.verify)
    for (size_t i = 0; i < bytes; i++)
      if (text[i] != letter(i)) bench_die("string damaged at offset %zu of %zu", i, bytes);
  bench_keep(text.data());
  return ops + 2 * count + 2;
}

/* ---- token_stream --------------------------------------------------------*/

struct token {
  uint32_t kind, length;
  std::unique_ptr<char[]> text;
};

struct window { /* what the parser may still look back at */
  static constexpr size_t tokens = 64;
  std::unique_ptr<token> ring[tokens];
  size_t next = 0;
};

uint64_t lex(bench_worker_t *worker) {
  auto &seen = *static_cast<window *>(worker->state);
  for (unsigned i = 0; i < window::tokens; i++) {
    auto length = static_cast<uint32_t>(bench_between(&worker->rng, 1, 40));
    auto fresh = std::unique_ptr<token>(new token{length % 7, length, std::unique_ptr<char[]>(new char[length])});
    bench_touch(fresh->text.get(), length);
    if (bench_args.verify) bench_fill(fresh->text.get(), length, length);
    auto &place = seen.ring[seen.next++ % window::tokens];
    if (bench_args.verify && place) bench_check(place->text.get(), place->length, place->length);
    place = std::move(fresh);
  }
  return 4 * window::tokens;
}

/* ---- small_objects -------------------------------------------------------*/

struct shape {
  virtual ~shape() = default;
  virtual uint64_t sum() const = 0;
};

template <size_t Words> struct words final : shape {
  uint64_t values[Words];
  explicit words(uint64_t seed) {
    for (auto &value : values) value = seed++;
  }
  uint64_t sum() const override {
    uint64_t total = 0;
    for (auto value : values) total += value;
    return total;
  }
};

std::unique_ptr<shape> make_shape(uint64_t kind, uint64_t seed) {
  switch (kind) {
    case 0: return std::make_unique<words<1>>(seed);
    case 1: return std::make_unique<words<2>>(seed);
    case 2: return std::make_unique<words<3>>(seed);
    case 3: return std::make_unique<words<5>>(seed);
    case 4: return std::make_unique<words<7>>(seed);
    default: return std::make_unique<words<11>>(seed);
  }
}

constexpr uint64_t shape_words[] = {1, 2, 3, 5, 7, 11};

uint64_t play_shapes(bench_worker_t *) {
  /* The kinds take turns: what a processor mispredicts is not measured here. */
  constexpr size_t count = 252;
  std::vector<std::unique_ptr<shape>> shapes;
  shapes.reserve(count);
  uint64_t total = 0, expected = 0;
  for (size_t i = 0; i < count; i++) {
    shapes.push_back(make_shape(i % 6, i));
  }
  for (size_t i = 0; i < count; i++) {
    uint64_t n = shape_words[i % 6];
    total += shapes[i]->sum();
    expected += n * i + n * (n - 1) / 2;
  }
  if (total != expected)
    bench_die("objects damaged: they sum up to %llu instead of %llu", (unsigned long long)total,
              (unsigned long long)expected);
  return 2 * count + 2; /* the vector's own block too */
}

/* ---- Frame ---------------------------------------------------------------*/

void setup(bench_worker_t *worker) {
  if (scenario == token_stream) worker->state = new window;
}

uint64_t work(bench_worker_t *worker) {
  static uint64_t (*const plays[])(bench_worker_t *) = {build_string, lex, play_shapes};
  uint64_t ops = 0;
  do {
    for (unsigned i = 0; i < 16; i++) ops += plays[scenario](worker);
  } while (bench_more(worker, ops));
  return ops;
}

void teardown(bench_worker_t *worker) { delete static_cast<window *>(worker->state); }

}  // namespace

int main(int argc, char **argv) {
  bench_start(argc, argv, "objects", 0.4, options);
  bench_plan_t plan = {};
  plan.setup = setup;
  plan.work = work;
  plan.teardown = teardown;
  bench_put_outcome(bench_run(&plan, static_cast<unsigned>(threads)));
  bench_finish("ops_per_s");
}
