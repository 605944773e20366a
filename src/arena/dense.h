/*
 * Which new memory for slabs and large blocks gets huge pages.
 *
 * Only behind a heap that is large and dense, so that what huge pages keep resident without need is a step of
 * growth, an eighth of the heap. Slabs say themselves how much of them is free, and whether they were full
 * once: what is free in those, and was written to, is resident in small pages as well. The zone of huge blocks
 * does not count: they may be hardly used. Blocks of several pages, wide ones, do not say how much of them is
 * used. So where they are a good part of the heap, a short step of growth that goes without huge pages is a
 * witness: when the zone grows the next time, a few pages of what is in use in it are looked up, and if they
 * are resident, that is credit for as much as is in use, but for 32 MiB at first, and for twice as much with each
 * further one that is, up to 512. Where wide blocks are most of it the heap need not
 * be large. Huge blocks earn theirs in the same way (huge_pages.h), and what they have earned (huge_credit.h)
 * serves a few wide ones beside them, too.
 *
 * What the profile trusts (profile.h) gets them unseen, from 1 MiB on.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_DENSE_H
#define HAK_DENSE_H

#include "map.h"

HAK_C_BEGIN

/* What the layers above tell: changes of the free bytes inside slabs; of the units in slabs of which not all
 * blocks were ever out at the same time, so that some may never have been used; and of the units in slabs of wide
 * blocks, shelved large ones among them. Thread-safe. */
void dense_note_free_in_slabs(int64_t change_bytes);
void dense_note_unfilled(int64_t change_units);
void dense_note_wide(int64_t change_units);
/* The sums. */
size_t dense_free_in_slabs(void);
size_t dense_unfilled_units(void);
size_t dense_wide_units(void);

/* What the system is to be asked before the zone grows, with the gate open: whether these pages of the witness, which
 * are in use, are resident. Behind the gate the others would wait for 16 system calls, and at the end of each a thread
 * may lose its processor. */
enum { DENSE_PROBES = 16 };
typedef struct {
  unsigned count, absent_most; /* so many of them need not be */
  char *pages[DENSE_PROBES];
} dense_question_t;
/* Whether that is to be asked before the small zone grows by so many units, with so many of it in use: the credit is
 * less, and there is a witness, which has been heard then. The arena's gate is held. */
bool dense_asks(dense_question_t *question, size_t units, size_t used_units);
/* Whether what is in use of the witness is resident, but for a little. Asks the system; needs no gate. */
bool dense_is_resident(const dense_question_t *question);
/* That is credit, or there is none. The arena's gate is held. */
void dense_hear(bool is_resident, size_t used_units);

/* How long a step of growth of the small zone shall be that would have so many units, with so many of it
 * in use. The arena's gate is held. */
size_t dense_step_units(size_t step_units, size_t used_units);
/* Whether such a step gets huge pages. The arena's gate is held. */
bool dense_wants_huge_pages(unit_t first, size_t units, size_t used_units);

/* A run is about to be taken there: whether it reaches a SuperSlab that has been in use and has gone back to
 * the system as a whole, and which. That is growth as well. The arena's gate is held. */
bool dense_is_growth(unit_t first, size_t run_units, size_t *superslab);
/* Then that one may get huge pages again, with some like it behind. The arena's gate is held. */
void dense_grows_again(size_t superslab);

/* Pages in a part of some SuperSlabs of the small zone are about to be given back. The
 * system must not make huge pages of the rest: khugepaged fills the gaps again, while the
 * process sleeps. No gate is needed. */
void dense_thins_out(unit_t first, size_t units);

HAK_C_END
#endif
