/* See report.h. SPDX-License-Identifier: MIT */
#include "report.h"

#include "../os/os.h"
#include "../support/config.h"
#include "desk.h"
#include "fields.h"
#include "json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Text --------------------------------------------------------------------------*/

/* Written in few pieces, so that those of several processes mix little. */
typedef struct {
  char *text; /* the desk's */
  size_t length;
} text_t;

static void flush(text_t *out) {
  os_write_stderr(out->text, out->length);
  out->length = 0;
}

/* A line or a part of one. */
static __attribute__((format(printf, 2, 3))) void put(text_t *out, const char *format, ...) {
  enum { LONGEST = 400 };
  if (out->length + LONGEST > DESK_TEXT_BYTES) flush(out);
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(out->text + out->length, LONGEST, format, arguments);
  va_end(arguments);
  out->length += min_size((size_t)length, LONGEST - 1);
}

static double mib(size_t bytes) { return (double)bytes / (double)HAK_MIB(1); }

/* ---- Its parts -----------------------------------------------------------------------*/

static void put_head(text_t *out, const hak_account_t *account) {
  size_t resident, peak;
  char name[65];
  int length = snprintf(name, sizeof name, "%s", os_program_name());
  os_make_plain(name, min_size((size_t)length, sizeof name - 1));
  put(out, "hakmem %s: %s, process %u\n", version_text(), name, os_process_id());
  put(out, "  resident %s%.1f MiB of this heap", account->is_measured ? "" : "at most ", mib(account->resident));
  if (os_process_memory(&resident, &peak))
    put(out, "; the process has %.1f MiB, and had %.1f MiB at its peak", mib(resident), mib(peak));
  put(out, "\n");
}

static void put_kind(text_t *out, const char *name, size_t resident, size_t all, const char *meaning) {
  put(out, "  %-18s %10.2f %10.2f  %s\n", name, mib(resident), mib(all), meaning);
}

static void put_account(text_t *out, const hak_stats_t *s, const hak_account_t *a) {
  put(out, "  %-18s %10s %10s\n", "MiB", "resident", "mapped");
  put_kind(out, "live", a->resident_live, s->live, "held by the program");
  put_kind(out, "cached", a->resident_cached, s->cached, "in threads' magazines");
  put_kind(out, "outboxes", a->resident_outboxes, s->outboxes, "freed, on the way to another thread or its slab");
  put_kind(out, "free in slabs", a->resident_free_in_slabs, s->free_in_slabs, "blocks for the next refills");
  put_kind(out, "slab tails", a->resident_slab_tails, s->slab_tails, "too short for a block");
  put_kind(out, "dirty", a->resident_dirty, s->dirty_free, "free, kept for reuse");
  put_kind(out, "clean", a->resident_huge_page_slack, s->clean_free,
           "free, returned or never used; resident behind huge pages");
  put_kind(out, "metadata", a->resident_metadata, s->metadata, "tables, thread heaps, magazines");
  put_kind(out, "in all", a->resident, a->mapped, "what is not resident was returned, or never used");
}

/* What the account says already of `stats` is not said again. */
static bool is_in_account(const field_t *field) {
  size_t at = field->offset;
  return at == offsetof(hak_stats_t, live) || at == offsetof(hak_stats_t, cached) ||
         at == offsetof(hak_stats_t, outboxes) || at == offsetof(hak_stats_t, free_in_slabs) ||
         at == offsetof(hak_stats_t, slab_tails) || at == offsetof(hak_stats_t, dirty_free) ||
         at == offsetof(hak_stats_t, clean_free) || at == offsetof(hak_stats_t, metadata);
}

static void put_stats(text_t *out, const hak_stats_t *stats) {
  for (size_t i = 0; i < STATS_FIELDS; i++) {
    const field_t *field = &stats_fields[i];
    if (is_in_account(field)) continue;
    uint64_t value = field_value(stats, field);
    put(out, "  %-19s %13llu %s %s\n", field->name, (unsigned long long)(field->is_bytes ? value / 1024 : value),
        field->is_bytes ? "KiB" : "   ", field->meaning);
  }
}

static void put_classes(text_t *out, const census_t *census) {
  put(out, "  %9s %8s %10s %10s %10s %10s %12s %12s\n", "block", "slabs", "live", "cached", "outboxes", "free",
      "tails KiB", "resident KiB");
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const class_census_t *found = &census->classes[c];
    if (found->slabs == 0) continue;
    size_t resident = found->out_resident_bytes + found->free_resident_bytes + found->tail_resident_bytes;
    put(out, "  %9u %8zu %10zu %10zu %10zu %10zu %12zu %12zu\n", size_classes[c].block_bytes, found->slabs,
        census_live(census, c), found->cached, found->in_outboxes, found->free, census_tail_bytes(census, c) / 1024,
        resident / 1024);
  }
  if (census->huge_count == 0) return;
  put(out, "  %9s %8s %10zu %10s %10s %10s %12zu %12zu\n", "huge", "", census->huge_count, "", "", "",
      census->huge_spare_bytes / 1024, census->huge_resident_bytes / 1024);
}

static void print_at(desk_t *desk, void *context) {
  const bool *classes = context;
  text_t out = {.text = desk->text};
  put_head(&out, &desk->account);
  put_account(&out, &desk->stats, &desk->account);
  put_stats(&out, &desk->stats);
  if (*classes) put_classes(&out, &desk->census);
  flush(&out);
}

void report_print(bool classes) { desk_work(print_at, &classes); }

/* ---- At exit -------------------------------------------------------------------*/
typedef struct {
  int fd, error; /* errno's value; 0: none */
} file_t;

static bool write_to_file(void *context, const char *text, size_t bytes) {
  file_t *file = context;
  if (!os_write_all(file->fd, text, bytes)) file->error = errno != 0 ? errno : EIO;
  return file->error == 0;
}

/* The path with each %p replaced by the process id; false if it is too long, and errno says so. */
static bool expand_path(char *out, size_t size, const char *path) {
  size_t length = 0;
  for (; *path != '\0'; path++) {
    bool is_pid = path[0] == '%' && path[1] == 'p';
    int n = is_pid ? snprintf(out + length, size - length, "%u", os_process_id())
                   : snprintf(out + length, size - length, "%c", *path);
    length += (size_t)n;
    if (length >= size) {
      errno = ENAMETOOLONG;
      return false;
    }
    path += is_pid;
  }
  return true;
}

static int open_file(const char *pattern) {
  static HAK_RARELY_USED char path[4096]; /* a process ends once */
  return expand_path(path, sizeof path, pattern) ? os_open_for_writing(path) : -1;
}

static HAK_COLD void write_file(const char *pattern) {
  file_t file = {.fd = open_file(pattern)};
  if (file.fd >= 0) {
    json_write(write_to_file, &file);
    os_close(file.fd);
  } else {
    file.error = errno;
  }
  if (file.error != 0) os_warn("HAKMEM_STATS_FILE='%s' cannot be written: %s", pattern, strerror(file.error));
}

bool report_is_wanted(void) { return config()->report != REPORT_NONE || config()->stats_file != NULL; }

void report_at_exit(void) {
  os_hold_t hold = os_hold_write_signals();
  if (config()->report != REPORT_NONE) report_print(config()->report == REPORT_CLASSES);
  if (config()->stats_file != NULL) write_file(config()->stats_file);
  os_let_write_signals_go(&hold);
}
