/* A plug-in with a hakmem of its own, whatever serves the program that loads it. */
#include <hakmem.hpp>

#include <vector>

extern "C" __attribute__((visibility("default"))) bool plugin_works() {
  hakmem::heap heap;
  std::vector<int, hakmem::heap_allocator<int>> numbers(1000, 1, hakmem::heap_allocator<int>{heap});
  std::vector<int> common(1000);
  return heap.owns(numbers.data()) && !hak_owns(common.data());
}
