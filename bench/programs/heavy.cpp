// A file that is hard on compilers: large headers, and templates that call for
// many instances. Compiled as a benchmark of the compiler, never run.
//   DEPTH  how many instances; more is slower
//
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

// A table of named columns: each count of columns is a family of types of its own.
template <int Number> struct column {
  std::string name = "column " + std::to_string(Number);
  std::vector<std::array<int, Number + 1>> cells;
};

template <class Indices> struct table;
template <int... Numbers> struct table<std::integer_sequence<int, Numbers...>> {
  std::tuple<column<Numbers>...> columns;

  size_t cells() const {
    return std::apply([](const auto &...each) { return (each.cells.size() + ... + size_t{0}); }, columns);
  }
  std::map<std::string, size_t> sizes() const {
    std::map<std::string, size_t> found;
    std::apply([&](const auto &...each) { (found.emplace(each.name, each.cells.size()), ...); }, columns);
    return found;
  }
};

// Expressions as types, and a visitor over every alternative of every pair.
template <int Number> struct leaf {
  long value;
  long operator()() const { return value * Number; }
};

using expression = std::variant<leaf<1>, leaf<2>, leaf<3>, leaf<4>, leaf<5>>;

long combine(const expression &left, const expression &right) {
  return std::visit([](const auto &a, const auto &b) { return a() + b(); }, left, right);
}

template <int Number> long work(std::vector<expression> &all) {
  table<std::make_integer_sequence<int, Number>> rows;
  std::unordered_map<std::string, std::shared_ptr<column<Number>>> index;
  for (const auto &[name, size] : rows.sizes()) index.emplace(name, std::make_shared<column<Number>>());
  std::function<long(long)> step = [&](long x) { return x + static_cast<long>(index.size() + rows.cells()); };
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return combine(a, a) < combine(b, b); });
  long sum = std::accumulate(all.begin(), all.end(), 0L, [&](long total, const auto &one) { return step(total) + combine(one, one); });
  if constexpr (Number > 0) return sum + work<Number - 1>(all);
  return sum;
}

} // namespace

long run(std::vector<expression> &all) { return work<DEPTH>(all); }
