/*
 * Starts a program under a filter of system calls, as a container's: filtered_program MAY PROGRAM WORD... It
 * kills the process for what no other allocator calls, nor a thread that pthread_create starts without attributes.
 * MAY is "confined" if the program may not gain privileges, and so could install further filters unseen, or "free", as
 * containers are by default, which takes a privilege here. Exits with 77 where no filter can be installed.
 *
 * SPDX-License-Identifier: MIT
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const long unusual[] = {
    SYS_mincore,
    SYS_process_vm_readv,
    SYS_membarrier,
    SYS_mbind,
    SYS_move_pages,
    SYS_get_mempolicy,
    SYS_getcpu,
    SYS_sched_getscheduler,
    SYS_sched_getparam,
    SYS_sched_setscheduler,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_tgkill,
    SYS_userfaultfd,
};
static struct sock_filter code[100];
static unsigned short length;

static void emit(unsigned short what, unsigned char if_true, unsigned char if_false, unsigned value) {
  code[length++] = (struct sock_filter){what, if_true, if_false, value};
}
static void load(size_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset); }
static void answer(unsigned value) { emit(BPF_RET | BPF_K, 0, 0, value); }

int main(int count, char **words) {
  if (count < 3) return 2;
  load(offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++) {
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)unusual[i]);
    answer(SECCOMP_RET_KILL_PROCESS);
  }
  /* Pages that are moved to a place. */
  emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_mremap);
  load(offsetof(struct seccomp_data, args) + 3 * sizeof(unsigned long long));
  emit(BPF_JMP | BPF_JSET | BPF_K, 0, 1, MREMAP_FIXED);
  answer(SECCOMP_RET_KILL_PROCESS);
  answer(SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, code};
  if (strcmp(words[1], "confined") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 77;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 77;
  execv(words[2], words + 2);
  return 127;
}
