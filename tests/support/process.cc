/* See process.h. SPDX-License-Identifier: MIT */
#include "process.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hak_test {
namespace {

[[noreturn]] void die(const char *what) {
  std::perror(what);
  std::abort();
}

/* Forks a child that runs `body` with its outputs in pipes, and reads them to the end. */
Outcome capture(const std::function<void()> &body) {
  int out[2], err[2];
  if (pipe(out) != 0 || pipe(err) != 0) die("pipe");
  std::fflush(nullptr);
  pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    alarm(kWatchdogSeconds);
    body();
    _exit(125);
  }
  close(out[1]);
  close(err[1]);

  Outcome outcome;
  pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string *texts[2] = {&outcome.out, &outcome.err};
  for (int open_fds = 2; open_fds > 0;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) die("poll");
    for (int i = 0; i < 2; i++) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[4096];
      ssize_t n = read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        close(fds[i].fd);
        fds[i].fd = -1;
        open_fds--;
      }
    }
  }
  while (waitpid(child, &outcome.status, 0) < 0)
    if (errno != EINTR) die("waitpid");
  return outcome;
}

}  // namespace

bool Outcome::exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
bool Outcome::killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }

std::string Outcome::describe() const {
  std::string text = WIFEXITED(status)     ? "exit status " + std::to_string(WEXITSTATUS(status))
                     : WIFSIGNALED(status) ? std::string("killed by ") + strsignal(WTERMSIG(status))
                                           : "wait status " + std::to_string(status);
  if (killed_by(SIGALRM)) text += " (it hung: the watchdog ended it)";
  return text + "\n--- standard output:\n" + out + "\n--- standard error:\n" + err + "\n---";
}

Outcome run(const std::vector<std::string> &argv, const std::vector<std::string> &environment) {
  std::vector<char *> words;
  for (const std::string &word : argv) words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  return capture([&] {
    for (const std::string &entry : environment) {
      std::size_t equals = entry.find('=');
      if (equals == std::string::npos) unsetenv(entry.c_str());
      else setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
    execvp(words[0], words.data());
    std::perror(words[0]);
    _exit(127);
  });
}

void start_again_with(char **argv, const std::vector<std::string> &settings) {
  bool are_there = true;
  for (const std::string &setting : settings) {
    std::string name = setting.substr(0, setting.find('=')), value = setting.substr(name.size() + 1);
    const char *now = std::getenv(name.c_str());
    are_there = are_there && now != nullptr && now == value;
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (are_there) return;
  execv("/proc/self/exe", argv);
  std::perror("/proc/self/exe");
  std::exit(EXIT_FAILURE);
}

Outcome in_child(const std::function<int()> &body) {
  return capture([&] { _exit(body()); });
}

namespace {
/* Reads a small file of /proc into `buffer` as a string. */
void slurp(const char *path, char *buffer, std::size_t bytes) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path);
  std::size_t length = 0;
  for (ssize_t n; length + 1 < bytes && (n = read(fd, buffer + length, bytes - 1 - length)) > 0;)
    length += static_cast<std::size_t>(n);
  close(fd);
  buffer[length] = '\0';
}
}  // namespace

std::size_t resident_bytes() {
  char text[256];
  slurp("/proc/self/statm", text, sizeof text);
  const char *second = std::strchr(text, ' ');
  return std::strtoull(second, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t status_kib(const char *field) {
  static char text[8192];
  slurp("/proc/self/status", text, sizeof text);
  const char *at = std::strstr(text, field);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(field), nullptr, 10);
}

void reset_peak() {
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "5", 1) != 1) die("/proc/self/clear_refs");
  close(fd);
}

void wait_until_asleep(const std::atomic<int> &thread_id) {
  while (thread_id == 0) std::this_thread::yield();
  for (char state = 0; state != 'S'; std::this_thread::yield()) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread_id) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');
    state = name_end == std::string::npos ? '\0' : stat[name_end + 2];
  }
}

std::size_t lines_with(const std::string &text, const std::string &needle) {
  std::size_t count = 0;
  for (std::size_t start = 0; start < text.size();) {
    std::size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    if (text.substr(start, end - start).find(needle) != std::string::npos) count++;
    start = end + 1;
  }
  return count;
}

}  // namespace hak_test
