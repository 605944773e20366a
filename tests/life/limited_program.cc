/*
 * A program under HAKMEM_HARD_LIMIT or HAKMEM_SOFT_LIMIT. It says "ok", or what was wrong.
 *
 *   resident BYTES   fills the heap to its end and frees it again, in blocks of many sizes:
 *                    what is resident beside the rest of the program is never more than BYTES
 *   child BYTES      the same in a forked child, while the parent has threads at work
 *   new              operator new throws std::bad_alloc, its nothrow form gives NULL, and the
 *                    new-handler is asked first
 *   phases           grows and shrinks in one size after the other, and keeps a little of each;
 *                    says its peak in KiB. With an argument it has a second thread
 *
 * SPDX-License-Identifier: MIT
 */
#include "support/payload.h"
#include "support/process.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t kMost = std::size_t{16} << 20; /* blocks: room for more than any limit here */
void **held;

[[noreturn]] void fail(const char *what, std::size_t a, std::size_t b) {
  char line[200];
  int n = std::snprintf(line, sizeof line, "%s: %zu, %zu\n", what, a, b);
  (void)!write(1, line, static_cast<std::size_t>(n));
  _exit(1);
}

/* Anonymous memory that is resident. The sums of /proc/self/statm are late, by up to some hundred KiB for each
 * processor; these pages are counted when we ask. Without the allocator. */
std::size_t anonymous_bytes() {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  const ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  close(file);
  text[length > 0 ? length : 0] = '\0';
  const char *field = std::strstr(text, "\nAnonymous:");
  if (field == nullptr) fail("there is no smaps_rollup", 0, 0);
  return std::strtoull(field + sizeof "\nAnonymous:", nullptr, 10) << 10;
}

/* Of the table beside the heap, so many bytes are resident by now. */
std::size_t table_bytes(std::size_t count) { return (count * sizeof(void *) + 4095) / 4096 * 4096; }

/* `lost`: of that, as much may not be there for this process. */
void resident(std::size_t most, std::size_t lost) {
  constexpr std::size_t kOther = 256 << 10; /* data of libraries, and stack, not used before */
  const std::size_t before = anonymous_bytes();
  for (std::size_t bytes : {40, 200, 3000, 20000, 70000, 1000000, 9000000}) {
    madvise(held, kMost * sizeof *held, MADV_DONTNEED);
    std::size_t count = 0, last = 1;
    for (; count < kMost; count++) {
      errno = 0;
      void *block = malloc(bytes);
      if (block == nullptr && errno != ENOMEM) fail("NULL without ENOMEM", bytes, 0);
      if (block == nullptr) break;
      std::memset(block, 1, bytes);
      held[count] = block;
    }
    if (count == kMost || count == 0) fail("memory has no end, or never was", bytes, count);
    const std::size_t now = anonymous_bytes() - table_bytes(count);
    if (now > before + most + kOther) fail("more is resident than the limit allows", now - before, most);
    /* 70000 bytes are a block of 128 KiB. */
    if (count * bytes < (most - lost) / 2) fail("memory ended long before its limit", bytes, count);
    /* Half goes, in no order; the other half of the room serves another size. */
    for (std::size_t i = 0; i < count; i += 2) free(held[i]), held[i] = nullptr;
    while (void *block = malloc(bytes / 3 + 100)) {
      std::memset(block, 1, bytes / 3 + 100);
      if (count + last >= kMost) fail("memory has no end", bytes, count);
      held[count + last++] = block;
    }
    const std::size_t then = anonymous_bytes() - table_bytes(count + last);
    if (then > before + most + kOther) fail("more is resident afterwards", then - before, most);
    for (std::size_t i = 0; i < count + last; i++) free(held[i]), held[i] = nullptr;
  }
}

void child(std::size_t most) {
  constexpr std::size_t kLargest = 3000000;
  /* The block that the worker has at the fork is nobody's in the child; so is one that is on its way back. So
   * are those in its magazines, if it is in the middle of something: one of a size, each half as large again as
   * the next. */
  constexpr std::size_t kLost = 5 * (kLargest + kLargest / 4);
  std::atomic<bool> ends{false};
  std::thread worker([&] {
    while (!ends)
      for (std::size_t bytes = 1; bytes < kLargest; bytes += bytes / 2 + 1) free(malloc(bytes));
  });
  for (int i = 0; i < 2; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      resident(most, kLost);
      _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(1);
  }
  ends = true;
  worker.join();
}

int asked;
void *spare;
void handler() {
  asked++;
  std::set_new_handler(nullptr);
  operator delete(spare);
}

void new_operators() {
  spare = operator new(30 << 20);
  std::set_new_handler(handler);
  void *block = operator new(50 << 20); /* not beside the spare one */
  if (asked != 1) fail("the new-handler was not asked", static_cast<std::size_t>(asked), 0);
  try {
    operator delete(operator new(50 << 20));
    fail("operator new gives more than the limit", 0, 0);
  } catch (const std::bad_alloc &) {
    asked++;
  }
  if (operator new(50 << 20, std::nothrow) != nullptr) fail("operator new(nothrow) gives more than the limit", 0, 0);
  if (operator new[](50 << 20, std::align_val_t{4096}, std::nothrow) != nullptr) fail("the aligned one does", 0, 0);
  operator delete(block);
  operator delete(operator new(60 << 20));
}

void phases() {
  for (std::size_t round = 0; round < 6; round++) {
    const std::size_t bytes = 3000 * (round + 1), count = (std::size_t{100} << 20) / bytes;
    for (std::size_t i = 0; i < count; i++) {
      held[i] = malloc(bytes);
      if (held[i] == nullptr) fail("no memory", bytes, i);
      std::memset(held[i], 1, bytes);
    }
    for (std::size_t i = 0; i < count; i++)
      if (i % 20 != round) free(held[i]);
  }
  std::printf("%zu\n", hak_test::status_kib("VmHWM:"));
}

}  // namespace

int main(int argc, char **argv) {
  held = static_cast<void **>(
      mmap(nullptr, kMost * sizeof *held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  madvise(held, kMost * sizeof *held, MADV_NOHUGEPAGE); /* or some of it would be resident for nothing */
  const std::string way = argc > 1 ? argv[1] : "";
  const std::size_t most = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  std::printf("%s", ""); /* the stream's buffer is there before memory ends */
  std::fflush(stdout);
  if (way == "resident") resident(most, 0);
  else if (way == "child") child(most);
  else if (way == "new") new_operators();
  else if (way == "phases") {
    if (most != 0) std::thread([] { pause(); }).detach();
    phases();
  } else return 2;
  if (way != "phases") (void)!write(1, "ok\n", 3);
  std::fflush(stdout);
  return 0;
}
