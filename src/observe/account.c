/* See account.h. SPDX-License-Identifier: MIT */
#include "account.h"

#include "../os/os.h"
#include "../slab/pool.h"
#include "../support/error.h"
#include "../support/limit.h"
#include "../support/tally.h"

#include <string.h>

/* ---- By the books ----------------------------------------------------------------*/

static void add_classes(const census_t *census, hak_stats_t *stats) {
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const class_census_t *found = &census->classes[c];
    size_t block_bytes = size_classes[c].block_bytes, bytes = census_blocks(census, c) * block_bytes;
    if (size_class_is_single(c)) {
      stats->large_bytes += bytes;
    } else {
      stats->slab_bytes += bytes;
      stats->slab_count += found->slabs;
    }
    stats->cached += found->cached * block_bytes;
    stats->outboxes += found->in_outboxes * block_bytes;
    stats->free_in_slabs += found->free * block_bytes;
    stats->slab_tails += census_tail_bytes(census, c);
  }
}

/* A region's free units are as good as free blocks. */
static void add_spare_units(const census_t *census, hak_stats_t *stats) {
  stats->slab_bytes += census->spare_units << UNIT_SHIFT;
  stats->free_in_slabs += census->spare_units << UNIT_SHIFT;
}

static void add_events(hak_stats_t *stats) {
  stats->heap_count = pool_owner_count() - pool_orphanage_count(); /* which is no thread's */
  stats->heap_pooled_count = pool_pooled_count() - pool_orphanage_count();
  for (uint32_t id = 1; id <= pool_owner_count(); id++) {
    const owner_t *owner = owner_by_id(id);
    stats->refills += atomic64_load_relaxed(&owner->refills);
    stats->flushes += atomic64_load_relaxed(&owner->flushes);
    stats->remote_frees += atomic64_load_relaxed(&owner->remote_frees);
    stats->adoptions += atomic64_load_relaxed(&owner->adoptions);
  }
  stats->purged_aged = atomic64_load_relaxed(&tallies[TALLY_AGED]);
  stats->purged_strained = atomic64_load_relaxed(&tallies[TALLY_STRAINED]);
  stats->purged_idle = atomic64_load_relaxed(&tallies[TALLY_IDLE]);
  stats->purged_trimmed = atomic64_load_relaxed(&tallies[TALLY_TRIMMED]);
  stats->purged_limited = atomic64_load_relaxed(&tallies[TALLY_LIMITED]);
  stats->flushed_unused = atomic64_load_relaxed(&tallies[TALLY_UNUSED]);
  stats->flushed_stripped = atomic64_load_relaxed(&tallies[TALLY_STRIPPED]);
  stats->flushed_ended = atomic64_load_relaxed(&tallies[TALLY_ENDED]);
}

static void add_calls(hak_stats_t *stats) {
  stats->mmap_calls = atomic64_load_relaxed(&os_calls.mmap);
  stats->munmap_calls = atomic64_load_relaxed(&os_calls.munmap);
  stats->madvise_calls = atomic64_load_relaxed(&os_calls.madvise);
  stats->mremap_calls = atomic64_load_relaxed(&os_calls.mremap);
  stats->refused_purges = atomic64_load_relaxed(&os_calls.refused_purges);
  stats->refused_membarriers = atomic64_load_relaxed(&os_calls.refused_membarriers);
  stats->refused_threads = atomic64_load_relaxed(&os_calls.refused_threads);
}

static void add_limits(hak_stats_t *stats) {
  limits_t limits = limits_now();
  stats->hard_limit = limits.hard;
  stats->soft_limit = limits.soft;
  stats->container_limit = limits.container;
  stats->charged = limits.charged;
}

void stats_from(const census_t *census, hak_stats_t *stats) {
  memset(stats, 0, sizeof *stats);
  stats->struct_bytes = sizeof *stats;
  stats->errors = error_count();
  add_calls(stats);
  add_limits(stats);
  if (census->committed == 0) return;
  stats->reserved = the_map.units << UNIT_SHIFT;
  stats->committed = census->committed;
  stats->dirty_free = census->dirty;
  stats->clean_free = census->committed + census->lost_bytes -
                      min_size(census->committed, census->used + census->dirty);
  stats->peak_in_use = census->peak;
  stats->metadata = census->metadata;
  stats->huge_bytes = census->huge_bytes;
  add_classes(census, stats);
  add_spare_units(census, stats);
  size_t all = stats->slab_bytes + stats->large_bytes + stats->huge_bytes;
  size_t unused = stats->cached + stats->outboxes + stats->free_in_slabs;
  stats->live = all > unused ? all - unused : 0;
  add_events(stats);
}

void stats_collect(hak_stats_t *stats) {
  census_t census;
  census_take(&census, false);
  stats_from(&census, stats);
}

/* ---- By what is resident -----------------------------------------------------------*/

void account_from(const census_t *census, hak_account_t *account) {
  *account = (hak_account_t){
      .struct_bytes = sizeof *account,
      .is_measured = census->is_measured,
      .mapped = census->committed + census->metadata,
      .resident_live = census->huge_resident_bytes,
      .resident_dirty = census->dirty_resident_bytes,
      .resident_huge_page_slack = census->slack_resident_bytes,
      .resident_metadata = census->metadata_resident_bytes,
  };
  for (unsigned c = 0; c < SIZE_CLASS_COUNT; c++) {
    const class_census_t *found = &census->classes[c];
    size_t cached = census_resident_share(census, c, found->cached);
    size_t outboxes = min_size(census_resident_share(census, c, found->in_outboxes),
                               found->out_resident_bytes - cached);
    account->resident_cached += cached;
    account->resident_outboxes += outboxes;
    account->resident_live += found->out_resident_bytes - cached - outboxes;
    account->resident_free_in_slabs += found->free_resident_bytes;
    account->resident_slab_tails += found->tail_resident_bytes;
  }
  account->resident_free_in_slabs += census->spare_resident_bytes;
  account->resident = account->resident_live + account->resident_cached + account->resident_outboxes +
                      account->resident_free_in_slabs + account->resident_slab_tails + account->resident_dirty +
                      account->resident_huge_page_slack + account->resident_metadata;
  /* The heap may have grown since it was looked up how large it is. */
  account->mapped = max_size(account->mapped, account->resident);
  account->returned = account->mapped - account->resident;
}

void account_collect(hak_account_t *account) {
  census_t census;
  census_take(&census, true);
  account_from(&census, account);
}
