/*
 * A server of many threads under soak. It listens on the Unix socket that its
 * argument names; each connection is served by a thread of its own, which ends
 * with it. Requests and answers are lines:
 *
 *   work SEED    allocates in every way, some seeds with helper threads or child
 *                processes; answers `ok HASH`, which is the seed's alone
 *   drop         frees all that the server keeps; answers `ok 0`
 *   quit         ends the server with status 0
 *
 * `refused` answers what there was no memory for, `damaged WHY` says that a
 * block lost what was in it. SOAK_PLANT in the environment makes it misbehave,
 * for tests of the soak's own checks.
 *
 * SPDX-License-Identifier: MIT
 */
#include "work.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

namespace {

/* By a request that is to leak, and by one of few that keep what they take. */
constexpr std::size_t kLeaked = 1 << 20, kKept = 4 << 20;
soak::Shelf shelf;
std::atomic<std::uint64_t> served{0};

bool planted(const char *what) {
  static const char *const plant = std::getenv("SOAK_PLANT");
  return plant != nullptr && std::strcmp(plant, what) == 0;
}

/* Trouble on purpose, before the request with this number is served. */
void misbehave(std::uint64_t number) {
  const std::size_t taken = planted("leak") ? kLeaked : planted("keep") && number >= 50 && number < 200 ? kKept : 0;
  if (taken > 0) std::memset(hak_test::opaque(std::malloc(taken)), 1, taken);
  if (planted("crash") && number == 100) raise(SIGSEGV);
  if (planted("error") && number == 100) throw std::bad_alloc();
  if (planted("double-free") && number == 100) {
    void *block = std::malloc(3 << 20), *again = hak_test::opaque(block);
    std::free(block);
    std::free(again);
  }
  if (planted("damage") && number % 64 == 20) {
    /* The last place: what is dropped before it is dropped all the same. */
    constexpr std::size_t kPlace = soak::Shelf::kPlaces - 1;
    soak::Held held = shelf.swap(kPlace, soak::Held());
    if (held.block != nullptr) static_cast<unsigned char *>(held.block)[0] ^= 1;
    shelf.swap(kPlace, held);
  }
}

std::string work(std::uint64_t seed) {
  const std::uint64_t number = served.fetch_add(1);
  misbehave(number);
  /* What happens to the shelf differs from request to request. */
  hak_test::Random random(hak_test::mix(seed) ^ hak_test::mix(number));
  soak::churn(shelf, random, 100);
  if (seed % 8 == 1) soak::helpers(random);
  if (seed % 16 == 3) soak::child(random, false);
  if (seed % 16 == 11) soak::child(random, true);
  char text[40];
  std::snprintf(text, sizeof text, "ok %016" PRIx64 "\n", soak::containers(seed, 1) ^ planted("wrong"));
  return text;
}

std::string answer(const std::string &request) {
  try {
    if (request.compare(0, 5, "work ") == 0) return work(std::strtoull(request.c_str() + 5, nullptr, 10));
    if (request == "drop") shelf.clear();
    return "ok 0\n";
  } catch (const std::bad_alloc &) {
    return "refused\n";
  } catch (const soak::Damaged &found) {
    return "damaged " + std::string(found.what()) + "\n";
  }
}

void serve(int connection) {
  try {
    std::string pending;
    char buffer[4096];
    for (ssize_t got; (got = read(connection, buffer, sizeof buffer)) > 0;) {
      pending.append(buffer, static_cast<std::size_t>(got));
      for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
        const std::string request = pending.substr(0, end);
        if (request == "quit") std::exit(0);
        const std::string text = answer(request);
        if (send(connection, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
      }
    }
  } catch (const std::bad_alloc &) {
    /* No memory for the answer: the connection ends. */
  }
  close(connection);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "--child") == 0)
    return soak::work_as_child(std::strtoull(argv[2], nullptr, 10));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (argc != 2 || std::strlen(argv[1]) >= sizeof address.sun_path) return 2;
  std::strcpy(address.sun_path, argv[1]);
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listening, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 || listen(listening, 64) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  for (;;) {
    const int connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    try {
      std::thread(serve, connection).detach();
    } catch (const std::exception &) {
      close(connection); /* no thread (system_error), or no memory for what it is told (bad_alloc): come again */
    }
  }
}
