/*
 * Scenarios json, mir, vm and mixed of the original reports. Their sources are
 * not part of this project; the scenarios are reconstructed from their names and
 * from the block sizes that the reports mention:
 *   json   parse a 64 KiB document into a tree of small nodes and strings whose
 *          arrays grow by realloc, then drop the tree
 *   mir    a compiler's middle end: a 256 KiB arena for each function and side
 *          tables of 64–512 KiB, last in first out; some arenas live longer
 *   vm     a virtual machine that takes and drops 2 MiB segments and uses
 *          every page of them
 *   mixed  all of these sizes at once, in the proportions of a server
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

enum { JSON, MIR, VM, MIXED };
static const char *const names[] = {"json", "mir", "vm", "mixed", NULL};

static uint64_t scenario = JSON, threads = 1;

static const bench_option_t options[] = {
    {"scenario", BENCH_CHOICE, &scenario, 0, 0, names, "what to play"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each on its own"},
    {0},
};

/* ---- json ----------------------------------------------------------------*/

typedef struct node {
  char *key, *text; /* text: a leaf; otherwise children */
  struct node **children;
  uint32_t count, capacity;
} node_t;

static node_t *json_parse(bench_rng_t *rng, unsigned depth, bool verify, uint64_t *ops) {
  node_t *node = malloc(sizeof *node);
  if (!node) bench_out_of_memory(sizeof *node);
  *node = (node_t){.key = bench_alloc(bench_between(rng, 16, 32), verify)};
  *ops += 2;
  if (depth == 0) {
    node->text = bench_alloc(bench_between(rng, 16, 96), verify);
    *ops += 1;
    return node;
  }
  uint64_t children = bench_between(rng, 2, 14);
  for (uint64_t i = 0; i < children; i++) {
    if (node->count == node->capacity) {
      node->capacity = node->capacity ? 2 * node->capacity : 4;
      node->children = realloc(node->children, node->capacity * sizeof(node_t *));
      if (!node->children) bench_out_of_memory(node->capacity * sizeof(node_t *));
      *ops += 1;
    }
    node->children[node->count++] = json_parse(rng, depth - 1, verify, ops);
  }
  return node;
}

static void json_drop(node_t *node, bool verify, uint64_t *ops) {
  for (uint32_t i = 0; i < node->count; i++) json_drop(node->children[i], verify, ops);
  if (node->text) bench_free(node->text, verify);
  else free(node->children);
  bench_free(node->key, verify);
  free(node);
  *ops += 3;
}

static uint64_t json(bench_worker_t *worker, bool verify) {
  uint64_t ops = 2;
  char *document = bench_alloc(64 * BENCH_KIB, verify);
  if (!verify) bench_touch_pages(document, 64 * BENCH_KIB);
  node_t *root = json_parse(&worker->rng, 3, verify, &ops);
  bench_free(document, verify);
  json_drop(root, verify, &ops);
  return ops;
}

/* ---- mir -----------------------------------------------------------------*/

enum { MIR_TABLES = 3, MIR_KEPT = 4 };

typedef struct own {
  void *kept[MIR_KEPT];
  void *slots[512];
} own_t;

static uint64_t mir(bench_worker_t *worker, bool verify) {
  own_t *own = worker->state;
  void *arena = bench_alloc(256 * BENCH_KIB, verify);
  void *tables[MIR_TABLES];
  for (unsigned i = 0; i < MIR_TABLES; i++)
    tables[i] = bench_alloc(bench_between(&worker->rng, 64 * BENCH_KIB, 512 * BENCH_KIB), verify);
  for (unsigned i = MIR_TABLES; i-- > 0;) bench_free(tables[i], verify);
  /* One function in four stays for inlining and pushes an older one out. */
  uint64_t chance = bench_below(&worker->rng, 4 * MIR_KEPT);
  if (chance < MIR_KEPT) {
    void *old = own->kept[chance];
    own->kept[chance] = arena;
    arena = old;
  }
  if (arena) bench_free(arena, verify);
  return 2 * MIR_TABLES + 2;
}

/* ---- vm ------------------------------------------------------------------*/

static uint64_t vm(bench_worker_t *worker, bool verify) {
  own_t *own = worker->state;
  void **segment = &own->kept[bench_below(&worker->rng, 2)];
  if (*segment) bench_free(*segment, verify);
  *segment = bench_alloc(2 * BENCH_MIB, verify);
  if (!verify) bench_touch_pages(*segment, 2 * BENCH_MIB);
  return 2;
}

/* ---- mixed ---------------------------------------------------------------*/

static size_t mixed_size(bench_rng_t *rng) {
  static const struct {
    uint32_t percent, min, max;
  } classes[] = {
      {62, 16, 256}, {25, 256, 4 << 10}, {10, 4 << 10, 64 << 10}, {2, 64 << 10, 512 << 10}, {1, 2 << 20, 2 << 20},
  };
  uint64_t chance = bench_below(rng, 100);
  unsigned i = 0;
  while (chance >= classes[i].percent) chance -= classes[i++].percent;
  return bench_between(rng, classes[i].min, classes[i].max);
}

static uint64_t mixed(bench_worker_t *worker, bool verify) {
  own_t *own = worker->state;
  for (unsigned i = 0; i < 64; i++) {
    void **slot = &own->slots[bench_below(&worker->rng, sizeof own->slots / sizeof own->slots[0])];
    if (*slot) {
      bench_free(*slot, verify);
      *slot = NULL;
    } else {
      *slot = bench_alloc(mixed_size(&worker->rng), verify);
    }
  }
  return 64;
}

/* ---- Frame ---------------------------------------------------------------*/

static void setup(bench_worker_t *worker) { worker->state = bench_pages(sizeof(own_t)); }

static uint64_t work(bench_worker_t *worker) {
  static uint64_t (*const plays[])(bench_worker_t *, bool) = {json, mir, vm, mixed};
  uint64_t ops = 0;
  do {
    /* A call or two of `json` and `vm` are long enough to look at the clock. */
    for (unsigned i = 0; i < (scenario == MIR || scenario == MIXED ? 16 : 1); i++)
      ops += plays[scenario](worker, bench_args.verify);
  } while (bench_more(worker, ops));
  return ops;
}

static void teardown(bench_worker_t *worker) {
  own_t *own = worker->state;
  for (unsigned i = 0; i < MIR_KEPT; i++)
    if (own->kept[i]) bench_free(own->kept[i], bench_args.verify);
  for (unsigned i = 0; i < sizeof own->slots / sizeof own->slots[0]; i++)
    if (own->slots[i]) bench_free(own->slots[i], bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "scenarios", 0.4, options);
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
