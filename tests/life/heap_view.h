/*
 * hakmem's own functions where hakmem is there, found at run time: the same
 * test then runs linked with it and preloaded.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_LIFE_HEAP_VIEW_H
#define HAK_TESTS_LIFE_HEAP_VIEW_H

#include <gtest/gtest.h>
#include <hakmem.h>

#include <dirent.h>
#include <dlfcn.h>

namespace heap_view {

template <class Function> Function *find(const char *name) {
  auto *function = reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) {
    ADD_FAILURE() << name << " does not exist: hakmem is not loaded";
    std::abort();
  }
  return function;
}

inline void flush() { find<void()>("hak_thread_flush")(); }
inline bool trim(std::size_t keep) { return find<bool(std::size_t)>("hak_trim")(keep); }
inline bool owns(const void *p) { return find<bool(const void *)>("hak_owns")(p); }
inline hak_stats_t stats() {
  hak_stats_t now;
  find<void(hak_stats_t *, std::size_t)>("hak_stats")(&now, sizeof now);
  return now;
}

/* Threads of this process, those of libraries included. */
inline int thread_count() {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (const dirent *entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

}  // namespace heap_view
#endif
