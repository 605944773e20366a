/*
 * hakmem.hpp: heaps with a scope, and containers in them.
 *
 * SPDX-License-Identifier: MIT
 */
#include <hakmem.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

template <class T> using InHeap = hakmem::heap_allocator<T>;

struct alignas(256) Wide {
  char bytes[256];
};

std::size_t live(const hakmem::heap &heap) { return heap.stats().live; }

}  // namespace

TEST(Cxx, AHeapEndsWithItsScopeAndWithAllThatLiesInIt) {
  hak_heap_t *handle;
  void *block;
  {
    hakmem::heap heap;
    handle = heap.get();
    block = hak_heap_malloc(handle, 100);
    EXPECT_TRUE(heap.owns(block));
    hakmem::heap moved = std::move(heap);
    EXPECT_EQ(heap.get(), nullptr);
    EXPECT_EQ(moved.get(), handle);
    hakmem::heap other;
    hak_heap_t *dropped = other.get();
    other = std::move(moved);
    EXPECT_EQ(other.get(), handle);
    void *of_dropped = hak_heap_malloc(handle, 1);
    EXPECT_FALSE(hak_heap_owns(dropped, of_dropped));
  }
  EXPECT_FALSE(hak_heap_owns(handle, block));
}

TEST(Cxx, AReleasedHeapIsTheCallersToDestroy) {
  hak_heap_t *handle;
  {
    hakmem::heap heap{1 << 20};
    EXPECT_EQ(heap.stats().limit, std::size_t{1} << 20);
    handle = heap.release();
  }
  void *block = hak_heap_malloc(handle, 10);
  EXPECT_TRUE(hak_heap_owns(handle, block));
  hak_heap_destroy(handle);
}

TEST(Cxx, PmrContainersLieInTheHeapOfTheirResource) {
  hakmem::heap heap;
  hakmem::heap_resource resource{heap};
  {
    std::pmr::unordered_map<int, std::pmr::string> words{&resource};
    for (int i = 0; i < 1000; i++) words.emplace(i, "a string that is too long to lie in the object itself");
    EXPECT_TRUE(heap.owns(&*words.begin()));
    EXPECT_TRUE(heap.owns(words.at(7).data())) << "an allocator is handed on to elements";
    std::pmr::vector<Wide> wide{&resource};
    wide.resize(10);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % alignof(Wide), 0u);
    EXPECT_GE(live(heap), 1000u * 60 + sizeof(Wide) * 10);
  }
  EXPECT_EQ(live(heap), 0u) << "what containers gave back";
}

TEST(Cxx, ResourcesAreEqualIfTheirHeapsAre) {
  hakmem::heap heap, other;
  hakmem::heap_resource a{heap}, b{heap.get()}, c{other};
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_FALSE(a == *std::pmr::new_delete_resource());
}

TEST(Cxx, ContainersWithAllocatorsLieInTheirHeaps) {
  hakmem::heap heap, other;
  {
    std::vector<int, InHeap<int>> numbers{InHeap<int>{heap}};
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    EXPECT_TRUE(heap.owns(numbers.data()));
    std::map<int, int, std::less<int>, InHeap<std::pair<const int, int>>> map{InHeap<int>{other}};
    for (int i = 0; i < 1000; i++) map[i] = i;
    EXPECT_TRUE(other.owns(&*map.begin()));
    std::list<Wide, InHeap<Wide>> wide(3, Wide(), InHeap<Wide>{heap});
    for (const Wide &each : wide) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&each) % alignof(Wide), 0u);

    /* Copied, an element at a time, into the heap of what is there; moved, with the heap. */
    std::vector<int, InHeap<int>> copy{InHeap<int>{other}};
    copy = numbers;
    EXPECT_TRUE(other.owns(copy.data()));
    const int *data = numbers.data();
    copy = std::move(numbers);
    EXPECT_EQ(copy.data(), data);
    EXPECT_TRUE(copy.get_allocator() == InHeap<char>{heap});
    EXPECT_TRUE(copy.get_allocator() != InHeap<int>{other});
  }
  EXPECT_EQ(live(heap), 0u);
  EXPECT_EQ(live(other), 0u);
}

TEST(Cxx, TheCommonAllocatorHasNoHeap) {
  std::vector<Wide, hakmem::allocator<Wide>> wide(5);
  EXPECT_TRUE(hak_owns(wide.data()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % alignof(Wide), 0u);
  EXPECT_TRUE(hakmem::allocator<int>() == hakmem::allocator<char>());
  std::basic_string<char, std::char_traits<char>, hakmem::allocator<char>> text(100, 'x');
  EXPECT_TRUE(hak_owns(text.data()));
}

TEST(Cxx, WhatCannotBeHadIsBadAlloc) {
  hakmem::heap heap{128 << 10};
  hakmem::heap_resource resource{heap};
  std::pmr::vector<char> bytes{&resource};
  EXPECT_THROW(bytes.resize(1 << 20), std::bad_alloc);
  EXPECT_THROW((void)resource.allocate(1 << 20, 4096), std::bad_alloc);
  EXPECT_THROW((void)InHeap<long>{heap}.allocate(SIZE_MAX / 4), std::bad_array_new_length);
  EXPECT_THROW((void)hakmem::allocator<long>().allocate(SIZE_MAX / 4), std::bad_array_new_length);
  EXPECT_THROW((void)InHeap<char>{heap}.allocate(PTRDIFF_MAX), std::bad_alloc);
  heap.set_limit(0);
  bytes.resize(1 << 20);
  EXPECT_EQ(bytes.size(), std::size_t{1} << 20);
}
