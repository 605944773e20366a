/* The C++ header, and whose malloc and operator new these are: hakmem's, or with BESIDE another's. */
#include <hakmem.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#ifdef BESIDE
constexpr bool kServed = false;
#else
constexpr bool kServed = true;
#endif

static int failures = 0;
static void expect(bool holds, const char *what) {
  if (!holds) std::printf("not so: %s\n", what), failures++;
}

int main() {
  void *block = std::malloc(100);
  auto number = std::make_unique<int>(1);
  expect(hak_owns(block) == kServed, "malloc is whose it should be");
  expect(hak_owns(number.get()) == kServed, "operator new is whose it should be");
  std::free(block);

  hakmem::heap heap;
  hakmem::heap_resource resource{heap};
  std::pmr::vector<int> numbers{&resource};
  std::thread([&] { numbers.resize(100000); }).join();
  expect(heap.owns(numbers.data()), "a container lies in its heap");
  std::map<int, int, std::less<>, hakmem::heap_allocator<std::pair<const int, int>>> map{
      hakmem::heap_allocator<std::pair<const int, int>>{heap}};
  expect(heap.owns(&map.emplace(1, 2).first->second), "a container with a heap's allocator lies there");
  std::vector<int, hakmem::allocator<int>> common(1000);
  expect(hak_owns(common.data()) && !heap.owns(common.data()), "a container with the common allocator is served");
  void *own = hak_malloc(100);
  expect(hak_owns(own), "hak_malloc is served");
  hak_free(own);
  return failures != 0;
}
