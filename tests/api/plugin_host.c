/*
 * A C program, which has nothing of C++ until it opens plug-ins.
 *
 *   plugin_host main PLUGIN...     runs main() of the last one
 *   plugin_host FORM [PLUGIN...]   asks the form of `new` that has this name for more memory than there is, from where
 *                                  no C++ is; exits with 0 if that is NULL
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int main_fn(int, char **);
typedef void *new_fn(size_t, const void *nothrow);

static void *expect(void *found) {
  if (found == NULL) fprintf(stderr, "%s\n", dlerror());
  return found;
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  void *plugin = NULL;
  for (int i = 2; i < count; i++)
    if ((plugin = expect(dlopen(arguments[i], RTLD_NOW))) == NULL) return 2;
  int is_main = strcmp(arguments[1], "main") == 0;
  void *function = expect(dlsym(is_main ? plugin : RTLD_DEFAULT, arguments[1]));
  if (function == NULL) return 2;
  if (is_main) return ((main_fn *)function)(1, (char *[]){arguments[0], NULL});
  return ((new_fn *)function)(PTRDIFF_MAX, "") == NULL ? 0 : 1;
}
