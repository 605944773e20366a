/* See huge_credit.h. SPDX-License-Identifier: MIT */
#include "huge_credit.h"

enum { CREDIT_FOR_DENSE = 8 };

/* Relaxed: nothing is read beside it that it orders. */
static atomic64 credit_superslabs;

void huge_credit_begin(size_t bytes) { atomic64_store_relaxed(&credit_superslabs, bytes / OS_HUGE_PAGE_BYTES); }

void huge_credit_earn(size_t superslabs) {
  uint64_t earned = superslabs * CREDIT_FOR_DENSE;
  if (atomic64_load_relaxed(&credit_superslabs) < earned) atomic64_store_relaxed(&credit_superslabs, earned);
}

bool huge_credit_spend(size_t superslabs) {
  uint64_t have = atomic64_load_relaxed(&credit_superslabs);
  if (have < superslabs) return false;
  atomic64_store_relaxed(&credit_superslabs, have - superslabs);
  return true;
}

void huge_credit_lose(void) { atomic64_store_relaxed(&credit_superslabs, 0); }
bool huge_credit_is_gone(void) { return atomic64_load_relaxed(&credit_superslabs) == 0; }
