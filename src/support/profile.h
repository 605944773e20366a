/*
 * HAKMEM_PROFILE: whether memory that might be wanted again rather stays or goes.
 *
 * A profile scales two things, wherever they are decided: how long what is free waits for
 * whoever asks for it again, and how much of it is kept resident meanwhile. And it says how much
 * gets huge pages before a program has shown that it uses its memory. Nothing on a fast path
 * depends on it. It is chosen when the environment is read, while there is no second thread.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PROFILE_H
#define HAK_PROFILE_H

#include "../base/base.h"

HAK_C_BEGIN

typedef enum { PROFILE_BALANCED, PROFILE_MEMORY, PROFILE_SPEED, PROFILE_COUNT } profile_t;
extern const char *const profile_names[PROFILE_COUNT];

void profile_choose(profile_t profile);

typedef struct {
  uint32_t wait, keep;  /* in quarters of what `balanced` does: 4 of them are as much */
  size_t trusted_bytes; /* of small and large blocks, and of huge ones: what gets huge pages unseen */
} profile_scale_t;
extern profile_scale_t profile_scale;

HAK_INLINE uint64_t profile_wait(uint64_t ms) { return ms * profile_scale.wait / 4; }
HAK_INLINE size_t profile_keep(size_t amount) { return amount * profile_scale.keep / 4; }

HAK_C_END
#endif
