/* What the allocator says, and how it fails itself. See os.h. SPDX-License-Identifier: MIT */
#include "os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void os_make_plain(char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) text[i] = '?';
}

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
  os_make_plain(line + PREFIX, length - PREFIX); /* the environment may hold whatever it likes */
  line[length++] = '\n';
  os_write_stderr(line, length);
}

void hak_assert_failed(const char *condition, const char *file, int line) {
  os_warn("internal error: '%s' does not hold at %s:%d", condition, file, line);
  abort();
}

void hak_reentered(void) {
  os_warn(
      "the allocator was called where it had been interrupted: no signal handler may call a function of malloc(3) "
      "or jump out of one, and no thread be cancelled in one");
  abort();
}
