/* See residency.h. SPDX-License-Identifier: MIT */
#include "residency.h"

#include "../os/os.h"

bool residency_can_be_had(char *page) {
  unsigned char resident;
  return os_resident_pages(page, os_page_bytes(), &resident);
}

/* Of a row in which something is not mapped the system says nothing, so each page is asked
 * for: the program may have mapped something of its own in our way, or taken it away. */
static void look_at(residency_t *known, char *from, size_t pages) {
  size_t page = os_page_bytes();
  known->from = from;
  known->pages = pages;
  if (!os_resident_pages(from, pages * page, known->resident))
    for (size_t i = 0; i < pages; i++)
      if (!os_resident_pages(from + i * page, page, &known->resident[i])) known->resident[i] = 0;
  if (os_unmark_zero_pages(from, pages * page, known->step, known->resident) && known->step > 1)
    os_unmark_zero_pages(from, pages * page, 1, known->resident);
}

size_t residency_of(residency_t *known, char *at, size_t bytes, char *end) {
  size_t page = os_page_bytes(), resident = 0;
  for (char *next = at; next < at + bytes; next += page) {
    size_t index = (size_t)(next - known->from) / page;
    if (next < known->from || index >= known->pages) {
      look_at(known, next, min_size((size_t)(end - next) / page, RESIDENCY_PAGES));
      index = 0;
    }
    resident += known->resident[index] & 1;
  }
  return resident * page;
}
