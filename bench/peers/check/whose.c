/* SPDX-License-Identifier: MIT
 *
 * Says who serves this process, in lines of key=value:
 *
 *   from NAME=PATH       the object in which the dynamic linker finds NAME
 *   identity=...         the allocator's own name and version, if it is one that is known here
 *   owns NAME=yes|no     whether that allocator says that a block which NAME returned is its own
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A function that only one of the allocators has, or NULL. */
static void *find(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static int mimalloc_owns(const void *block) {
    int (*in_region)(const void *) = (int (*)(const void *))find("mi_is_in_heap_region");
    return (in_region(block) & 1) != 0;
}

/* The index of the arena that holds the block; an error for what jemalloc does not know. */
static int jemalloc_owns(const void *block) {
    int (*control)(const char *, void *, size_t *, void *, size_t) =
        (int (*)(const char *, void *, size_t *, void *, size_t))find("mallctl");
    unsigned arena = 0;
    size_t size = sizeof arena;
    return control("arenas.lookup", &arena, &size, &block, sizeof block) == 0;
}

static int tcmalloc_owns(const void *block) {
    int (*ownership)(const void *) =
        (int (*)(const void *))find("MallocExtension_Internal_GetOwnership");
    return ownership(block) == 1;
}

/* snmalloc tells where the object ends that an address is in: for what it does not know, the end of
 * the address space. */
static int snmalloc_owns(const void *block) {
    void *(*end)(void *) = (void *(*)(void *))find("__malloc_end_pointer");
    return (uintptr_t)end((void *)block) - (uintptr_t)block < (size_t)1 << 30;
}

/* rpmalloc cannot tell its blocks from others. Its name for a block's size must at least agree with
 * malloc_usable_size. */
static int rpmalloc_owns(const void *block) {
    size_t (*usable)(void *) = (size_t(*)(void *))find("rpmalloc_usable_size");
    size_t size = usable((void *)block);
    return size >= 1 && size == malloc_usable_size((void *)block);
}

static int (*owns)(const void *block);

static void identify(void) {
    if (find("mi_version")) {
        int (*version)(void) = (int (*)(void))find("mi_version");
        owns = mimalloc_owns;
        printf("identity=mimalloc %d.%d.%d\n", version() / 10000, version() / 100 % 100,
               version() % 100);
    } else if (find("mallctl")) {
        int (*control)(const char *, void *, size_t *, void *, size_t) =
            (int (*)(const char *, void *, size_t *, void *, size_t))find("mallctl");
        const char *version = "";
        size_t size = sizeof version;
        control("version", &version, &size, NULL, 0);
        owns = jemalloc_owns;
        printf("identity=jemalloc %s\n", version);
    } else if (find("MallocExtension_Internal_GetPerCpuCachesActive")) {
        _Bool (*per_cpu)(void) =
            (_Bool(*)(void))find("MallocExtension_Internal_GetPerCpuCachesActive");
        free(malloc(1)); /* the caches are set up by the first use */
        owns = tcmalloc_owns;
        printf("identity=tcmalloc per-%s caches\n", per_cpu() ? "CPU" : "thread");
    } else if (find("__malloc_end_pointer")) {
        owns = snmalloc_owns;
        printf("identity=snmalloc\n");
    } else if (find("rpmalloc_usable_size")) {
        owns = rpmalloc_owns;
        printf("identity=rpmalloc\n");
    } else {
        printf("identity=unknown\n");
    }
}

static void from(const char *name) {
    Dl_info info;
    void *function = find(name);
    if (function && dladdr(function, &info))
        printf("from %s=%s\n", name, info.dli_fname);
    else
        printf("from %s=nowhere\n", name);
}

static void report(const char *name, void *block) {
    printf("owns %s=%s\n", name, owns && block && owns(block) ? "yes" : "no");
    free(block);
}

int main(void) {
    static const char *const names[] = {"malloc", "calloc", "realloc", "free", "memalign",
        "posix_memalign", "aligned_alloc", "malloc_usable_size", "valloc", "pvalloc"};
    void *block = NULL;

    /* stdout without a buffer of its own: nothing but the calls below allocates */
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        from(names[i]);
    identify();

    if (owns && owns != rpmalloc_owns)
        printf("owns a local variable=%s\n", owns(&block) ? "yes" : "no");
    report("malloc", malloc(100));
    report("malloc of a large block", malloc(8u << 20));
    report("calloc", calloc(10, 100));
    report("realloc", realloc(malloc(100), 5000));
    report("reallocarray", reallocarray(malloc(100), 100, 100));
    report("memalign", memalign(256, 100));
    if (posix_memalign(&block, 4096, 100) != 0)
        block = NULL;
    report("posix_memalign", block);
    report("aligned_alloc", aligned_alloc(64, 128));
    report("valloc", valloc(100));
    report("pvalloc", pvalloc(100));
    /* what the C library allocates for the caller */
    report("strdup", strdup("a string that is long enough"));
    report("getcwd", getcwd(NULL, 0));
    return 0;
}
