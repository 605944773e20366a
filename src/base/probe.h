/*
 * Places at which somebody outside may look on: USDT probes, of the provider "hakmem", for
 * bpftrace, perf and SystemTap. Each is an instruction that does nothing and a note in the
 * file that says where it is and where its arguments are (section .note.stapsdt, in the
 * format of SystemTap's <sys/sdt.h>). They are at batch boundaries and in rarer places, on
 * no fast path, and there in every build that finds that header. docs/probes.md says what
 * each means; a test compares the two.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_PROBE_H
#define HAK_PROBE_H

/* HAK_PROBE(name, arguments...): integers or pointers, one at the least, which are at hand
 * anyway: they are evaluated whether anybody looks or not. */
#if __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define HAK_PROBE(name, ...) STAP_PROBEV(hakmem, name, __VA_ARGS__)
#else
static inline void hak_no_probe(int first, ...) { (void)first; }
#define HAK_PROBE(name, ...)             \
  do {                                   \
    if (0) hak_no_probe(0, __VA_ARGS__); \
  } while (0)
#endif

#endif
