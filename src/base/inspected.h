/*
 * Names for the allocator's tables, for who reads them from outside the process.
 *
 * A field says under a name where something lies and how large it is. Each file whose state
 * others cannot see names what a reader needs of it; observe/inspect.c puts all of it together
 * behind one symbol. The fields are constants: they cost nothing while the program runs.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_INSPECTED_H
#define HAK_INSPECTED_H

#include "base.h"

HAK_C_BEGIN

typedef enum {
  INSPECT_NUMBER,   /* `at` is the number itself                      */
  INSPECT_VARIABLE, /* `at` is an address                             */
  INSPECT_MEMBER,   /* `at` is an offset into a record of some table  */
} inspect_kind_t;

/* Part of the layout that tools know: see INSPECT_LAYOUT in observe/inspect.h. */
typedef struct {
  char name[32];
  uint32_t kind;                 /* inspect_kind_t                               */
  uint32_t bytes, count, stride; /* of an element; elements; from one to the next */
  const void *at;
} inspect_field_t;
static_assert(sizeof(inspect_field_t) == 56, "tools read these");

#define HAK_INSPECT_NUMBER(name, number) \
  { name, INSPECT_NUMBER, sizeof(uint64_t), 1, 0, (const void *)(uintptr_t)(number) }
#define HAK_INSPECT_VARIABLE(name, variable) \
  { name, INSPECT_VARIABLE, sizeof(variable), 1, sizeof(variable), &(variable) }
/* `first` is the element itself, or what is wanted of it. */
#define HAK_INSPECT_ARRAY(name, first, count, stride) \
  { name, INSPECT_VARIABLE, sizeof(first), count, (uint32_t)(stride), &(first) }
#define HAK_INSPECT_MEMBER(name, type, member) HAK_INSPECT_MEMBERS(name, type, member, 1, 0)
#define HAK_INSPECT_MEMBERS(name, type, first, count, stride)                       \
  {                                                                                 \
    name, INSPECT_MEMBER, sizeof(((type *)NULL)->first), count, (uint32_t)(stride), \
        (const void *)offsetof(type, first)                                         \
  }

HAK_C_END
#endif
