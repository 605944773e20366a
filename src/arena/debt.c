/* See debt.h. SPDX-License-Identifier: MIT */
#include "debt.h"

#include "dirty.h"
#include "kept.h"

static struct {
  size_t clean_units;  /* for clean units that were taken */
  size_t growth_units; /* for blocks that have grown      */
} debt;

bool debt_for_clean(size_t units) {
  if (!kept_lets_fallen_stay()) return false;
  debt.clean_units += units;
  return debt_units() > 0;
}

bool debt_for_growth(size_t units) {
  if (!kept_lets_fallen_stay()) return false;
  debt.growth_units += units;
  return true;
}

size_t debt_units(void) {
  if (debt.clean_units == 0 && debt.growth_units == 0) return 0;
  size_t over = min_size(kept_over_lately(), dirty_units()),
         fallen = kept_lets_fallen_stay() ? kept_unattended_surplus() : 0;
  debt.clean_units = min_size(debt.clean_units, min_size(fallen, over));
  debt.growth_units = kept_is_resting() ? 0 : min_size(debt.growth_units, over);
  return max_size(debt.clean_units, debt.growth_units);
}

void debt_pay(size_t purged_units) {
  debt.clean_units -= min_size(debt.clean_units, purged_units);
  debt.growth_units -= min_size(debt.growth_units, purged_units);
}
