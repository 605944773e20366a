/*
 * Documents: trees of small blocks, as of parsed JSON or XML, in a queue: a server's cache, a message that is
 * worked on while others wait. Each is built in one go, from the roots on; when it has become the oldest it is
 * walked and freed, each node after those below it. All differ in size. What a walk takes depends on where the
 * blocks lie, which is the allocator's choice alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "common.h"

#include <string.h>

static uint64_t queued = 20, payload = 0, threads = 1;

static const bench_option_t options[] = {
    {"queued", BENCH_NUMBER, &queued, 1, 1 << 20, NULL, "documents that live at a time, per thread"},
    {"payload", BENCH_BYTES, &payload, 0, BENCH_MIB, NULL, "bytes that a node has beside its fields"},
    {"threads", BENCH_NUMBER, &threads, 1, 1024, NULL, "each with a queue of its own"},
    {0},
};

enum { ROOTS = 5, CHILDREN_MOST = 8, DEPTH_MOST = 7, TEXT_MOST = 40, LONG_TEXT = 2000, LONG_TEXTS_ONE_IN = 30 };

typedef struct node {
  struct node **children; /* NULL: a leaf, which has a text */
  char *text;
  uint32_t count, text_bytes;
  uint64_t value;
  unsigned char payload[];
} node_t;

typedef struct document {
  node_t *roots[ROOTS];
  uint64_t sum; /* of all values */
} document_t;

typedef struct own {
  size_t oldest, count;
  document_t documents[];
} own_t;

static node_t *build(bench_rng_t *rng, unsigned depth, uint64_t *sum, uint64_t *ops, bool verify) {
  node_t *node = bench_alloc(sizeof *node + payload, false);
  memset(node, 0, sizeof *node);
  node->value = bench_random(rng);
  *sum += node->value;
  *ops += 2;
  /* The roots are lists for certain, so that no document is just a few leaves. */
  if (depth < DEPTH_MOST && (depth == 0 || bench_below(rng, depth > DEPTH_MOST - 2 ? 3 : 2) == 0)) {
    node->count = (uint32_t)bench_between(rng, 1, CHILDREN_MOST);
    node->children = bench_alloc(node->count * sizeof *node->children, false);
    for (uint32_t i = 0; i < node->count; i++) node->children[i] = build(rng, depth + 1, sum, ops, verify);
  } else {
    uint64_t more = bench_below(rng, LONG_TEXTS_ONE_IN) == 0 ? bench_below(rng, LONG_TEXT) : 0;
    node->text_bytes = (uint32_t)(bench_between(rng, BENCH_SEAL_MIN, TEXT_MOST) + more);
    node->text = bench_alloc(node->text_bytes, verify);
  }
  return node;
}

/* Its values' sum. It is gone afterwards. */
static uint64_t walk_and_free(node_t *node, bool verify) {
  uint64_t sum = node->value;
  for (uint32_t i = 0; i < node->count; i++) sum += walk_and_free(node->children[i], verify);
  free(node->children);
  if (node->text) bench_free(node->text, verify);
  free(node);
  return sum;
}

static void setup(bench_worker_t *worker) { worker->state = bench_pages(sizeof(own_t) + queued * sizeof(document_t)); }

static void drop_oldest(own_t *own, bool verify) {
  document_t *oldest = &own->documents[own->oldest];
  uint64_t sum = 0;
  for (unsigned i = 0; i < ROOTS; i++) sum += walk_and_free(oldest->roots[i], verify);
  if (sum != oldest->sum) bench_die("a document is damaged");
  own->oldest = (own->oldest + 1) % queued;
  own->count--;
}

static uint64_t work(bench_worker_t *worker) {
  own_t *own = worker->state;
  bool verify = bench_args.verify;
  uint64_t ops = 0;
  do {
    if (own->count == queued) drop_oldest(own, verify);
    document_t *fresh = &own->documents[(own->oldest + own->count++) % queued];
    fresh->sum = 0;
    uint64_t blocks = 0;
    for (unsigned i = 0; i < ROOTS; i++) fresh->roots[i] = build(&worker->rng, 0, &fresh->sum, &blocks, verify);
    ops += 2 * blocks; /* each is freed, too, if not by now */
  } while (bench_more(worker, ops));
  return ops;
}

static void teardown(bench_worker_t *worker) {
  own_t *own = worker->state;
  while (own->count > 0) drop_oldest(own, bench_args.verify);
}

int main(int argc, char **argv) {
  bench_start(argc, argv, "documents", 0.5, options);
  bench_plan_t plan = {.setup = setup, .work = work, .teardown = teardown};
  bench_put_outcome(bench_run(&plan, (unsigned)threads));
  bench_finish("ops_per_s");
}
