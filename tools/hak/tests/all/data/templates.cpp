// Takes a compiler a second and much memory of several kinds.
//
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

template <int N>
struct Level {
  std::map<std::string, std::vector<std::string>> words;
  std::unordered_map<int, std::string> names;

  std::size_t size() const {
    std::size_t sum = N;
    for (const auto &[word, others] : words)
      for (const auto &other : others) sum += other.size();
    return sum + Level<N - 1>().size();
  }
  void sort() {
    std::vector<std::pair<std::string, int>> pairs(N);
    std::sort(pairs.begin(), pairs.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
    names[N] = pairs[0].first;
  }
};
template <>
struct Level<0> {
  std::size_t size() const { return 0; }
};

int main() {
  Level<40> high;
  Level<20> low;
  high.sort();
  low.sort();
  return static_cast<int>(high.size() + low.size());
}
