/*
 * What the programs of this folder expect: else they end with 1, and a line that says what is not so.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_MUSL_EXPECT_H
#define HAK_MUSL_EXPECT_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      dprintf(STDERR_FILENO, "line %d: not so: %s\n", __LINE__, #condition); \
      _exit(1);                                                              \
    }                                                                        \
  } while (0)

typedef struct {
  const char *name;
  void (*run)(void);
} case_t;

/* The program's exit status: it runs the case that its only argument names. */
static inline int run_case(const case_t *cases, size_t cases_count, int count, char **words) {
  for (size_t i = 0; i < cases_count; i++)
    if (count == 2 && strcmp(words[1], cases[i].name) == 0) {
      cases[i].run();
      return 0;
    }
  dprintf(STDERR_FILENO, "there is no such case\n");
  return 2;
}

#endif
