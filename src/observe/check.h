/*
 * The invariant walker: everything that the headers of the layers promise about
 * their data, looked at in one pass.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CHECK_H
#define HAK_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Aborts with the broken invariant on standard error. No other thread may be
 * inside the allocator meanwhile. Exported by debug builds, for tests. */
void hak__check_all(void);

#ifdef __cplusplus
}
#endif
#endif
