/* See profile.h. SPDX-License-Identifier: MIT */
#include "profile.h"

const char *const profile_names[PROFILE_COUNT] = {
    [PROFILE_BALANCED] = "balanced", [PROFILE_MEMORY] = "memory", [PROFILE_SPEED] = "speed"};

/* For speed, what is kept is bounded by its age rather than by its amount. What is trusted is so much that most
 * programs of a second or two fit into it, and may all be resident without need. */
static const profile_scale_t scales[PROFILE_COUNT] = {
    [PROFILE_BALANCED] = {.wait = 4, .keep = 4},
    [PROFILE_MEMORY] = {.wait = 1, .keep = 1},
    [PROFILE_SPEED] = {.wait = 16, .keep = 256, .trusted_bytes = HAK_MIB(64)},
};

profile_scale_t profile_scale = {.wait = 4, .keep = 4};

void profile_choose(profile_t profile) { profile_scale = scales[profile]; }
