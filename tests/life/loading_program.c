/*
 * Loads libraries with dlopen and passes blocks between them and itself.
 *   loading_program PLUGIN late      loads, uses and unloads it again and again, with threads about
 *   loading_program PLUGIN foreign   loads it with a malloc of its own, and exchanges blocks
 *   loading_program PLUGIN own OTHER as foreign; the library's allocator must accept the program's blocks,
 *                                    and the library opens another
 *   loading_program PLUGIN waits     loads it, and that is all
 *   loading_program PLUGIN deepbind  asks for a malloc of its own, which the library must not get
 * Prints "ok" and ends with status 0 when all was well.
 *
 * SPDX-License-Identifier: MIT
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t sizes[] = {1, 24, 100, 1000, 5000, 40000, 70000, 300000, 2000000, 6000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

#define CHECK(condition)                                           \
  do {                                                             \
    if (condition) break;                                          \
    printf("line %d: '%s' does not hold\n", __LINE__, #condition); \
    fflush(stdout);                                                \
    _Exit(1);                                                      \
  } while (0)

static void *(*plugin_malloc)(size_t);
static void (*plugin_free)(void *);
static void *(*plugin_realloc)(void *, size_t);
static size_t (*plugin_usable_size)(void *);
static int (*plugin_work)(void);

/* The library's has the same name. */
int which(void);
int which(void) { return 1; }
static int (*plugin_which)(void);
static void *(*plugin_open)(const char *, int);

static void *found(void *library) {
  if (library == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
  *(void **)&plugin_malloc = dlsym(library, "plugin_malloc");
  *(void **)&plugin_free = dlsym(library, "plugin_free");
  *(void **)&plugin_realloc = dlsym(library, "plugin_realloc");
  *(void **)&plugin_usable_size = dlsym(library, "plugin_usable_size");
  *(void **)&plugin_work = dlsym(library, "plugin_work");
  *(void **)&plugin_which = dlsym(library, "plugin_which");
  *(void **)&plugin_open = dlsym(library, "plugin_open");
  CHECK(plugin_malloc && plugin_free && plugin_realloc && plugin_usable_size && plugin_work);
  CHECK(plugin_which && plugin_open);
  return library;
}
static void *load(const char *path, int flags) { return found(dlopen(path, RTLD_NOW | flags)); }

static const char *file_of(const char *symbol, void *library) {
  Dl_info info;
  void *address = dlsym(library, symbol);
  return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "nothing";
}

static unsigned char *filled(void *block, size_t bytes) {
  CHECK(block != NULL);
  return memset(block, (int)bytes & 0x7f, bytes);
}
static int intact(const unsigned char *block, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (block[i] != (bytes & 0x7f)) return 0;
  return 1;
}

/* ---- late: a thread has used the library, the library goes, the thread ends -----------*/
static sem_t used, unloaded;
static void *visitor(void *argument) {
  CHECK(plugin_work() == 0);
  plugin_free(plugin_malloc(1000));
  sem_post(&used);
  sem_wait(&unloaded);
  free(malloc(100));
  return argument;
}
static void late(const char *path) {
  sem_init(&used, 0, 0);
  sem_init(&unloaded, 0, 0);
  for (int i = 0; i < 10; i++) {
    void *library = load(path, i % 2 == 0 ? RTLD_LOCAL : RTLD_GLOBAL);
    /* The program came with the C library's malloc, and so it stays. */
    CHECK(strstr(file_of("malloc", RTLD_DEFAULT), "libc.so") != NULL);
    CHECK(plugin_work() == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, visitor, NULL);
    sem_wait(&used);
    void *block = plugin_malloc(5000);
    dlclose(library);
    sem_post(&unloaded);
    pthread_join(thread, NULL);
    free(block);
  }
}

/* ---- foreign: blocks of two allocators, released by this program's ---------------------*/
static void *free_in_thread(void *block) {
  free(block);
  return NULL;
}
/* Bytes of memory that this process holds. */
static size_t resident(void) {
  size_t total = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%zu %zu", &total, &pages) == 2);
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}
static void foreign(const char *path) {
  CHECK(strstr(file_of("malloc", RTLD_DEFAULT), "libhakmem") != NULL);
  /* Unlike dlopen it is the C library's under hakmem, too. */
  void *library = found(dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_DEEPBIND | RTLD_LOCAL));
  CHECK(strstr(file_of("malloc", library), "libc.so") != NULL ||
        strstr(file_of("malloc", library), "libhakmem") != NULL);
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < SIZES; i++) {
      /* Theirs, measured and freed here. */
      unsigned char *block = filled(plugin_malloc(sizes[i]), sizes[i]);
      CHECK(malloc_usable_size(block) == plugin_usable_size(block));
      CHECK(malloc_usable_size(block) >= sizes[i]);
      CHECK(intact(block, sizes[i]));
      free(block);
      /* Theirs, grown and shrunk here. */
      for (int j = 0; j < SIZES; j++) {
        block = filled(plugin_malloc(sizes[i]), sizes[i]);
        size_t kept = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
        unsigned char expected = sizes[i] & 0x7f;
        block = realloc(block, sizes[j]);
        CHECK(block != NULL && malloc_usable_size(block) >= sizes[j]);
        for (size_t at = 0; at < kept; at++) CHECK(block[at] == expected);
        memset(block, 1, sizes[j]);
        free(block);
      }
      /* Theirs, freed by realloc to nothing, and by a thread that never allocated. */
      CHECK(realloc(filled(plugin_malloc(sizes[i]), sizes[i]), 0) == NULL);
      pthread_t thread;
      pthread_create(&thread, NULL, free_in_thread, plugin_malloc(sizes[i]));
      pthread_join(thread, NULL);
    }
    /* What was freed is really free: a GiB goes through a few MiB. */
    size_t before = resident();
    for (int i = 0; i < 100; i++) {
      free(filled(plugin_malloc(1000000), 1000000));
      for (int j = 0; j < 100; j++) free(filled(plugin_malloc(10000), 10000));
    }
    CHECK(resident() < before + 20000000);
    /* Ours meanwhile. */
    unsigned char *ours[SIZES];
    for (int i = 0; i < SIZES; i++) ours[i] = filled(malloc(sizes[i]), sizes[i]);
    CHECK(plugin_work() == 0);
    for (int i = 0; i < SIZES; i++) {
      CHECK(intact(ours[i], sizes[i]));
      free(ours[i]);
    }
  }
}

/* ---- The library's allocator releases what this program's has allocated -----------------*/
static void exchange(void) {
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < SIZES; i++) {
      unsigned char *block = filled(malloc(sizes[i]), sizes[i]);
      CHECK(plugin_usable_size(block) == malloc_usable_size(block));
      CHECK(intact(block, sizes[i]));
      plugin_free(block);
      for (int j = 0; j < SIZES; j++) {
        block = filled(malloc(sizes[i]), sizes[i]);
        size_t kept = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
        unsigned char expected = sizes[i] & 0x7f;
        block = plugin_realloc(block, sizes[j]);
        CHECK(block != NULL && plugin_usable_size(block) >= sizes[j]);
        for (size_t at = 0; at < kept; at++) CHECK(block[at] == expected);
        memset(block, 1, sizes[j]);
        plugin_free(block);
      }
    }
    unsigned char *theirs[SIZES];
    for (int i = 0; i < SIZES; i++) theirs[i] = filled(plugin_malloc(sizes[i]), sizes[i]);
    CHECK(plugin_work() == 0);
    for (int i = 0; i < SIZES; i++) {
      CHECK(intact(theirs[i], sizes[i]));
      plugin_free(theirs[i]);
    }
  }
}

/* ---- own: the library has hakmem, this program has not ----------------------------------*/
static void own(const char *path, const char *other) {
  CHECK(strstr(file_of("malloc", RTLD_DEFAULT), "libc.so") != NULL);
  void *library = load(path, RTLD_DEEPBIND | RTLD_LOCAL);
  CHECK(strstr(file_of("malloc", library), "libhakmem") != NULL);
  exchange();
  /* Its dlopen is hakmem's, too, and leaves everything as it was asked for. */
  CHECK(strstr(file_of("dlopen", library), "libhakmem") != NULL);
  found(plugin_open(other, RTLD_NOW | RTLD_DEEPBIND));
  CHECK(plugin_which() == 2);
  exchange();
}

/* ---- deepbind: this program has hakmem, and so has the library --------------------------*/
static void deepbind(const char *path) {
  CHECK(strstr(file_of("malloc", RTLD_DEFAULT), "libhakmem") != NULL);
  load(path, RTLD_DEEPBIND | RTLD_LOCAL);
  exchange();
  CHECK(plugin_which() == 1);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3);
  if (strcmp(argv[2], "late") == 0) late(argv[1]);
  else if (strcmp(argv[2], "foreign") == 0) foreign(argv[1]);
  else if (strcmp(argv[2], "own") == 0 && argc == 4) own(argv[1], argv[3]);
  else if (strcmp(argv[2], "waits") == 0) CHECK(dlopen(argv[1], RTLD_NOW) != NULL);
  else if (strcmp(argv[2], "deepbind") == 0) deepbind(argv[1]);
  else return 2;
  puts("ok");
  return 0;
}
