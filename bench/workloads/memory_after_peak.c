/*
 * Memory after a peak: a program fills its memory with blocks, frees most of them, and then
 * does nothing for a while, or goes on in a small way. The figure is the resident memory
 * after that.
 *   all        everything is freed
 *   random     90 % of the blocks are freed, picked at random: hardly a page is
 *              empty unless blocks are smaller than a tenth of it
 *   neighbour  90 % are freed in neighbourhoods of 1000 blocks that were
 *              allocated one after the other
 *   most       all but every 500th block are freed: hardly any memory is live, but what an
 *              allocator has divided into blocks of a size is hardly ever free as a whole
 *
 * By default there is no call at all after the last free, and no other thread that could do
 * anything: what an allocator has not given back by then stays. With --slots the program goes on, filling and
 * emptying so many slots with blocks of 16-256 B; with --company there are threads that sleep.
 *
 * Beside the figure: `at_once_mib`, the same at the last free; `quarter_mib`, after a quarter of the time;
 * `occupied_mib`, the pages that hold
 * at least one byte of a live block, and so the least that is resident where blocks cannot be moved;
 * `live_mib`, the blocks' bytes; `start_mib`, the process before its first block.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <unistd.h>

enum { ALL, RANDOM, NEIGHBOUR, MOST };
static const char *const modes[] = {"all", "random", "neighbour", "most", NULL};

static uint64_t mode = ALL, total_bytes = 415 * BENCH_MIB, min_bytes = 16, max_bytes = 256, idle_ms = 2000;
static uint64_t slot_count, company;

static const bench_option_t options[] = {
    {"freed", BENCH_CHOICE, &mode, 0, 0, modes, "what is freed"},
    {"total", BENCH_BYTES, &total_bytes, BENCH_MIB, 64 * BENCH_GIB, NULL, "bytes of all blocks"},
    {"min", BENCH_BYTES, &min_bytes, 16, BENCH_GIB, NULL, "smallest block"},
    {"max", BENCH_BYTES, &max_bytes, 16, BENCH_GIB, NULL, "largest block"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds before the figure is taken"},
    {"slots", BENCH_NUMBER, &slot_count, 0, 100000000, NULL, "that are filled and emptied meanwhile; 0: no call"},
    {"company", BENCH_NUMBER, &company, 0, 1000, NULL, "threads that sleep meanwhile"},
    {0},
};

enum { NEIGHBOURHOOD = 1000, MOST_OF = 500, SLOT_MIN = 16, SLOT_MAX = 256, CALLS_PER_LOOK = 1000 };

typedef struct entry {
  void *block;
  size_t bytes;
} entry_t;

/* Written from the first entry on: what of a table is resident is what was used. */
typedef struct table {
  entry_t *entries;
  size_t capacity, used;
} table_t;

static table_t table_of(size_t capacity) {
  return (table_t){.entries = bench_pages(capacity * sizeof(entry_t)), .capacity = capacity};
}

static void table_drop(table_t *table) {
  for (size_t i = 0; i < table->used; i++)
    if (table->entries[i].block) bench_free(table->entries[i].block, bench_args.verify);
  bench_pages_drop(table->entries, table->capacity * sizeof(entry_t));
}

static size_t table_bytes(const table_t *table) { return table->used * sizeof(entry_t); }

static table_t blocks, slots;

static double resident_mib(void) { return bench_resident_mib(table_bytes(&blocks) + table_bytes(&slots)); }

static entry_t fresh_block(bench_rng_t *rng, size_t min, size_t max) {
  entry_t fresh = {NULL, bench_between(rng, min, max)};
  fresh.block = bench_alloc(fresh.bytes, bench_args.verify);
  if (!bench_args.verify) bench_touch_pages(fresh.block, fresh.bytes);
  return fresh;
}

static bool freed(bench_rng_t *rng, size_t index) {
  switch (mode) {
    case ALL: return true;
    case RANDOM: return bench_below(rng, 10) != 0;
    case NEIGHBOUR: return index / NEIGHBOURHOOD % 10 != 0;
    default: return index % MOST_OF != 0;
  }
}

/* Half of the slots are full after a while. Without any it is a pause. */
static uint64_t work(bench_rng_t *rng, double seconds) {
  if (slots.used == 0) bench_sleep(seconds);
  double end = bench_now() + (slots.used ? seconds : 0);
  uint64_t calls = 0;
  while (bench_now() < end) {
    for (unsigned i = 0; i < CALLS_PER_LOOK; i++, calls++) {
      entry_t *slot = &slots.entries[bench_below(rng, slots.used)];
      if (slot->block) {
        bench_free(slot->block, bench_args.verify);
        slot->block = NULL;
      } else {
        *slot = fresh_block(rng, SLOT_MIN, SLOT_MAX);
      }
    }
  }
  return calls;
}

static void *sleeping_thread(void *nothing) {
  bench_crowd_join();
  return nothing;
}

/* ---- Pages that hold something -------------------------------------------*/

typedef struct pages {
  uintptr_t *numbers;
  size_t count;
  uint64_t live_bytes;
} pages_t;

static size_t page_bytes;

static size_t pages_at_most(const table_t *table) {
  size_t most = 0;
  for (size_t i = 0; i < table->used; i++)
    if (table->entries[i].block) most += table->entries[i].bytes / page_bytes + 2;
  return most;
}

static void add_pages(pages_t *pages, const table_t *table) {
  for (size_t i = 0; i < table->used; i++) {
    if (!table->entries[i].block) continue;
    uintptr_t first = (uintptr_t)table->entries[i].block, last = first + table->entries[i].bytes - 1;
    for (uintptr_t page = first / page_bytes; page <= last / page_bytes; page++) pages->numbers[pages->count++] = page;
    pages->live_bytes += table->entries[i].bytes;
  }
}

static int by_number(const void *one, const void *other) {
  uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)other;
  return (a > b) - (a < b);
}

/* After the figure was taken: qsort may call malloc. */
static void put_pages(void) {
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  size_t most = pages_at_most(&blocks) + pages_at_most(&slots) + 1;
  pages_t pages = {.numbers = bench_pages(most * sizeof *pages.numbers)};
  add_pages(&pages, &blocks);
  add_pages(&pages, &slots);
  qsort(pages.numbers, pages.count, sizeof *pages.numbers, by_number);
  size_t different = 0;
  for (size_t i = 0; i < pages.count; i++) different += i == 0 || pages.numbers[i] != pages.numbers[i - 1];
  bench_pages_drop(pages.numbers, most * sizeof *pages.numbers);
  bench_put_real("live_mib", (double)pages.live_bytes / (double)BENCH_MIB);
  bench_put_real("occupied_mib", (double)(different * page_bytes) / (double)BENCH_MIB);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "memory_after_peak", 0, options);
  if (min_bytes > max_bytes) bench_usage("--min is above --max");
  uintptr_t *ids = bench_pages((company + 1) * sizeof *ids);
  for (uint64_t i = 0; i < company; i++) ids[i] = bench_thread_start(sleeping_thread, NULL);
  bench_crowd_await(company);
  blocks = table_of(total_bytes / min_bytes + 1);
  bench_rng_t rng = bench_rng(0);
  double at_start = resident_mib();

  double start = bench_now();
  for (size_t live = 0; live < total_bytes; live += blocks.entries[blocks.used++].bytes)
    blocks.entries[blocks.used] = fresh_block(&rng, min_bytes, max_bytes);
  double filled = bench_now() - start, peak = resident_mib();

  start = bench_now();
  uint64_t left = blocks.used;
  for (size_t i = 0; i < blocks.used; i++) {
    if (!freed(&rng, i)) continue;
    bench_free(blocks.entries[i].block, bench_args.verify);
    blocks.entries[i].block = NULL;
    left--;
  }
  double emptied = bench_now() - start, at_once = resident_mib();

  slots = table_of(slot_count + 1);
  for (; slots.used < slot_count; slots.used++) slots.entries[slots.used] = (entry_t){NULL, 0};
  uint64_t calls = work(&rng, (double)idle_ms / 4000);
  double quarter = resident_mib();
  calls += work(&rng, 3 * (double)idle_ms / 4000);
  double resident = resident_mib();

  bench_put_number("blocks", blocks.used);
  bench_put_number("blocks_left", left);
  bench_put_number("calls", calls);
  bench_put_real("fill_seconds", filled);
  bench_put_real("free_seconds", emptied);
  put_pages();
  bench_put_real("start_mib", at_start);
  bench_put_real("highest_mib", peak);
  bench_put_real("at_once_mib", at_once);
  bench_put_real("quarter_mib", quarter);
  bench_put_memory("resident_mib", resident);
  table_drop(&blocks);
  table_drop(&slots);
  bench_crowd_dismiss();
  for (uint64_t i = 0; i < company; i++) bench_thread_join(ids[i]);
  bench_finish("resident_mib");
}
