/*
 * Sparse large blocks: 3000 blocks of 1 MiB, of each of which 4 KiB are written,
 * as with buffers that are sized for the worst case. The figure is the resident
 * memory: what an allocator puts huge pages behind is resident whole.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

static uint64_t blocks = 3000, bytes = BENCH_MIB, written = 4 * BENCH_KIB, idle_ms = 300;

static const bench_option_t options[] = {
    {"blocks", BENCH_NUMBER, &blocks, 1, 1000000, NULL, "that are held"},
    {"size", BENCH_BYTES, &bytes, 16, BENCH_GIB, NULL, "of each"},
    {"written", BENCH_BYTES, &written, 1, BENCH_GIB, NULL, "from the start of each"},
    {"idle", BENCH_NUMBER, &idle_ms, 0, 600000, NULL, "milliseconds without a call before the figure is taken"},
    {0},
};

/* The payload is only what is written: filling the whole block would be another program. */
static uint64_t tag(uint64_t index) { return bench_args.seed + index; }

int main(int argc, char **argv) {
  bench_start(argc, argv, "sparse_large", 0, options);
  if (written > bytes) bench_usage("--written is above --size");
  void **held = bench_pages(blocks * sizeof *held);
  for (uint64_t i = 0; i < blocks; i++) {
    held[i] = malloc(bytes);
    if (!held[i]) bench_out_of_memory(bytes);
    if ((uintptr_t)held[i] % 16 != 0) bench_die("block %p is not aligned to 16", held[i]);
    bench_fill(held[i], written, tag(i));
    bench_keep(held[i]);
  }
  bench_sleep((double)idle_ms / 1000);
  double resident = bench_resident_mib(blocks * sizeof *held);
  for (uint64_t i = 0; i < blocks; i++) {
    if (bench_args.verify) bench_check(held[i], written, tag(i));
    free(held[i]);
  }
  bench_put_memory("resident_mib", resident);
  bench_finish("resident_mib");
}
