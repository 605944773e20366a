/* See surface.h. SPDX-License-Identifier: MIT */
#include "api/surface.h"

#include <hakmem.h>

#include <cstdlib>
#include <malloc.h>

static std::size_t libc_usable(const void *block) { return malloc_usable_size(const_cast<void *>(block)); }

const Surface libc_surface = {"libc",        malloc,         calloc, realloc,    reallocarray,
                              aligned_alloc, posix_memalign, free,   free_sized, free_aligned_sized,
                              libc_usable};
const Surface hak_surface = {"hak",
                             hak_malloc,
                             hak_calloc,
                             hak_realloc,
                             hak_reallocarray,
                             hak_aligned_alloc,
                             hak_posix_memalign,
                             hak_free,
                             hak_free_sized,
                             hak_free_aligned_sized,
                             hak_usable_size};
