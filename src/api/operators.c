/*
 * C++'s surface: every replaceable form of operator new and delete
 * ([new.delete] in ISO C++20), under the names that the Itanium ABI gives them.
 * They are C, so that a C program needs no C++ library; what needs one, the
 * new-handler and exceptions, is in new_handler.cpp.
 *
 * SPDX-License-Identifier: MIT
 */
#include "alloc.h"
#include "new_handler.h"

#define OPERATOR(mangled) __asm__(mangled) __attribute__((visibility("default")))

#if SIZE_MAX == UINT64_MAX
#define SIZE "m" /* how the ABI mangles size_t */
#else
#define SIZE "j"
#endif

typedef struct nothrow nothrow_t;

/* ---- new -----------------------------------------------------------------------*/
void *new_plain(size_t bytes) OPERATOR("_Znw" SIZE);
void *new_array(size_t bytes) OPERATOR("_Zna" SIZE);
void *new_nothrow(size_t bytes, const nothrow_t *tag) OPERATOR("_Znw" SIZE "RKSt9nothrow_t");
void *new_array_nothrow(size_t bytes, const nothrow_t *tag) OPERATOR("_Zna" SIZE "RKSt9nothrow_t");
void *new_aligned(size_t bytes, size_t alignment) OPERATOR("_Znw" SIZE "St11align_val_t");
void *new_array_aligned(size_t bytes, size_t alignment) OPERATOR("_Zna" SIZE "St11align_val_t");
void *new_aligned_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag)
    OPERATOR("_Znw" SIZE "St11align_val_tRKSt9nothrow_t");
void *new_array_aligned_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag)
    OPERATOR("_Zna" SIZE "St11align_val_tRKSt9nothrow_t");

HAK_INLINE void *allocate(size_t bytes) {
  void *block = alloc_malloc(bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry(bytes, 1);
}
HAK_INLINE void *allocate_nothrow(size_t bytes) {
  void *block = alloc_malloc(bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry_nothrow(bytes, 1);
}
HAK_INLINE void *allocate_aligned(size_t bytes, size_t alignment) {
  void *block = alloc_aligned(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry(bytes, alignment);
}
HAK_INLINE void *allocate_aligned_nothrow(size_t bytes, size_t alignment) {
  void *block = alloc_aligned(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry_nothrow(bytes, alignment);
}

void *new_plain(size_t bytes) { return allocate(bytes); }
void *new_array(size_t bytes) { return allocate(bytes); }
void *new_nothrow(size_t bytes, const nothrow_t *tag) {
  (void)tag;
  return allocate_nothrow(bytes);
}
void *new_array_nothrow(size_t bytes, const nothrow_t *tag) {
  (void)tag;
  return allocate_nothrow(bytes);
}
void *new_aligned(size_t bytes, size_t alignment) { return allocate_aligned(bytes, alignment); }
void *new_array_aligned(size_t bytes, size_t alignment) { return allocate_aligned(bytes, alignment); }
void *new_aligned_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag) {
  (void)tag;
  return allocate_aligned_nothrow(bytes, alignment);
}
void *new_array_aligned_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag) {
  (void)tag;
  return allocate_aligned_nothrow(bytes, alignment);
}

/* ---- delete --------------------------------------------------------------------
 * A nothrow delete is called only when a constructor has thrown.                */
void delete_plain(void *block) OPERATOR("_ZdlPv");
void delete_array(void *block) OPERATOR("_ZdaPv");
void delete_nothrow(void *block, const nothrow_t *tag) OPERATOR("_ZdlPvRKSt9nothrow_t");
void delete_array_nothrow(void *block, const nothrow_t *tag) OPERATOR("_ZdaPvRKSt9nothrow_t");
void delete_sized(void *block, size_t bytes) OPERATOR("_ZdlPv" SIZE);
void delete_array_sized(void *block, size_t bytes) OPERATOR("_ZdaPv" SIZE);
void delete_aligned(void *block, size_t alignment) OPERATOR("_ZdlPvSt11align_val_t");
void delete_array_aligned(void *block, size_t alignment) OPERATOR("_ZdaPvSt11align_val_t");
void delete_aligned_nothrow(void *block, size_t alignment, const nothrow_t *tag)
    OPERATOR("_ZdlPvSt11align_val_tRKSt9nothrow_t");
void delete_array_aligned_nothrow(void *block, size_t alignment, const nothrow_t *tag)
    OPERATOR("_ZdaPvSt11align_val_tRKSt9nothrow_t");
void delete_sized_aligned(void *block, size_t bytes, size_t alignment) OPERATOR("_ZdlPv" SIZE "St11align_val_t");
void delete_array_sized_aligned(void *block, size_t bytes, size_t alignment)
    OPERATOR("_ZdaPv" SIZE "St11align_val_t");

void delete_plain(void *block) { alloc_free(block); }
void delete_array(void *block) { alloc_free(block); }
void delete_nothrow(void *block, const nothrow_t *tag) {
  (void)tag;
  alloc_free(block);
}
void delete_array_nothrow(void *block, const nothrow_t *tag) {
  (void)tag;
  alloc_free(block);
}
void delete_sized(void *block, size_t bytes) { alloc_delete_sized(block, bytes); }
void delete_array_sized(void *block, size_t bytes) { alloc_delete_sized(block, bytes); }
void delete_aligned(void *block, size_t alignment) {
  (void)alignment;
  alloc_free(block);
}
void delete_array_aligned(void *block, size_t alignment) {
  (void)alignment;
  alloc_free(block);
}
void delete_aligned_nothrow(void *block, size_t alignment, const nothrow_t *tag) {
  (void)alignment, (void)tag;
  alloc_free(block);
}
void delete_array_aligned_nothrow(void *block, size_t alignment, const nothrow_t *tag) {
  (void)alignment, (void)tag;
  alloc_free(block);
}
void delete_sized_aligned(void *block, size_t bytes, size_t alignment) {
  alloc_free_aligned_sized(block, alignment, bytes);
}
void delete_array_sized_aligned(void *block, size_t bytes, size_t alignment) {
  alloc_free_aligned_sized(block, alignment, bytes);
}
