/*
 * What is tested in this build, and how: the build defines HAK_FUZZ_SERVED where the
 * allocator also serves malloc, HAK_FUZZ_WALK where the walker of invariants can be
 * called, HAK_FUZZ_STEPS where the core is compiled to call at each basic block.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_FUZZ_TESTING_H
#define HAK_TESTS_FUZZ_TESTING_H

namespace hak_fuzz {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAK_FUZZ_TSAN 1
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAK_FUZZ_SANITIZED 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAK_FUZZ_SANITIZED 1
#endif

#if defined(HAK_FAULT_INJECTION)
constexpr bool kInjects = true;
#else
constexpr bool kInjects = false;
#endif

/* The sanitizers' run-time libraries need memory of their own, and ThreadSanitizer
 * starts no child from a program with threads. */
#if defined(HAK_FUZZ_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr bool kLimits = !kSanitized;
#if defined(HAK_FUZZ_TSAN)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

/* Whether the allocator serves the whole program, so that not only the model's blocks are live. */
#if defined(HAK_FUZZ_SERVED)
constexpr bool kServed = true;
#else
constexpr bool kServed = false;
#endif

/* Threads run one at a time and change at basic blocks, by the input alone.
 * ThreadSanitizer would see an order in that which is none: there they run freely. */
#if defined(HAK_FUZZ_STEPS) && !defined(HAK_FUZZ_TSAN)
constexpr bool kSteps = true;
#else
constexpr bool kSteps = false;
#endif

}  // namespace hak_fuzz
#endif
