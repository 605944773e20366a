/*
 * The root of what can be read of the allocator from outside the process.
 *
 * `hak inspect` finds the symbol hak_inspect_root in the file that the process has mapped, and
 * reads the allocator's tables by it with process_vm_readv: nothing runs in the process, and
 * nothing stops it. The root says where everything is and how large, by name, so that a tool
 * of another version can tell whether it knows its way.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_INSPECT_H
#define HAK_INSPECT_H

#include "../base/inspected.h"

HAK_C_BEGIN

enum {
  /* To be raised when a name comes to mean something else, or a table is to be read in another
   * way. A new name needs nothing: tools that do not know it do not look for it. */
  INSPECT_LAYOUT = 1,
  INSPECT_GROUPS = 11,
};
#define INSPECT_MARK "hakmem's tables"

typedef struct {
  const inspect_field_t *fields;
  uint64_t count;
} inspect_group_t;

typedef struct {
  char mark[16];    /* INSPECT_MARK, by which it is found where no symbols are left */
  const void *self; /* its own address: a copy in a file or a buffer is none        */
  uint32_t layout, root_bytes, field_bytes, group_count;
  char version[16]; /* of the library */
  inspect_group_t groups[INSPECT_GROUPS];
} inspect_root_t;

extern const inspect_root_t hak_inspect_root;

HAK_C_END
#endif
