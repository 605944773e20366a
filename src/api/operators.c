/*
 * C++'s surface: every replaceable form of operator new and delete
 * ([new.delete] in ISO C++20), under the names that the Itanium ABI gives them.
 * They are C, so that a C program needs no C++ library; what needs one, the
 * new-handler and exceptions, is in new_handler.cpp.
 *
 * A program may replace some forms and leave us the rest. The standard wants each
 * of the rest to call the form it derives from: an array form the single one, a
 * nothrow or sized form the plain one. As long as all forms are ours, that makes
 * no difference and each goes straight to the allocator; a constructor finds
 * out. The symbols are weak, so that a static program can replace them, too.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include "alloc.h"
#include "new_handler.h"

#include <dlfcn.h>

#pragma weak dlsym /* a static program has none */

#if SIZE_MAX == UINT64_MAX
#define SIZE "m" /* how the ABI mangles size_t */
#else
#define SIZE "j"
#endif
#define NOTHROW "RKSt9nothrow_t"
#define ALIGNED "St11align_val_t"
#define OPERATOR(mangled) __asm__(mangled) __attribute__((visibility("default"), weak))

typedef struct nothrow nothrow_t;

/* ---- The forms that others derive from -----------------------------------------*/
void *new_plain(size_t bytes) OPERATOR("_Znw" SIZE);
void *new_array(size_t bytes) OPERATOR("_Zna" SIZE);
void *new_aligned(size_t bytes, size_t alignment) OPERATOR("_Znw" SIZE ALIGNED);
void *new_array_aligned(size_t bytes, size_t alignment) OPERATOR("_Zna" SIZE ALIGNED);
void delete_plain(void *block) OPERATOR("_ZdlPv");
void delete_array(void *block) OPERATOR("_ZdaPv");
void delete_aligned(void *block, size_t alignment) OPERATOR("_ZdlPv" ALIGNED);
void delete_array_aligned(void *block, size_t alignment) OPERATOR("_ZdaPv" ALIGNED);

/* Who answers to those names in this process; ours unless `some` is true. */
static struct {
  bool some;
  void *(*new_plain)(size_t), *(*new_array)(size_t);
  void *(*new_aligned)(size_t, size_t), *(*new_array_aligned)(size_t, size_t);
  void (*delete_plain)(void *), (*delete_array)(void *);
  void (*delete_aligned)(void *, size_t), (*delete_array_aligned)(void *, size_t);
} replaced;

/* Our own definitions, whoever has the name. */
#define OWN(function, mangled) \
  extern __typeof__(function) own_##function __attribute__((alias(mangled), visibility("hidden")))
OWN(new_plain, "_Znw" SIZE);
OWN(new_array, "_Zna" SIZE);
OWN(new_aligned, "_Znw" SIZE ALIGNED);
OWN(new_array_aligned, "_Zna" SIZE ALIGNED);
OWN(delete_plain, "_ZdlPv");
OWN(delete_array, "_ZdaPv");
OWN(delete_aligned, "_ZdlPv" ALIGNED);
OWN(delete_array_aligned, "_ZdaPv" ALIGNED);

/* The definition that the program's calls reach: of the dynamic linker where there
 * is one, else what this library was linked to. */
static void *find(const char *mangled, void *linked) {
  void *found = dlsym != NULL ? dlsym(RTLD_DEFAULT, mangled) : NULL;
  return found != NULL ? found : linked;
}

#define FIND(function, mangled)                                     \
  do {                                                              \
    *(void **)&replaced.function = find(mangled, (void *)function); \
    some |= replaced.function != own_##function;                    \
  } while (0)

__attribute__((constructor(102))) static void start(void) {
  bool some = false;
  FIND(new_plain, "_Znw" SIZE);
  FIND(new_array, "_Zna" SIZE);
  FIND(new_aligned, "_Znw" SIZE ALIGNED);
  FIND(new_array_aligned, "_Zna" SIZE ALIGNED);
  FIND(delete_plain, "_ZdlPv");
  FIND(delete_array, "_ZdaPv");
  FIND(delete_aligned, "_ZdlPv" ALIGNED);
  FIND(delete_array_aligned, "_ZdaPv" ALIGNED);
  replaced.some = some;
}

/* In a derived form: hands the call on where a program's own form may be meant. */
#define UNLESS_REPLACED(call) \
  if (HAK_UNLIKELY(replaced.some)) return replaced.call

/* ---- new -----------------------------------------------------------------------*/
HAK_INLINE void *allocate(size_t bytes) {
  void *block = alloc_malloc(bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry(bytes, 1);
}
HAK_INLINE void *allocate_aligned(size_t bytes, size_t alignment) {
  void *block = alloc_aligned(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : new_handler_retry(bytes, alignment);
}

void *new_plain(size_t bytes) { return allocate(bytes); }
void *new_array(size_t bytes) {
  UNLESS_REPLACED(new_plain(bytes));
  return allocate(bytes);
}
void *new_aligned(size_t bytes, size_t alignment) { return allocate_aligned(bytes, alignment); }
void *new_array_aligned(size_t bytes, size_t alignment) {
  UNLESS_REPLACED(new_aligned(bytes, alignment));
  return allocate_aligned(bytes, alignment);
}

/* The throwing form's result, or NULL where that throws. */
#define NEW_NOTHROW(name, mangled, form)                                             \
  void *name(size_t bytes, const nothrow_t *tag) OPERATOR(mangled);                  \
  void *name(size_t bytes, const nothrow_t *tag) {                                   \
    (void)tag;                                                                       \
    if (HAK_UNLIKELY(replaced.some)) return new_handler_catch(replaced.form, bytes); \
    void *block = alloc_malloc(bytes);                                               \
    return HAK_LIKELY(block != NULL) ? block : new_handler_retry_nothrow(bytes, 1);  \
  }
#define NEW_ALIGNED_NOTHROW(name, mangled, form)                                                        \
  void *name(size_t bytes, size_t alignment, const nothrow_t *tag) OPERATOR(mangled);                   \
  void *name(size_t bytes, size_t alignment, const nothrow_t *tag) {                                    \
    (void)tag;                                                                                          \
    if (HAK_UNLIKELY(replaced.some)) return new_handler_catch_aligned(replaced.form, bytes, alignment); \
    void *block = alloc_aligned(alignment, bytes);                                                      \
    return HAK_LIKELY(block != NULL) ? block : new_handler_retry_nothrow(bytes, alignment);             \
  }
NEW_NOTHROW(new_nothrow, "_Znw" SIZE NOTHROW, new_plain)
NEW_NOTHROW(new_array_nothrow, "_Zna" SIZE NOTHROW, new_array)
NEW_ALIGNED_NOTHROW(new_aligned_nothrow, "_Znw" SIZE ALIGNED NOTHROW, new_aligned)
NEW_ALIGNED_NOTHROW(new_array_aligned_nothrow, "_Zna" SIZE ALIGNED NOTHROW, new_array_aligned)

/* ---- delete --------------------------------------------------------------------*/
void delete_plain(void *block) { alloc_free(block); }
void delete_array(void *block) {
  UNLESS_REPLACED(delete_plain(block));
  alloc_free(block);
}
void delete_aligned(void *block, size_t alignment) {
  (void)alignment;
  alloc_free(block);
}
void delete_array_aligned(void *block, size_t alignment) {
  UNLESS_REPLACED(delete_aligned(block, alignment));
  alloc_free(block);
}

/* Called only when a constructor has thrown. */
#define DELETE_NOTHROW(name, mangled, form)                       \
  void name(void *block, const nothrow_t *tag) OPERATOR(mangled); \
  void name(void *block, const nothrow_t *tag) {                  \
    (void)tag;                                                    \
    UNLESS_REPLACED(form(block));                                 \
    alloc_free(block);                                            \
  }
#define DELETE_ALIGNED_NOTHROW(name, mangled, form)                                 \
  void name(void *block, size_t alignment, const nothrow_t *tag) OPERATOR(mangled); \
  void name(void *block, size_t alignment, const nothrow_t *tag) {                  \
    (void)tag;                                                                      \
    UNLESS_REPLACED(form(block, alignment));                                        \
    alloc_free(block);                                                              \
  }
#define DELETE_SIZED(name, mangled, form)                 \
  void name(void *block, size_t bytes) OPERATOR(mangled); \
  void name(void *block, size_t bytes) {                  \
    UNLESS_REPLACED(form(block));                         \
    alloc_delete_sized(block, bytes);                     \
  }
#define DELETE_SIZED_ALIGNED(name, mangled, form)                           \
  void name(void *block, size_t bytes, size_t alignment) OPERATOR(mangled); \
  void name(void *block, size_t bytes, size_t alignment) {                  \
    UNLESS_REPLACED(form(block, alignment));                                \
    alloc_free_aligned_sized(block, alignment, bytes);                      \
  }
DELETE_NOTHROW(delete_nothrow, "_ZdlPv" NOTHROW, delete_plain)
DELETE_NOTHROW(delete_array_nothrow, "_ZdaPv" NOTHROW, delete_array)
DELETE_ALIGNED_NOTHROW(delete_aligned_nothrow, "_ZdlPv" ALIGNED NOTHROW, delete_aligned)
DELETE_ALIGNED_NOTHROW(delete_array_aligned_nothrow, "_ZdaPv" ALIGNED NOTHROW, delete_array_aligned)
DELETE_SIZED(delete_sized, "_ZdlPv" SIZE, delete_plain)
DELETE_SIZED(delete_array_sized, "_ZdaPv" SIZE, delete_array)
DELETE_SIZED_ALIGNED(delete_sized_aligned, "_ZdlPv" SIZE ALIGNED, delete_aligned)
DELETE_SIZED_ALIGNED(delete_array_sized_aligned, "_ZdaPv" SIZE ALIGNED, delete_array_aligned)
