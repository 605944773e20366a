/* See xml.h. SPDX-License-Identifier: MIT */
#include "xml.h"

#include "desk.h"

/* Free blocks, as glibc lists those of its bins: magazines' ones and slabs'. */
static bool write_sizes(FILE *stream, const census_t *census) {
  bool written = fprintf(stream, "<sizes>\n") >= 0;
  for (unsigned c = 0; written && c < SIZE_CLASS_COUNT; c++) {
    const class_census_t *found = &census->classes[c];
    size_t count = found->free + found->cached + found->in_outboxes, to = size_classes[c].block_bytes;
    if (count == 0) continue;
    written = fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                      c == 0   ? 0
                      : c == 1 ? (size_t)1
                               : size_classes[c - 1].block_bytes + (size_t)1,
                      to, count * to, count) >= 0;
  }
  return written && fprintf(stream, "</sizes>\n") >= 0;
}

static size_t blocks_cached(const census_t *census) {
  size_t count = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) count += census->classes[c].cached;
  return count;
}

static size_t blocks_free(const census_t *census) {
  size_t count = 0;
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) count += census->classes[c].free + census->classes[c].in_outboxes;
  return count;
}

/* The totals stand twice: in the heap, and behind all heaps. */
static bool write_totals(FILE *stream, const desk_t *desk, bool of_all) {
  const census_t *census = &desk->census;
  const hak_stats_t *stats = &desk->stats;
  const hak_account_t *account = &desk->account;
  bool written = fprintf(stream,
                         "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
                         "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
                         blocks_cached(census), stats->cached, blocks_free(census),
                         stats->free_in_slabs + stats->outboxes) >= 0;
  if (written && of_all)
    written = fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", census->huge_count,
                      stats->huge_bytes) >= 0;
  size_t most = max_size(account->resident, stats->peak_in_use);
  return written && fprintf(stream,
                            "<system type=\"current\" size=\"%zu\"/>\n"
                            "<system type=\"max\" size=\"%zu\"/>\n"
                            "<aspace type=\"total\" size=\"%zu\"/>\n"
                            "<aspace type=\"mprotect\" size=\"%zu\"/>\n",
                            account->resident, most, account->mapped, account->mapped) >= 0;
}

typedef struct {
  FILE *stream;
  bool written;
} document_t;

static void write_at(desk_t *desk, void *context) {
  document_t *document = context;
  document->written = fprintf(document->stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n") >= 0 &&
                      write_sizes(document->stream, &desk->census) && write_totals(document->stream, desk, false) &&
                      fprintf(document->stream, "</heap>\n") >= 0 && write_totals(document->stream, desk, true) &&
                      fprintf(document->stream, "</malloc>\n") >= 0;
}

bool xml_write(FILE *stream) {
  document_t document = {.stream = stream};
  desk_work(write_at, &document);
  return document.written;
}
