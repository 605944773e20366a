/* See json.h. SPDX-License-Identifier: MIT */
#include "json.h"

#include "desk.h"
#include "fields.h"

#include <stdarg.h>
#include <stdio.h>

/* Where the text goes; nobody is asked any more who has had enough. */
typedef struct {
  hak_write_fn *write;
  void *context;
  bool goes_on;
} out_t;

static __attribute__((format(printf, 2, 3))) void put(out_t *out, const char *format, ...) {
  char text[320];
  if (!out->goes_on) return;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out->goes_on = out->write(out->context, text, min_size((size_t)length, sizeof text - 1));
}

static void put_fields(out_t *out, const void *figures, const field_t *fields, size_t count) {
  for (size_t i = 0; i < count; i++)
    put(out, ",\n \"%s\": %llu", fields[i].name, (unsigned long long)field_value(figures, &fields[i]));
}

static void put_classes(out_t *out, const census_t *census) {
  const char *before = "";
  put(out, ",\n \"classes\": [");
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const class_census_t *found = &census->classes[c];
    if (found->slabs == 0) continue;
    put(out,
        "%s\n  {\"block_bytes\": %u, \"slab_count\": %zu, \"live_count\": %zu, \"cached_count\": %zu, "
        "\"outbox_count\": %zu, \"free_count\": %zu, \"tail_bytes\": %zu, \"resident_bytes\": %zu}",
        before, size_classes[c].block_bytes, found->slabs, census_live(census, c), found->cached, found->in_outboxes,
        found->free, census_tail_bytes(census, c),
        found->out_resident_bytes + found->free_resident_bytes + found->tail_resident_bytes);
    before = ",";
  }
  put(out, "]");
}

static void write_at(desk_t *desk, void *context) {
  out_t *out = context;
  put(out, "{\"version\": \"%s\"", version_text());
  put_fields(out, &desk->stats, stats_fields, STATS_FIELDS);
  put_fields(out, &desk->account, account_fields, ACCOUNT_FIELDS);
  put(out, ",\n \"is_measured\": %s", desk->census.is_measured ? "true" : "false");
  put_classes(out, &desk->census);
  put(out, "}\n");
}

void json_write(hak_write_fn *write, void *context) {
  out_t out = {write, context, true};
  desk_work(write_at, &out);
}
