/* Opens sessions, and between them makes requests, which end. `lifetimes apart` opens the sessions first.
 * SPDX-License-Identifier: MIT */
#include "step.h"

enum { SESSIONS = 20000, REQUESTS = 24, BYTES = 480 };

void *session[SESSIONS];
static void *request[SESSIONS][REQUESTS];

static void open_session(int i) { session[i] = filled(BYTES); }

int main(int count, char **words) {
  const bool apart = count > 1 && strcmp(words[1], "apart") == 0;
  steps_begin();
  for (int i = 0; apart && i < SESSIONS; i++) {
    open_session(i);
  }
  for (int i = 0; i < SESSIONS; i++) {
    if (!apart) {
      open_session(i);
    }
    for (int k = 0; k < REQUESTS; k++) {
      request[i][k] = filled(BYTES);
    }
  }
  for (int i = 0; i < SESSIONS; i++) {
    for (int k = 0; k < REQUESTS; k++) {
      free(request[i][k]);
    }
  }
  step("20000 sessions are open, and no request");
}
