/*
 * A machine with four nodes of memory, on which threads move all the time: instead of
 * src/os/nodes.c, which is not linked.
 *
 * SPDX-License-Identifier: MIT
 */
#include <cstdint>

#include <os/os.h>

extern "C" std::uint32_t os_node_count(void) { return 4; }
extern "C" std::uint32_t os_node_here(void) {
  static thread_local std::uint32_t random = os_thread_id();
  random = random * 1664525 + 1013904223;
  return random >> 30;
}
