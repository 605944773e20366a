/* See allocator.h. SPDX-License-Identifier: MIT */
#include "allocator.h"

#include "testing.h"

#include <observe/check.h>

#include <cerrno>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <unistd.h>

#if defined(HAK_FUZZ_SERVED)
extern "C" void free_sized(void *, std::size_t) noexcept;
extern "C" void free_aligned_sized(void *, std::size_t, std::size_t) noexcept;
#else
extern "C" void alloc_delete_sized_slow(void *, std::size_t); /* what the operator is made of */
#endif

namespace hak_fuzz {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
bool is_power_of_two(std::size_t n) { return n != 0 && (n & (n - 1)) == 0; }

Answer answer(void *block) { return {block, block != nullptr ? 0 : errno}; }

Answer allocate_by_own_name(const Request &r) {
  switch (r.function) {
    case Function::kCalloc: return answer(hak_calloc(r.count, r.bytes / r.count));
    case Function::kReallocNull: return answer(hak_realloc(nullptr, r.bytes));
    case Function::kReallocarrayNull: return answer(hak_reallocarray(nullptr, r.count, r.bytes / r.count));
    case Function::kAlignedAlloc: return answer(hak_aligned_alloc(r.alignment, r.bytes));
    case Function::kPosixMemalign: {
      void *block = nullptr;
      int error = hak_posix_memalign(&block, r.alignment, r.bytes);
      return {block, error};
    }
    default: return answer(hak_malloc(r.bytes));
  }
}

#if defined(HAK_FUZZ_SERVED)
template <class New> Answer by_operator(New allocate_it) {
  try {
    return answer(allocate_it());
  } catch (const std::bad_alloc &) {
    return {nullptr, ENOMEM};
  }
}

Answer nothrow_answer(void *block) { return {block, block != nullptr ? 0 : ENOMEM}; }

Answer allocate_by_operator(const Request &r) {
  std::align_val_t alignment{r.alignment};
  if (r.nothrow) {
    switch (r.function) {
      case Function::kNew: return nothrow_answer(operator new(r.bytes, std::nothrow));
      case Function::kNewArray: return nothrow_answer(operator new[](r.bytes, std::nothrow));
      case Function::kNewAligned: return nothrow_answer(operator new(r.bytes, alignment, std::nothrow));
      default: return nothrow_answer(operator new[](r.bytes, alignment, std::nothrow));
    }
  }
  switch (r.function) {
    case Function::kNew: return by_operator([&] { return operator new(r.bytes); });
    case Function::kNewArray: return by_operator([&] { return operator new[](r.bytes); });
    case Function::kNewAligned: return by_operator([&] { return operator new(r.bytes, alignment); });
    default: return by_operator([&] { return operator new[](r.bytes, alignment); });
  }
}

Answer allocate_by_libc(const Request &r) {
  switch (r.function) {
    case Function::kMalloc: return answer(malloc(r.bytes));
    case Function::kCalloc: return answer(calloc(r.count, r.bytes / r.count));
    case Function::kReallocNull: return answer(realloc(nullptr, r.bytes));
    case Function::kReallocarrayNull: return answer(reallocarray(nullptr, r.count, r.bytes / r.count));
    case Function::kAlignedAlloc: return answer(aligned_alloc(r.alignment, r.bytes));
    case Function::kPosixMemalign: {
      void *block = nullptr;
      int error = posix_memalign(&block, r.alignment, r.bytes);
      return {block, error};
    }
    case Function::kMemalign: return answer(memalign(r.alignment, r.bytes));
    case Function::kValloc: return answer(valloc(r.bytes));
    case Function::kPvalloc: return answer(pvalloc(r.bytes));
    default: return allocate_by_operator(r);
  }
}

void release_by_operator(const Block &b) {
  std::align_val_t alignment{b.asked_alignment};
  if (b.origin == Origin::kNew) operator delete(static_cast<void *>(b.at));
  else if (b.origin == Origin::kNewArray) operator delete[](static_cast<void *>(b.at));
  else if (b.origin == Origin::kNewAligned) operator delete(b.at, alignment);
  else operator delete[](b.at, alignment);
}

void release_sized_by_operator(const Block &b) {
  std::align_val_t alignment{b.asked_alignment};
  if (b.origin == Origin::kNew) operator delete(b.at, b.bytes);
  else if (b.origin == Origin::kNewArray) operator delete[](b.at, b.bytes);
  else if (b.origin == Origin::kNewAligned) operator delete(b.at, b.bytes, alignment);
  else operator delete[](b.at, b.bytes, alignment);
}
#endif

}  // namespace

const char *name_of(Function function) {
  static const char *const kNames[] = {"malloc",        "calloc",
                                       "realloc(NULL)", "reallocarray(NULL)",
                                       "aligned_alloc", "posix_memalign",
                                       "memalign",      "valloc",
                                       "pvalloc",       "new",
                                       "new[]",         "aligned new",
                                       "aligned new[]"};
  return kNames[static_cast<unsigned>(function)];
}

static Answer allocate_in_heap(const Request &r) {
  switch (r.function) {
    case Function::kCalloc: return answer(hak_heap_calloc(r.heap, r.count, r.bytes / r.count));
    case Function::kAlignedAlloc: return answer(hak_heap_aligned_alloc(r.heap, r.alignment, r.bytes));
    default: return answer(hak_heap_malloc(r.heap, r.bytes));
  }
}

Answer allocate([[maybe_unused]] const Request &request) {
  if (request.heap != nullptr) return allocate_in_heap(request);
#if defined(HAK_FUZZ_SERVED)
  if (request.by_libc || request.function > Function::kPosixMemalign) return allocate_by_libc(request);
#endif
  return allocate_by_own_name(request);
}

std::size_t promised_bytes(const Request &r) {
  if (r.function != Function::kPvalloc) return r.bytes;
  std::size_t page = page_bytes();
  return r.bytes <= PTRDIFF_MAX ? ((r.bytes != 0 ? r.bytes : 1) + page - 1) / page * page : r.bytes;
}

std::size_t promised_alignment(const Request &r) {
  std::size_t least = 16;
  switch (r.function) {
    case Function::kValloc:
    case Function::kPvalloc: least = page_bytes(); break;
    case Function::kAlignedAlloc:
    case Function::kPosixMemalign:
    case Function::kNewAligned:
    case Function::kNewArrayAligned: least = r.alignment; break;
    case Function::kMemalign: /* glibc rounds up to a power of two */
      for (least = 1; least < r.alignment && least < std::size_t{1} << 63;) least *= 2;
      break;
    default: /* hakmem.h: a power of two of at most 4 KiB is aligned to itself */
      if (is_power_of_two(r.bytes) && r.bytes <= 4096) least = r.bytes;
  }
  return least > 16 ? least : 16;
}

Origin origin_of(const Request &r) {
  switch (r.function) {
    case Function::kAlignedAlloc: return Origin::kAligned;
    case Function::kPosixMemalign:
    case Function::kMemalign:
    case Function::kValloc:
    case Function::kPvalloc: return Origin::kPlain;
    case Function::kNew: return Origin::kNew;
    case Function::kNewArray: return Origin::kNewArray;
    case Function::kNewAligned: return Origin::kNewAligned;
    case Function::kNewArrayAligned: return Origin::kNewArrayAligned;
    default: return Origin::kSized;
  }
}

bool is_invalid_alignment(const Request &r) {
  if (r.function == Function::kAlignedAlloc) return !is_power_of_two(r.alignment);
  if (r.function == Function::kPosixMemalign) return !is_power_of_two(r.alignment) || r.alignment % sizeof(void *) != 0;
  return false;
}

void *reallocate(void *block, std::size_t bytes, [[maybe_unused]] bool by_libc, bool as_array) {
  std::size_t count = as_array && bytes % 4 == 0 && bytes > 0 ? 4 : 1;
#if defined(HAK_FUZZ_SERVED)
  if (by_libc) return as_array ? reallocarray(block, count, bytes / count) : realloc(block, bytes);
#endif
  return as_array ? hak_reallocarray(block, count, bytes / count) : hak_realloc(block, bytes);
}

void release(const Block &b, Told told, [[maybe_unused]] bool by_libc) {
  bool sized = told != Told::kNothing;
#if defined(HAK_FUZZ_SERVED)
  if (b.origin == Origin::kSized && told == Told::kSizeByOperator) return operator delete(b.at, b.bytes);
  if (b.origin >= Origin::kNew) return sized ? release_sized_by_operator(b) : release_by_operator(b);
  if (by_libc) {
    if (sized && b.origin == Origin::kSized) free_sized(b.at, b.bytes);
    else if (sized && b.origin == Origin::kAligned) free_aligned_sized(b.at, b.asked_alignment, b.bytes);
    else free(b.at);
    return;
  }
#endif
#if !defined(HAK_FUZZ_SERVED)
  if (b.origin == Origin::kSized && told == Told::kSizeByOperator) return alloc_delete_sized_slow(b.at, b.bytes);
#endif
  if (sized && b.origin == Origin::kSized) hak_free_sized(b.at, b.bytes);
  else if (sized && b.origin == Origin::kAligned) hak_free_aligned_sized(b.at, b.asked_alignment, b.bytes);
  else hak_free(b.at);
}

std::size_t usable_size(void *block, [[maybe_unused]] bool by_libc) {
#if defined(HAK_FUZZ_SERVED)
  if (by_libc) return malloc_usable_size(block);
#endif
  return hak_usable_size(block);
}

bool trim(std::size_t keep_bytes, [[maybe_unused]] bool by_libc) {
#if defined(HAK_FUZZ_SERVED)
  if (by_libc) return malloc_trim(keep_bytes) != 0;
#endif
  return hak_trim(keep_bytes);
}

hak_stats_t stats() {
  hak_stats_t now;
  hak_stats(&now, sizeof now);
  return now;
}

void walk() {
#if defined(HAK_FUZZ_WALK)
  hak__check_all();
#endif
}

}  // namespace hak_fuzz
