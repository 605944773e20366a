/*
 * Records every call of malloc, free and their relatives, for `hak trace`. Preloaded in front of
 * libhakmem.so, which serves the calls; so that library is the one that is always used, and its fast
 * paths know nothing of this. How the events get to hak: trace_ring.h.
 *
 * Of C++'s operators the four are here that others derive from. libhakmem.so finds them replaced, and
 * lets all others derive from them.
 *
 * Calls of hak_malloc and its relatives by their own names, and the blocks of a program's own heaps
 * (hak_heap_t), are not recorded.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include "trace_ring.h"

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

void *hak_malloc(size_t bytes);
void *hak_calloc(size_t count, size_t bytes);
void *hak_realloc(void *block, size_t bytes);
void *hak_aligned_alloc(size_t alignment, size_t bytes);
int hak_posix_memalign(void **out, size_t alignment, size_t bytes);
void hak_free(void *block);
void hak_free_sized(void *block, size_t bytes);
void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes);
size_t hak_usable_size(const void *block);

/* A program that allocates nothing has a trace, too. */
__attribute__((constructor)) static void begin(void) { is_on(); }
__attribute__((destructor)) static void end(void) {
  if (is_on()) await_last_look();
}

/* Blocks from that size on are at multiples of it in hakmem, and few others are. */
enum { LARGE = 64 << 10, LOOK_PAGES = 1024 };

/* Of a large block that is about to go: a program may ask for much more than it uses. Where the system does not say
 * what is resident, that is all of it. */
static __attribute__((noinline, cold)) void record_resident(void *block) {
  unsigned char pages[LOOK_PAGES];
  size_t bytes = is_on() ? hak_usable_size(block) : 0;
  if (bytes < LARGE) return;
  int saved = errno;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), resident = 0;
  for (size_t done = 0; done < bytes;) {
    size_t part = bytes - done < LOOK_PAGES * page ? bytes - done : LOOK_PAGES * page;
    size_t count = (part + page - 1) / page;
    if (mincore((char *)block + done, part, pages) != 0) memset(pages, 1, count);
    for (size_t i = 0; i < count; i++) resident += pages[i] & 1 ? page : 0;
    done += part;
  }
  errno = saved;
  record(OP_RESIDENT, block, resident, 0);
}

static inline void record_leaving(enum op op, void *block) {
  if (__builtin_expect((uintptr_t)block % LARGE == 0, 0)) record_resident(block);
  record(op, block, 0, 0);
}

EXPORT void *malloc(size_t bytes) {
  void *block = hak_malloc(bytes);
  record(OP_MALLOC, block, bytes, 0);
  return block;
}

EXPORT void free(void *block) {
  if (block != NULL) record_leaving(OP_FREE, block);
  hak_free(block);
}
EXPORT void cfree(void *block) { free(block); }
EXPORT void free_sized(void *block, size_t bytes) {
  if (block != NULL) record_leaving(OP_FREE, block);
  hak_free_sized(block, bytes);
}
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  if (block != NULL) record_leaving(OP_FREE, block);
  hak_free_aligned_sized(block, alignment, bytes);
}

EXPORT void *calloc(size_t count, size_t bytes) {
  size_t product;
  void *block = hak_calloc(count, bytes);
  if (__builtin_mul_overflow(count, bytes, &product)) product = SIZE_MAX;
  record(OP_CALLOC, block, product, 0);
  return block;
}

EXPORT void *realloc(void *block, size_t bytes) {
  if (block != NULL) record_leaving(OP_REALLOC_FROM, block);
  void *moved = hak_realloc(block, bytes);
  record(block != NULL ? OP_REALLOC_TO : OP_MALLOC, moved, bytes, 0);
  return moved;
}
EXPORT void *reallocarray(void *block, size_t count, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, product);
}

static void *aligned(void *block, size_t alignment, size_t bytes) {
  record(OP_ALIGNED, block, bytes, alignment);
  return block;
}
EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  return aligned(hak_aligned_alloc(alignment, bytes), alignment, bytes);
}
EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes) {
  int error = hak_posix_memalign(out, alignment, bytes);
  aligned(error == 0 ? *out : NULL, alignment, bytes);
  return error;
}

/* What libhakmem.so has under a name that is here, too. It is loaded next. */
static void *next(void *_Atomic *known, const char *name) {
  void *found = atomic_load_explicit(known, memory_order_relaxed);
  if (found == NULL) {
    found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    atomic_store_explicit(known, found, memory_order_relaxed);
  }
  return found;
}
#define NEXT(type, name)             \
  __extension__({                    \
    static void *_Atomic known;      \
    (__typeof__(type) *)next(&known, name); \
  })

EXPORT void *memalign(size_t alignment, size_t bytes) {
  return aligned(NEXT(void *(size_t, size_t), "memalign")(alignment, bytes), alignment, bytes);
}
EXPORT void *valloc(size_t bytes) {
  return aligned(NEXT(void *(size_t), "valloc")(bytes), (size_t)sysconf(_SC_PAGESIZE), bytes);
}
EXPORT void *pvalloc(size_t bytes) {
  return aligned(NEXT(void *(size_t), "pvalloc")(bytes), (size_t)sysconf(_SC_PAGESIZE), bytes);
}

/* ---- C++: these may throw ----------------------------------------------------*/
void *new_plain(size_t bytes) __asm__("_Znwm") EXPORT;
void *new_aligned(size_t bytes, size_t alignment) __asm__("_ZnwmSt11align_val_t") EXPORT;
void delete_plain(void *block) __asm__("_ZdlPv") EXPORT;
void delete_aligned(void *block, size_t alignment) __asm__("_ZdlPvSt11align_val_t") EXPORT;

void *new_plain(size_t bytes) {
  void *block = NEXT(void *(size_t), "_Znwm")(bytes);
  record(OP_MALLOC, block, bytes, 0);
  return block;
}
void *new_aligned(size_t bytes, size_t alignment) {
  return aligned(NEXT(void *(size_t, size_t), "_ZnwmSt11align_val_t")(bytes, alignment), alignment, bytes);
}
void delete_plain(void *block) { free(block); }
void delete_aligned(void *block, size_t alignment) {
  (void)alignment;
  free(block);
}
