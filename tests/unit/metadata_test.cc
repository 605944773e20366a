/* Memory for the allocator's own arrays. SPDX-License-Identifier: MIT */
#include "layers.h"
#include "support/payload.h"

#include <set>

TEST(Metadata, ArraysAreApartAndKeepWhatIsInThem) {
  ASSERT_TRUE(arena_ready());
  hak_test::Random random(3);
  struct Array {
    void *at;
    size_t bytes;
    uint64_t key;
  };
  std::vector<Array> arrays;
  for (int i = 0; i < 3000; i++) {
    if (arrays.size() < 200 && random.below(3) != 0) {
      size_t bytes = size_t{64} << random.below(11);
      void *at = metadata_take(bytes);
      ASSERT_NE(at, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u);
      ASSERT_GE(static_cast<char *>(at), the_map.metadata);
      ASSERT_LE(static_cast<char *>(at) + bytes, the_map.metadata_end);
      arrays.push_back({at, bytes, random.next()});
      hak_test::stamp_as(at, bytes, arrays.back().key);
    } else if (!arrays.empty()) {
      std::swap(arrays[random.below(arrays.size())], arrays.back());
      Array a = arrays.back();
      ASSERT_TRUE(hak_test::stamped_as(a.at, a.bytes, a.key, a.bytes)) << "an array reaches into another";
      metadata_give(a.at, a.bytes);
      arrays.pop_back();
    }
    if (i % 100 == 0) metadata_purge();
  }
  for (const Array &a : arrays) metadata_give(a.at, a.bytes);
}

TEST(Metadata, WhatIsGivenBackServesTheNext) {
  ASSERT_TRUE(arena_ready());
  std::vector<void *> arrays;
  for (int i = 0; i < 500; i++) arrays.push_back(metadata_take(1024));
  size_t committed = metadata_committed_bytes();
  for (int round = 0; round < 5; round++) {
    for (void *at : arrays) metadata_give(at, 1024);
    for (void *&at : arrays) at = metadata_take(1024);
  }
  EXPECT_EQ(metadata_committed_bytes(), committed) << "memory is taken although enough was given back";
  for (void *at : arrays) metadata_give(at, 1024);
}

/* Of 16 KiB each, as threads' caches of regions have; all but the ends of rows of them, and what names them. */
TEST(Metadata, PagesOfFreedArraysGoBackToTheSystem) {
  ASSERT_TRUE(arena_ready());
  constexpr size_t count = 600, bytes = size_t{16} << 10;
  metadata_purge();
  std::vector<char *> arrays;
  for (size_t i = 0; i < count; i++) {
    arrays.push_back(static_cast<char *>(metadata_take(bytes)));
    ASSERT_NE(arrays.back(), nullptr);
    memset(arrays.back(), 1, bytes);
  }
  size_t committed = metadata_committed_bytes();
  std::set<char *> all(arrays.begin(), arrays.end());
  ASSERT_EQ(all.size(), count);
  for (size_t i = 0; i < count; i++) metadata_give(arrays[i * 7 % count], bytes); /* in no order */
  EXPECT_GE(metadata_purge(), count * bytes * 9 / 10);
  EXPECT_EQ(metadata_purge(), 0u) << "what has gone is purged again";
  size_t resident = 0;
  for (char *array : arrays) {
    char *page = array - reinterpret_cast<uintptr_t>(array) % os_page_bytes();
    std::vector<unsigned char> marks(bytes / os_page_bytes());
    ASSERT_TRUE(os_resident_pages(page, bytes, marks.data()));
    for (unsigned char mark : marks) resident += (mark & 1) * os_page_bytes();
  }
  EXPECT_LE(resident, count * bytes / 10);
  for (char *&array : arrays) {
    array = static_cast<char *>(metadata_take(bytes));
    EXPECT_EQ(all.erase(array), 1u) << "an array is lost, or had twice";
    memset(array, 2, bytes);
  }
  EXPECT_EQ(metadata_committed_bytes(), committed);
  for (char *array : arrays) metadata_give(array, bytes);
}

TEST(Metadata, HeapRecordsLieOneAfterTheOtherAndAreZero) {
  hak_test::AttachedOwner one, two;
  ASSERT_NE(static_cast<owner_t *>(one), nullptr);
  ASSERT_NE(static_cast<owner_t *>(two), nullptr);
  EXPECT_EQ(owner_by_id(one->id), static_cast<owner_t *>(one));
  size_t apart = one->id < two->id ? two->id - one->id : one->id - two->id;
  auto distance = std::abs(reinterpret_cast<char *>(static_cast<owner_t *>(two)) -
                           reinterpret_cast<char *>(static_cast<owner_t *>(one)));
  EXPECT_EQ(static_cast<size_t>(distance), apart * OWNER_STRIDE_BYTES);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&one->pending) % HAK_CACHE_LINE, 0u) << "others write it: a line of its own";
}
