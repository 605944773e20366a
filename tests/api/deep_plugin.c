/*
 * A library that programs open with RTLD_DEEPBIND. It frees blocks that others have allocated, and has others free its
 * own, from its constructor on.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdlib.h>
#include <string.h>

void plugin_free(void *block);
void *plugin_realloc(void *block, size_t bytes);
extern void *plugin_block;

void plugin_free(void *block) { free(block); }
void *plugin_realloc(void *block, size_t bytes) { return realloc(block, bytes); }

void *plugin_block;

/* strdup is the C library's, and its blocks are of the program's malloc. */
__attribute__((constructor)) static void begin(void) {
  free(strdup("freed"));
  plugin_block = realloc(strdup("kept"), 5000);
}
