/*
 * The functions under test, under one roof: each under the name of hakmem.h or of
 * libc, and C++'s operators. Where the allocator does not serve malloc there are only
 * the former, and what they lack is done by their nearest relative.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_ALLOCATOR_H
#define HAK_TESTS_FUZZ_ALLOCATOR_H

#include "model.h"

#include <hakmem.h>

#include <cstddef>

namespace hak_fuzz {

enum class Function : std::uint8_t {
  kMalloc,
  kCalloc,
  kReallocNull,
  kReallocarrayNull,
  kAlignedAlloc,
  kPosixMemalign,
  kMemalign,
  kValloc,
  kPvalloc,
  kNew,
  kNewArray,
  kNewAligned,
  kNewArrayAligned,
};
const char *name_of(Function function);

/* What a caller asks for, and what it may expect. */
struct Request {
  Function function;
  bool by_libc; /* libc's name, not hakmem.h's                          */
  bool nothrow; /* of the operators                                     */
  std::size_t bytes, alignment;
  std::size_t count; /* of calloc's elements; bytes is the product         */
  hak_heap_t *heap;  /* of the program's own; NULL: the common one. Malloc, calloc and aligned_alloc */
};

/* errno or the result of posix_memalign; 0 with a block. */
struct Answer {
  void *block;
  int error;
};
Answer allocate(const Request &request);

/* Bytes and alignment that the block must have by the function's contract, and how it
 * may be freed. */
std::size_t promised_bytes(const Request &request);
std::size_t promised_alignment(const Request &request);
Origin origin_of(const Request &request);
/* An alignment that the function refuses with EINVAL. */
bool is_invalid_alignment(const Request &request);

void *reallocate(void *block, std::size_t bytes, bool by_libc, bool as_array);

/* Frees by one of the ways that are legal for the block. By C++'s sized operator also
 * what malloc and realloc have returned: as strict a check as hakmem has of a size. */
enum class Told : std::uint8_t { kNothing, kSize, kSizeByOperator };
void release(const Block &block, Told told, bool by_libc);
std::size_t usable_size(void *block, bool by_libc);
bool trim(std::size_t keep_bytes, bool by_libc);

hak_stats_t stats();
/* The walker of invariants, where it can be called. */
void walk();

}  // namespace hak_fuzz
#endif
