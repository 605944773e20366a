/*
 * The few words that every layer uses: branch hints, bit helpers, assertions
 * and the atomic types. Nothing here has state.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_BASE_H
#define HAK_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HAK_C_BEGIN extern "C" {
#define HAK_C_END }
#else
#define HAK_C_BEGIN
#define HAK_C_END
#endif

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HAK_NOINLINE __attribute__((noinline))
#define HAK_COLD __attribute__((noinline, cold))
#define HAK_INLINE static inline __attribute__((always_inline))
#define HAK_CACHE_LINE 64
/* Variables of kilobytes that most processes never touch: they lie behind all others, which so share pages. */
#define HAK_RARELY_USED __attribute__((section(".bss.rarely_used")))

#define HAK_KIB(n) ((size_t)(n) << 10)
#define HAK_MIB(n) ((size_t)(n) << 20)
#define HAK_GIB(n) ((size_t)(n) << 30)

HAK_C_BEGIN

/* ---- Assertions: on in the debug build, free in the release build --------*/
void hak_assert_failed(const char *condition, const char *file, int line) __attribute__((noreturn, cold));
#if defined(HAK_DEBUG)
#define HAK_ASSERT(c) (HAK_LIKELY(c) ? (void)0 : hak_assert_failed(#c, __FILE__, __LINE__))
#else
#define HAK_ASSERT(c) ((void)sizeof((c) ? 1 : 0))
#endif

/* A lock is asked for by the thread that holds it: a signal handler has called the
 * allocator and interrupted it. It would wait for ever. Says so and aborts. */
void hak_reentered(void) __attribute__((noreturn, cold));

/* A number or an address has been worked out by here, into a register. */
#define HAK_IN_REGISTER(value) __asm__("" : "+r"(value))

/* A look at a field that its owner writes without synchronisation: any value that
 * it has had lately will do. Only in functions marked HAK_LOOKS_ON. */
#define HAK_LOOK(field) (*(const volatile __typeof__(field) *)&(field))
#if defined(__SANITIZE_THREAD__)
#define HAK_THREAD_SANITIZER 1
#define HAK_LOOKS_ON __attribute__((no_sanitize_thread))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAK_THREAD_SANITIZER 1
#define HAK_LOOKS_ON __attribute__((no_sanitize("thread")))
#endif
#endif
#if !defined(HAK_LOOKS_ON)
#define HAK_THREAD_SANITIZER 0
#define HAK_LOOKS_ON
#endif

/* For the invariant walker, which is there in every build. */
#define HAK_CHECK(c) (HAK_LIKELY(c) ? (void)0 : hak_assert_failed(#c, __FILE__, __LINE__))

/* ---- Bits ----------------------------------------------------------------*/
HAK_INLINE bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
HAK_INLINE size_t align_up(size_t n, size_t power_of_two) { return (n + power_of_two - 1) & ~(power_of_two - 1); }
HAK_INLINE size_t align_down(size_t n, size_t power_of_two) { return n & ~(power_of_two - 1); }
HAK_INLINE size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
HAK_INLINE size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
/* Floor of the base-2 logarithm; n > 0. */
HAK_INLINE unsigned log2_floor(size_t n) { return 63u - (unsigned)__builtin_clzll(n); }
/* Bits [from, from + count) of a 32-bit mask; from + count <= 32. */
HAK_INLINE uint32_t bit_range32(unsigned from, unsigned count) {
  return count == 0 ? 0 : (UINT32_MAX >> (32 - count)) << from;
}
/* Whether a time of which the lower half is known, in milliseconds, is not after `until_ms`; there are no more
 * than 24 days between. */
HAK_INLINE bool ms_is_until(uint32_t ms, uint64_t until_ms) { return (int32_t)((uint32_t)until_ms - ms) >= 0; }

/* ---- Atomics -------------------------------------------------------------
 * Wrapped, so that no plain access can slip in; the name of each operation
 * carries its ordering, and each use names its partner. */
typedef struct {
  uint8_t value;
} atomic8;
typedef struct {
  uint32_t value;
} atomic32;
typedef struct {
  uint64_t value;
} atomic64;

#define HAK_DEFINE_ATOMIC(type, word)                                                                                  \
  HAK_INLINE word type##_load_relaxed(const type *a) { return __atomic_load_n(&a->value, __ATOMIC_RELAXED); }          \
  HAK_INLINE word type##_load_acquire(const type *a) { return __atomic_load_n(&a->value, __ATOMIC_ACQUIRE); }          \
  HAK_INLINE word type##_load_seq(const type *a) { return __atomic_load_n(&a->value, __ATOMIC_SEQ_CST); }              \
  HAK_INLINE void type##_store_relaxed(type *a, word v) { __atomic_store_n(&a->value, v, __ATOMIC_RELAXED); }          \
  HAK_INLINE void type##_store_release(type *a, word v) { __atomic_store_n(&a->value, v, __ATOMIC_RELEASE); }          \
  HAK_INLINE void type##_store_seq(type *a, word v) { __atomic_store_n(&a->value, v, __ATOMIC_SEQ_CST); }              \
  HAK_INLINE word type##_exchange_relaxed(type *a, word v) {                                                           \
    return __atomic_exchange_n(&a->value, v, __ATOMIC_RELAXED);                                                        \
  }                                                                                                                    \
  HAK_INLINE word type##_exchange_acquire(type *a, word v) {                                                           \
    return __atomic_exchange_n(&a->value, v, __ATOMIC_ACQUIRE);                                                        \
  }                                                                                                                    \
  HAK_INLINE word type##_exchange_release(type *a, word v) {                                                           \
    return __atomic_exchange_n(&a->value, v, __ATOMIC_RELEASE);                                                        \
  }                                                                                                                    \
  HAK_INLINE word type##_exchange_seq(type *a, word v) { return __atomic_exchange_n(&a->value, v, __ATOMIC_SEQ_CST); } \
  HAK_INLINE word type##_add_relaxed(type *a, word v) { return __atomic_fetch_add(&a->value, v, __ATOMIC_RELAXED); }   \
  /* By the only writer: others may read, no instruction need be atomic but the store. */                              \
  HAK_INLINE void type##_add_alone(type *a, word v) { type##_store_relaxed(a, type##_load_relaxed(a) + v); }           \
  HAK_INLINE word type##_or_relaxed(type *a, word v) { return __atomic_fetch_or(&a->value, v, __ATOMIC_RELAXED); }     \
  HAK_INLINE word type##_and_relaxed(type *a, word v) { return __atomic_fetch_and(&a->value, v, __ATOMIC_RELAXED); }   \
  HAK_INLINE word type##_or_seq(type *a, word v) { return __atomic_fetch_or(&a->value, v, __ATOMIC_SEQ_CST); }         \
  HAK_INLINE word type##_and_acquire(type *a, word v) { return __atomic_fetch_and(&a->value, v, __ATOMIC_ACQUIRE); }   \
  HAK_INLINE bool type##_cas_relaxed(type *a, word *expected, word v) {                                                \
    return __atomic_compare_exchange_n(&a->value, expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);             \
  }                                                                                                                    \
  HAK_INLINE bool type##_cas_acquire(type *a, word *expected, word v) {                                                \
    return __atomic_compare_exchange_n(&a->value, expected, v, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);             \
  }                                                                                                                    \
  HAK_INLINE bool type##_cas_acq_rel(type *a, word *expected, word v) {                                                \
    return __atomic_compare_exchange_n(&a->value, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);             \
  }
HAK_DEFINE_ATOMIC(atomic8, uint8_t)
HAK_DEFINE_ATOMIC(atomic32, uint32_t)
HAK_DEFINE_ATOMIC(atomic64, uint64_t)

HAK_C_END
#endif
