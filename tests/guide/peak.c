/* Answers three large queries, one after the other, and waits; then gives back what is free.
 * SPDX-License-Identifier: MIT */
#include "step.h"

enum { ROWS = 20000, ROW_BYTES = 2000 };

static void query(void) {
  static void *row[ROWS];
  for (int i = 0; i < ROWS; i++) {
    row[i] = filled(ROW_BYTES);
  }
  for (int i = 0; i < ROWS; i++) {
    free(row[i]);
  }
}

int main(void) {
  steps_begin();
  for (int i = 0; i < 3; i++) {
    query();
  }
  step("three queries answered");
  malloc_trim(0);
  step("trimmed");
}
