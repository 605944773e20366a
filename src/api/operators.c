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
#include "../os/os.h"
#include "alloc.h"
#include "new_handler.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

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

/* ---- Without memory -------------------------------------------------------------*/
#if !defined(HAK_NEEDS_CXX_RUNTIME)

/* Bound when this library is: NULL for good in a C program, though a plug-in may bring C++ later. A program with the
 * run-time library's archive in it may have one of them alone. */
extern void get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* Whether both are in the same library, the second by its name. */
static bool is_beside(const void *form, void *library, const char *mangled) {
  const void *other = dlsym(library, mangled);
  Dl_info its, others;
  return other != NULL && dladdr(form, &its) != 0 && dladdr(other, &others) != 0 && its.dli_fbase == others.dli_fbase;
}

/* The form that the library in which the address lies, or one that it needs, has for all: not ours, nor a plug-in's, to
 * whose memory our delete does not belong. Or NULL. What has been opened by its name is found without memory. */
static void *form_of(const void *address, const char *mangled) {
  Dl_info its;
  void *library = dladdr(address, &its) != 0 ? dlopen(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (library == NULL) return NULL;
  void *form = dlsym(library, mangled);
  /* libc++ may have them in two libraries. */
  bool is_runtimes = form != NULL && (is_beside(form, library, "_ZSt15get_new_handlerv") ||
                                      is_beside(form, library, "_ZSt17__throw_bad_allocv"));
  dlclose(library);
  return is_runtimes ? form : NULL;
}

typedef struct {
  size_t before; /* how many come before it */
  const void *address;
} loaded_t;

static int find_loaded(struct dl_phdr_info *library, size_t bytes, void *wanted) {
  (void)bytes;
  loaded_t *loaded = wanted;
  loaded->address = library->dlpi_phdr;
  return loaded->before-- == 0;
}

/* The form of the C++ run-time library that is there now. It calls malloc, which is ours, and the new-handler, and
 * throws what the caller catches. The caller's comes first: there may be two, or one within a plug-in. Then that of
 * any library, one after the other, as none can be opened while they are listed: the caller is not seen where `new` is
 * the last thing that it does, and there may be no memory to open what only others have opened. */
static void *later_form(const char *mangled, const void *caller) {
  void *form = form_of(caller, mangled);
  for (size_t i = 0; form == NULL; i++) {
    loaded_t loaded = {.before = i};
    if (dl_iterate_phdr(find_loaded, &loaded) == 0) return NULL;
    form = form_of(loaded.address, mangled);
  }
  return form;
}

/* libstdc++ rounds it up to the alignment without looking whether that wraps. */
static size_t fit_to_round(size_t bytes) { return min_size(bytes, PTRDIFF_MAX); }

static void *later_new(size_t bytes, size_t alignment, const void *caller) {
  void *form = later_form(alignment == 1 ? "_Znw" SIZE : "_Znw" SIZE ALIGNED, caller);
  if (form == NULL) {
    os_warn("operator new: no memory for %zu bytes, and no C++ run-time library to throw std::bad_alloc", bytes);
    abort();
  }
  if (alignment == 1) return ((void *(*)(size_t))form)(bytes);
  return ((void *(*)(size_t, size_t))form)(fit_to_round(bytes), alignment);
}

/* Its nothrow form catches what our throwing one, which it calls, lets through. */
static void *later_new_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag, const void *caller) {
  void *form = later_form(alignment == 1 ? "_Znw" SIZE NOTHROW : "_Znw" SIZE ALIGNED NOTHROW, caller);
  if (form == NULL) return NULL;
  if (alignment == 1) return ((void *(*)(size_t, const nothrow_t *))form)(bytes, tag);
  return ((void *(*)(size_t, size_t, const nothrow_t *))form)(fit_to_round(bytes), alignment, tag);
}

#endif

static HAK_COLD void *retry(size_t bytes, size_t alignment, const void *caller) {
  (void)caller;
#if !defined(HAK_NEEDS_CXX_RUNTIME)
  if (get_new_handler == NULL || throw_bad_alloc == NULL) return later_new(bytes, alignment, caller);
#endif
  return new_handler_retry(bytes, alignment);
}
static HAK_COLD void *retry_nothrow(size_t bytes, size_t alignment, const nothrow_t *tag, const void *caller) {
  (void)tag, (void)caller;
#if !defined(HAK_NEEDS_CXX_RUNTIME)
  if (get_new_handler == NULL) return later_new_nothrow(bytes, alignment, tag, caller);
#endif
  return new_handler_retry_nothrow(bytes, alignment);
}
#define CALLER __builtin_return_address(0)

/* ---- new -----------------------------------------------------------------------*/
HAK_INLINE void *allocate(size_t bytes) {
  void *block = alloc_malloc(bytes);
  return HAK_LIKELY(block != NULL) ? block : retry(bytes, 1, CALLER);
}
HAK_INLINE void *allocate_aligned(size_t bytes, size_t alignment) {
  void *block = alloc_aligned(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : retry(bytes, alignment, CALLER);
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
    if (HAK_UNLIKELY(replaced.some)) return new_handler_catch(replaced.form, bytes); \
    void *block = alloc_malloc(bytes);                                               \
    return HAK_LIKELY(block != NULL) ? block : retry_nothrow(bytes, 1, tag, CALLER); \
  }
#define NEW_ALIGNED_NOTHROW(name, mangled, form)                                                        \
  void *name(size_t bytes, size_t alignment, const nothrow_t *tag) OPERATOR(mangled);                   \
  void *name(size_t bytes, size_t alignment, const nothrow_t *tag) {                                    \
    if (HAK_UNLIKELY(replaced.some)) return new_handler_catch_aligned(replaced.form, bytes, alignment); \
    void *block = alloc_aligned(alignment, bytes);                                                      \
    return HAK_LIKELY(block != NULL) ? block : retry_nothrow(bytes, alignment, tag, CALLER);            \
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
