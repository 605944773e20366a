/*
 * Starts a program under a filter of system calls that allows what it lists, as that of a service of systemd with a
 * narrow SystemCallFilter=: listed_program MAY ACTION WITHOUT PROGRAM WORD...
 *
 *   MAY      confined: the program may not gain privileges, as services of a user may not; free: it may, which takes a
 *            privilege here
 *   ACTION   kill, error: what any other call gets
 *   WITHOUT  the name of one of the calls below that hakmem needs, which is not allowed then either; or nothing
 *
 * Exits with 77 where no filter can be installed, and with 2 if there is no such call.
 *
 * SPDX-License-Identifier: MIT
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What docs/configuration.md and hak say that hakmem needs under a filter that is there before the program. */
static const struct {
  const char *name;
  long number;
} needed[] = {
    {"close", SYS_close},         {"fstat", SYS_fstat},   {"futex", SYS_futex},
    {"getpid", SYS_getpid},       {"gettid", SYS_gettid}, {"madvise", SYS_madvise},
    {"mmap", SYS_mmap},           {"munmap", SYS_munmap}, {"newfstatat", SYS_newfstatat},
    {"openat", SYS_openat},       {"prctl", SYS_prctl},   {"pread64", SYS_pread64},
    {"prlimit64", SYS_prlimit64}, {"read", SYS_read},     {"rt_sigprocmask", SYS_rt_sigprocmask},
    {"sysinfo", SYS_sysinfo},
};
/* What programs, their C library, its malloc, threads and children call beside that. */
static const long others[] = {
#if defined(SYS_access)
    SYS_access,
#endif
#if defined(SYS_arch_prctl)
    SYS_arch_prctl,
#endif
    SYS_brk,        SYS_clock_gettime, SYS_clone,        SYS_clone3,          SYS_execve,          SYS_exit,
    SYS_exit_group, SYS_faccessat,     SYS_getrandom,    SYS_mprotect,        SYS_mremap,          SYS_restart_syscall,
    SYS_rseq,       SYS_rt_sigaction,  SYS_rt_sigreturn, SYS_set_robust_list, SYS_set_tid_address, SYS_wait4,
    SYS_write,
};
static struct sock_filter code[100];
static unsigned short length;

static void emit(unsigned short what, unsigned char if_true, unsigned char if_false, unsigned value) {
  code[length++] = (struct sock_filter){what, if_true, if_false, value};
}
static void answer(unsigned value) { emit(BPF_RET | BPF_K, 0, 0, value); }
static void allow(long number) {
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)number);
  answer(SECCOMP_RET_ALLOW);
}

int main(int count, char **words) {
  if (count < 5) return 2;
  const char *without = words[3];
  bool is_known = *without == '\0';
  emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    bool is_left_out = strcmp(needed[i].name, without) == 0;
    if (is_left_out) is_known = true;
    else allow(needed[i].number);
  }
  if (!is_known) return 2;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) allow(others[i]);
  answer(strcmp(words[2], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
  struct sock_fprog program = {length, code};
  if (strcmp(words[1], "confined") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 77;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 77;
  execv(words[4], words + 4);
  return 127;
}
