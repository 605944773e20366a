/*
 * What the soaked server does for a request.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SOAK_WORK_H
#define HAK_TESTS_SOAK_WORK_H

#include "shelf.h"

#include <cstdint>

namespace soak {

/* Containers of all kinds are built, sorted, searched and thrown away. The
 * result depends on the seed alone. */
std::uint64_t containers(std::uint64_t seed, std::size_t rounds);

/* `operations` times a block of any size comes to the shelf and another leaves it. */
void churn(Shelf &shelf, hak_test::Random &random, std::size_t operations);

/* Threads that end when they have handed what they allocated to this one. */
void helpers(hak_test::Random &random);

/* A child process that checks and frees what it inherited, allocates and ends;
 * with `execute`, one that becomes this program again to do so. */
void child(hak_test::Random &random, bool execute);

/* What such a child does; its exit status. */
int work_as_child(std::uint64_t seed);

}  // namespace soak
#endif
