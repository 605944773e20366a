/*
 * The program as the loader sees it, for what is looked up elsewhere (deepbind.c, dlsym.c). Only in the shared library.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DEEPBIND_H
#define HAK_DEEPBIND_H

#include "../base/base.h"

HAK_C_BEGIN

/* A handle of the program, for dlsym_next, if its malloc is this library's: not where that came with a plug-in. The
 * caller closes it. NULL: it is not, or there is no such handle. */
void *deepbind_served_program(void);

/* As dlsym(3) without ours. NULL as well where there is none. */
void *dlsym_next(void *library, const char *name);

HAK_C_END
#endif
