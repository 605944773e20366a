/* What the allocator says, and how it fails itself. See os.h. SPDX-License-Identifier: MIT */
#include "os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void os_warn(const char *format, ...) {
  static const char prefix[] = "hakmem: ";
  enum { PREFIX = sizeof prefix - 1 };
  char line[PREFIX + 400 + 1];
  __builtin_memcpy(line, prefix, PREFIX);
  va_list arguments;
  va_start(arguments, format);
  /* Integers and strings only: glibc's vsnprintf allocates nothing for them. */
  int n = vsnprintf(line + PREFIX, sizeof line - PREFIX - 1, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  size_t length = PREFIX + min_size((size_t)n, sizeof line - PREFIX - 2);
  /* One line whatever the environment holds, and nothing that a terminal takes for a command. */
  for (size_t i = PREFIX; i < length; i++)
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) line[i] = '?';
  line[length++] = '\n';
  os_write_stderr(line, length);
}

void hak_assert_failed(const char *condition, const char *file, int line) {
  os_warn("internal error: '%s' does not hold at %s:%d", condition, file, line);
  abort();
}

void hak_reentered(void) {
  os_warn("a signal handler has called the allocator and interrupted it: no function of malloc(3) may be called there");
  abort();
}
