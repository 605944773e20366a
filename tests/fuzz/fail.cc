/* See fail.h. SPDX-License-Identifier: MIT */
#include "fail.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace hak_fuzz {

static Progress own_progress;
Progress *progress = &own_progress;

void fail(const char *format, ...) {
  char line[512];
  int n = std::snprintf(line, sizeof line, "fuzz: at record %u: ", progress->record.load());
  va_list arguments;
  va_start(arguments, format);
  n += std::vsnprintf(line + n, sizeof line - static_cast<unsigned>(n) - 1, format, arguments);
  va_end(arguments);
  if (n > static_cast<int>(sizeof line) - 2) n = sizeof line - 2;
  line[n++] = '\n';
  (void)!write(STDERR_FILENO, line, static_cast<unsigned>(n));
  std::abort();
}

}  // namespace hak_fuzz
