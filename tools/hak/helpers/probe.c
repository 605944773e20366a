/*
 * Tells which objects serve a process with memory. Loaded last by LD_PRELOAD,
 * in a run that is not timed.
 *
 * Each process of the tree appends lines to the file named by HAK_PROBE_FILE,
 * one when it starts and one when it exits:
 *   start|end  pid=  exe=  malloc=  free=  calloc=  realloc=  new=  bound=  foreign=  libc_heap=
 * separated by tabs; src/proof.rs judges them.
 *
 *   malloc=…    the object that answers the name for the whole program
 *   bound=      calls to these names, in any loaded object, that lead to that object
 *   foreign=    calls that lead elsewhere: "caller:function:object;…"
 *   libc_heap=  bytes that the C library's own heap has taken from the system
 *
 * The probe defines none of these functions and allocates nothing itself.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#else
#error "add this machine's relocation types"
#endif

/* operator new is told, but may be the C++ library's, which calls malloc. */
static const char *const names[] = {"malloc", "free", "calloc", "realloc", "_Znwm"};
static const char *const labels[] = {"malloc", "free", "calloc", "realloc", "new"};
enum { NAMES = sizeof names / sizeof names[0], REQUIRED = 4 };

/*
 * Calls, never made, so that the linker gives the probe a slot for each name.
 * It is linked with "-z now": what the dynamic linker puts into these slots is
 * what answers a call. dlsym would not do: in an executable that is not
 * position-independent, it may give a stub of the executable itself.
 */
__attribute__((weak)) void *_Znwm(size_t);
__attribute__((used)) static void never_called(void) {
  void *block = realloc(malloc(1), 2);
  free(block);
  free(calloc(1, 1));
  _Znwm(1);
}

static const char *output; /* HAK_PROBE_FILE, copied before the program can change it */
static char output_copy[PATH_MAX];

static char line[32768];
static size_t used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(line + used, sizeof line - used, format, arguments);
  va_end(arguments);
  if (n > 0) used += (size_t)n < sizeof line - used ? (size_t)n : sizeof line - used - 1;
}

/* The object that an address lies in: its base, and its name for the report. */
static const void *object_of(const void *address, const char **name) {
  Dl_info info;
  if (address && dladdr(address, &info) && info.dli_fname) {
    *name = info.dli_fname;
    return info.dli_fbase;
  }
  *name = address ? "?" : "none";
  return NULL;
}

/* Whether an address is a stub that an executable lends a function which it only imports. */
static bool is_stub(const void *address) {
  Dl_info info;
  const ElfW(Sym) *symbol = NULL;
  return dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol && symbol->st_shndx == SHN_UNDEF;
}

/* What the walks over the loaded objects look for, and find. */
typedef struct {
  const void *probe;          /* base of the probe */
  const void *answers[NAMES]; /* what its own slots hold */
  const void *server;         /* base of the object that answers malloc */
  unsigned long bound;
} walk_t;

/* The C library has relocated these addresses on most machines; where it has not, they are offsets. */
static const void *dynamic_address(const struct dl_phdr_info *object, ElfW(Addr) value) {
  return (const void *)(value < object->dlpi_addr ? value + object->dlpi_addr : value);
}

static void check_slots(const struct dl_phdr_info *object, const void *self, const ElfW(Rela) * rela, size_t bytes,
                        const ElfW(Sym) * symbols, const char *strings, walk_t *walk) {
  for (size_t i = 0; i < bytes / sizeof *rela; i++) {
    unsigned type = ELF64_R_TYPE(rela[i].r_info);
    if (type != JUMP_SLOT && type != GLOB_DAT) continue;
    const char *symbol = strings + symbols[ELF64_R_SYM(rela[i].r_info)].st_name;
    int n = 0;
    while (n < NAMES && strcmp(symbol, names[n]) != 0) n++;
    if (n == NAMES) continue;

    const void *slot = *(void **)(object->dlpi_addr + rela[i].r_offset);
    if (self == walk->probe) {
      if (type == JUMP_SLOT) walk->answers[n] = slot;
      continue;
    }
    if (n >= REQUIRED) continue;
    const char *target_name;
    const void *target = object_of(slot, &target_name);
    if (target == walk->server)
      walk->bound++;
    else if (target && target != self && !is_stub(slot)) /* a slot into its own object was never called */
      say("%s:%s:%s;", object->dlpi_name[0] ? object->dlpi_name : "program", symbol, target_name);
  }
}

static int check_object(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  walk_t *walk = data;
  const ElfW(Dyn) *dynamic = NULL;
  for (int i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  if (!dynamic) return 0;
  const char *name;
  const void *self = object_of(dynamic, &name);
  if (!self) return 0; /* the vdso */
  if (walk->server ? self == walk->server || self == walk->probe : self != walk->probe)
    return 0; /* first the probe alone; then the others, but not the allocator, which may keep what it overrides */

  const ElfW(Rela) *rela = NULL, *jump = NULL;
  const ElfW(Sym) *symbols = NULL;
  const char *strings = NULL;
  size_t rela_bytes = 0, jump_bytes = 0;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    const void *address = dynamic_address(object, dynamic->d_un.d_ptr);
    switch (dynamic->d_tag) {
      case DT_RELA: rela = address; break;
      case DT_RELASZ: rela_bytes = dynamic->d_un.d_val; break;
      case DT_JMPREL: jump = address; break;
      case DT_PLTRELSZ: jump_bytes = dynamic->d_un.d_val; break;
      case DT_SYMTAB: symbols = address; break;
      case DT_STRTAB: strings = address; break;
    }
  }
  if (!symbols || !strings) return 0;
  if (rela) check_slots(object, self, rela, rela_bytes, symbols, strings, walk);
  if (jump) check_slots(object, self, jump, jump_bytes, symbols, strings, walk);
  return 0;
}

/* Other allocators define mallinfo2 too, so it has to be the C library's. */
static void say_libc_heap(void) {
  void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!libc) return;
  struct mallinfo2 (*info)(void);
  *(void **)&info = dlsym(libc, "mallinfo2");
  if (info) {
    struct mallinfo2 heap = info();
    say("\tlibc_heap=%zu", heap.arena + heap.hblkhd);
  }
  dlclose(libc);
}

static void report(const char *when) {
  if (!output) return;
  char exe[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[length > 0 ? length : 0] = '\0';
  /* A name may have what ends a field or a line here. */
  for (char *letter = exe; *letter != '\0'; letter++)
    if (*letter == '\t' || *letter == '\n') *letter = '?';

  used = 0;
  say("%s\tpid=%d\texe=%s", when, getpid(), exe);
  walk_t walk = {0};
  const char *name;
  walk.probe = object_of(names, &name);
  dl_iterate_phdr(check_object, &walk);
  for (int n = 0; n < NAMES; n++) {
    const void *object = object_of(walk.answers[n], &name);
    if (n == 0) walk.server = object;
    say("\t%s=%s", labels[n], name);
  }
  say("\tforeign=");
  if (walk.server) dl_iterate_phdr(check_object, &walk);
  say("\tbound=%lu", walk.bound);
  say_libc_heap();
  line[used++] = '\n';

  int fd = open(output, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, line, used) < 0) { /* the missing line fails the proof */
  }
  close(fd);
}

__attribute__((constructor)) static void at_start(void) {
  const char *file = getenv("HAK_PROBE_FILE");
  if (!file || strlen(file) >= sizeof output_copy) return;
  output = strcpy(output_copy, file);
  report("start");
}

__attribute__((destructor)) static void at_exit(void) { report("end"); }
