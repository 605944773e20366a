/* See tally.h. SPDX-License-Identifier: MIT */
#include "tally.h"

atomic64 tallies[TALLY_COUNT];
