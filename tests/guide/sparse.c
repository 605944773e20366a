/* Fills a cache, and then makes buffers of which it uses a page each. `sparse small`: buffers of a page.
 * SPDX-License-Identifier: MIT */
#include "step.h"

enum { ENTRIES = 50000, ENTRY_BYTES = 4000, BUFFERS = 150, BUFFER_BYTES = 1 << 20, USED_BYTES = 4000 };

char *entry[ENTRIES], *buffer[BUFFERS];

int main(int count, char **words) {
  const bool small = count > 1 && strcmp(words[1], "small") == 0;
  steps_begin();
  for (int i = 0; i < ENTRIES; i++) {
    entry[i] = filled(ENTRY_BYTES);
  }
  step("the cache is full");
  for (int i = 0; i < BUFFERS; i++) {
    buffer[i] = malloc(small ? USED_BYTES : BUFFER_BYTES);
    if (buffer[i] == NULL) {
      abort();
    }
    memset(buffer[i], 1, USED_BYTES);
  }
  step("150 buffers are in use");
}
