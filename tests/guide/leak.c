/* Serves requests, and forgets a line of the log for each. `leak fixed` frees it.
 * SPDX-License-Identifier: MIT */
#include "step.h"

/* A line of 1500 bytes, which the caller has to free. */
__attribute__((noinline)) char *log_line(void) {
  char *line = malloc(1500);
  if (line == NULL) {
    abort();
  }
  return memset(line, '.', 1500);
}

static void serve(int requests, bool fixed) {
  for (int i = 0; i < requests; i++) {
    char *request = filled(2000);
    char *answer = filled(5000);
    char *line = log_line();
    if (fixed) {
      free(line);
    }
    free(answer);
    free(request);
  }
}

int main(int count, char **words) {
  const bool fixed = count > 1 && strcmp(words[1], "fixed") == 0;
  steps_begin();
  for (int served = 20000;; served += 20000) {
    char line[40];
    serve(20000, fixed);
    snprintf(line, sizeof line, "%d requests served", served);
    step(line);
  }
}
