/* The C++ header, and whose malloc and operator new these are: hakmem's, or with BESIDE another's. */
#include <hakmem.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

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
  void *own = hak_malloc(100);
  expect(hak_owns(own), "hak_malloc is served");
  hak_free(own);
  return failures != 0;
}
