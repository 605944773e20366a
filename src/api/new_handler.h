/*
 * What operator new does when there is no memory: calls the new-handler and
 * tries again, as [new.delete.single] of ISO C++20 requires.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_NEW_HANDLER_H
#define HAK_NEW_HANDLER_H

#include "../base/base.h"

HAK_C_BEGIN

/* A block, or std::bad_alloc, or whatever the handler throws. */
void *new_handler_retry(size_t bytes, size_t alignment);
/* A block or NULL: what the handler throws ends here. */
void *new_handler_retry_nothrow(size_t bytes, size_t alignment);
/* What the program's own throwing form gives; NULL if it throws. */
void *new_handler_catch(void *(*form)(size_t), size_t bytes);
void *new_handler_catch_aligned(void *(*form)(size_t, size_t), size_t bytes, size_t alignment);

HAK_C_END
#endif
