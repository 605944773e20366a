/*
 * What the programs of this folder expect: else they end with 1, and a line that says what is not so.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_MUSL_EXPECT_H
#define HAK_MUSL_EXPECT_H

#include <stdio.h>
#include <unistd.h>

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      dprintf(STDERR_FILENO, "line %d: not so: %s\n", __LINE__, #condition); \
      _exit(1);                                                              \
    }                                                                        \
  } while (0)

#endif
