/*
 * The figures in the document that glibc's malloc_info(3) writes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_XML_H
#define HAK_XML_H

#include "../base/base.h"

#include <stdio.h>

HAK_C_BEGIN

/* One heap, which all threads share. false: `stream` takes no more. */
bool xml_write(FILE *stream);

HAK_C_END
#endif
