/* See common.h. SPDX-License-Identifier: MIT */
#include "common.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bench_args_t bench_args = {.seed = 1};

static struct {
  const char *workload;
  const bench_option_t *options;
  const char *malloc_from; /* path of the object that answers malloc */
  const char *memory;      /* key of the memory figure, or NULL */
  char line[4096];
  size_t line_bytes;
} state = {.workload = "bench"};

/* ---- Messages ------------------------------------------------------------*/

static _Noreturn void stop(int status, const char *format, va_list arguments) {
  char text[1024];
  int bytes = snprintf(text, sizeof text, "%s: ", state.workload);
  vsnprintf(text + bytes, sizeof text - (size_t)bytes, format, arguments);
  dprintf(STDERR_FILENO, "%s\n", text);
  _exit(status); /* other threads may hold any lock: no atexit handlers */
}

void bench_die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  stop(1, format, arguments);
}

void bench_usage(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  stop(2, format, arguments);
}

void bench_out_of_memory(size_t bytes) { bench_die("malloc of %zu bytes failed: %s", bytes, strerror(errno)); }

/* ---- Arguments -----------------------------------------------------------*/

static uint64_t parse_number(const char *name, const char *text, bool bytes) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  unsigned shift = 0;
  if (bytes && end != text) {
    const char *unit = *end ? strchr("KMG", *end) : NULL;
    if (unit) {
      static const unsigned shifts[] = {['K'] = 10, ['M'] = 20, ['G'] = 30};
      shift = shifts[(unsigned char)*end++];
    }
  }
  if (end == text || *end || errno || text[0] == '-' || value > UINT64_MAX >> shift)
    bench_usage("--%s wants %s, not '%s'", name, bytes ? "bytes such as 64, 8K or 2M" : "a whole number", text);
  return (uint64_t)value << shift;
}

static double parse_seconds(const char *text) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0.001 && value <= 3600))
    bench_usage("--seconds wants a number from 0.001 to 3600, not '%s'", text);
  return value;
}

static void parse_option(const bench_option_t *option, const char *text) {
  if (option->kind == BENCH_CHOICE) {
    for (uint64_t i = 0; option->choices[i]; i++)
      if (strcmp(option->choices[i], text) == 0) {
        *option->value = i;
        return;
      }
    char known[256] = "";
    for (uint64_t i = 0; option->choices[i]; i++) {
      size_t used = strlen(known);
      snprintf(known + used, sizeof known - used, " %s", option->choices[i]);
    }
    bench_usage("--%s wants one of:%s; not '%s'", option->name, known, text);
  }
  uint64_t value = parse_number(option->name, text, option->kind == BENCH_BYTES);
  if (value < option->min || value > option->max)
    bench_usage("--%s must be from %llu to %llu, not %s", option->name, (unsigned long long)option->min,
                (unsigned long long)option->max, text);
  *option->value = value;
}

static _Noreturn void print_help(void) {
  printf("usage: %s [options]\n", state.workload);
  for (const bench_option_t *option = state.options; option->name; option++) {
    printf("  --%-10s %s", option->name, option->help);
    if (option->kind == BENCH_CHOICE) {
      printf(":");
      for (uint64_t i = 0; option->choices[i]; i++) printf(" %s", option->choices[i]);
      printf(" (default %s)\n", option->choices[*option->value]);
    } else {
      printf(" (default %llu)\n", (unsigned long long)*option->value);
    }
  }
  if (bench_args.seconds > 0)
    printf(
        "  --seconds    length of the timed section (default %g)\n"
        "  --ops        operations per worker instead of a length\n",
        bench_args.seconds);
  printf(
      "  --seed       of the random numbers (default %llu)\n"
      "  --verify     fill every block and check it before it is freed\n",
      (unsigned long long)bench_args.seed);
  exit(0);
}

static void parse_arguments(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0) bench_usage("unexpected argument '%s'; see --help", argv[i]);
    const char *name = argv[i] + 2;
    if (strcmp(name, "help") == 0) print_help();
    if (strcmp(name, "verify") == 0) {
      bench_args.verify = true;
      continue;
    }
    if (i + 1 == argc) bench_usage("unknown option or missing value: --%s; see --help", name);
    const char *text = argv[++i];
    if (strcmp(name, "seed") == 0) {
      bench_args.seed = parse_number(name, text, false);
    } else if (bench_args.seconds > 0 && strcmp(name, "ops") == 0) {
      bench_args.ops = parse_number(name, text, false);
    } else if (bench_args.seconds > 0 && strcmp(name, "seconds") == 0) {
      bench_args.seconds = parse_seconds(text);
    } else {
      const bench_option_t *option = state.options;
      while (option->name && strcmp(option->name, name) != 0) option++;
      if (!option->name) bench_usage("unknown option --%s; see --help", name);
      parse_option(option, text);
    }
  }
}

/* The object whose definition the dynamic linker binds `symbol` to; a preload
 * that failed silently shows here. */
static const char *provider(const char *symbol) {
  void *address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

static void demand_same_provider(const char *one, const char *other) {
  const char *from = provider(one), *other_from = provider(other);
  if (strcmp(from, other_from) != 0)
    bench_die("%s comes from %s but %s from %s: nothing to measure here", one, from, other, other_from);
}

static void find_allocator(void) {
  state.malloc_from = provider("malloc");
  demand_same_provider("malloc", "free");
  demand_same_provider("malloc", "calloc");
  demand_same_provider("malloc", "realloc");
  /* operator new and delete: an allocator's own, or libstdc++'s over malloc. */
  demand_same_provider("_Znwm", "_ZdlPv");
  demand_same_provider("_Znam", "_ZdaPv");
}

void bench_start(int argc, char **argv, const char *workload, double default_seconds, const bench_option_t *options) {
  state.workload = workload;
  state.options = options;
  bench_args.seconds = default_seconds;
  parse_arguments(argc, argv);
  find_allocator();
}

/* ---- Clock and random numbers --------------------------------------------*/

uint64_t bench_clock(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) bench_die("cannot read a clock: %s", strerror(errno));
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void bench_sleep(double seconds) {
  struct timespec left = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

uint64_t bench_log_between(bench_rng_t *rng, uint64_t min, uint64_t max) {
  double unit = (double)(bench_random(rng) >> 11) * 0x1p-53;
  double size = (double)min * exp(unit * log((double)max / (double)min));
  return size >= (double)max ? max : (uint64_t)size;
}

/* ---- Blocks --------------------------------------------------------------*/

void bench_touch_pages(void *p, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < bytes; i += page) ((volatile unsigned char *)p)[i] = 1;
  ((volatile unsigned char *)p)[bytes - 1] = 2;
}

/* The payload is a sequence of words that depends on tag and position, so that
 * a shifted or swapped copy of it does not pass. */
static inline uint64_t payload_word(uint64_t tag, size_t index) { return (tag + index) * 0x9e3779b97f4a7c15u; }

void bench_fill(void *p, size_t bytes, uint64_t tag) {
  unsigned char *block = p;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = payload_word(tag, i);
    memcpy(block + i, &word, 8);
  }
  uint64_t word = payload_word(tag, i);
  memcpy(block + i, &word, bytes - i);
}

void bench_check(const void *p, size_t bytes, uint64_t tag) {
  const unsigned char *block = p;
  size_t i = 0;
  bool good = true;
  for (; i + 8 <= bytes && good; i += 8) {
    uint64_t word = payload_word(tag, i);
    good = memcmp(block + i, &word, 8) == 0;
  }
  uint64_t word = payload_word(tag, i);
  if (good) good = memcmp(block + i, &word, bytes - i) == 0;
  if (!good)
    bench_die("payload damaged: block %p of %zu bytes, within the 16 bytes before offset %zu", p, bytes, i + 8);
}

typedef struct seal {
  uint64_t tag;
  uint32_t bytes;
  uint32_t check; /* of tag and bytes; 0 once broken */
} seal_t;
_Static_assert(sizeof(seal_t) == BENCH_SEAL_MIN, "the seal is the smallest block");

static uint32_t seal_checksum(uint64_t tag, uint32_t bytes) { return (uint32_t)bench_mix(tag ^ bytes) | 1; }

void bench_seal(void *p, size_t bytes, uint64_t tag) {
  seal_t *seal = p;
  if (bytes < sizeof *seal || bytes > UINT32_MAX) bench_usage("--verify wants blocks from 16 bytes to 4 GiB");
  if ((uintptr_t)p % 16 != 0) bench_die("block %p of %zu bytes is not aligned to 16", p, bytes);
  *seal = (seal_t){tag, (uint32_t)bytes, seal_checksum(tag, (uint32_t)bytes)};
  bench_fill(seal + 1, bytes - sizeof *seal, tag);
}

void bench_break_seal(void *p) {
  seal_t *seal = p;
  if (seal->check != seal_checksum(seal->tag, seal->bytes))
    bench_die("payload damaged: the head of block %p (%s)", p, seal->check ? "overwritten" : "freed before or cleared");
  bench_check(seal + 1, seal->bytes - sizeof *seal, seal->tag);
  seal->check = 0;
  bench_keep(p);
}

void *bench_pages(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) bench_die("no memory for the harness (%zu bytes): %s", bytes, strerror(errno));
  (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* fails where there are no huge pages anyway */
  return p;
}

void bench_pages_drop(void *p, size_t bytes) { munmap(p, bytes); }

/* ---- Workers -------------------------------------------------------------*/

typedef struct run {
  const bench_plan_t *plan;
  pthread_barrier_t line_up;
} run_t;

typedef struct seat {
  bench_worker_t worker;
  run_t *run;
  uint64_t ops;
  double start, end;
  uintptr_t thread;
} seat_t;

double bench_warmup_seconds(void) {
  double tenth = bench_args.seconds / 10, least = fmin(0.01, bench_args.seconds);
  return fmin(fmax(tenth, least), 0.1);
}

uint64_t bench_warmup_ops(void) { return bench_args.ops ? bench_args.ops / 10 + 1 : 0; }

static void *seat_main(void *argument) {
  seat_t *seat = argument;
  bench_worker_t *worker = &seat->worker;
  const bench_plan_t *plan = seat->run->plan;

  if (plan->setup) plan->setup(worker);
  worker->ops_limit = bench_warmup_ops();
  worker->deadline = bench_now() + fmax(bench_warmup_seconds(), plan->warmup_seconds_min);
  plan->work(worker);

  pthread_barrier_wait(&seat->run->line_up);
  worker->ops_limit = bench_args.ops;
  seat->start = bench_now();
  worker->deadline = seat->start + bench_args.seconds;
  seat->ops = plan->work(worker);
  seat->end = bench_now();

  /* Nobody tears down while others are still timed. */
  pthread_barrier_wait(&seat->run->line_up);
  if (plan->teardown) plan->teardown(worker);
  return NULL;
}

bench_outcome_t bench_run(const bench_plan_t *plan, unsigned threads) {
  run_t run = {.plan = plan};
  pthread_barrier_init(&run.line_up, NULL, threads);
  seat_t *seats = bench_pages(threads * sizeof *seats);
  for (unsigned i = 0; i < threads; i++) {
    seats[i].worker.index = i;
    seats[i].worker.rng = bench_rng(i);
    seats[i].run = &run;
  }
  if (threads == 1) {
    seat_main(&seats[0]);
  } else {
    for (unsigned i = 0; i < threads; i++) seats[i].thread = bench_thread_start(seat_main, &seats[i]);
    for (unsigned i = 0; i < threads; i++) bench_thread_join(seats[i].thread);
  }

  bench_outcome_t outcome = {0, 0};
  double start = seats[0].start, end = seats[0].end;
  for (unsigned i = 0; i < threads; i++) {
    outcome.ops += seats[i].ops;
    if (seats[i].start < start) start = seats[i].start;
    if (seats[i].end > end) end = seats[i].end;
  }
  outcome.seconds = end - start;
  bench_pages_drop(seats, threads * sizeof *seats);
  pthread_barrier_destroy(&run.line_up);
  return outcome;
}

uintptr_t bench_thread_start(void *(*body)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * BENCH_KIB);
  int error = pthread_create(&thread, &attributes, body, argument);
  if (error) bench_die("cannot start a thread: %s", strerror(error));
  pthread_attr_destroy(&attributes);
  return (uintptr_t)thread;
}

void bench_thread_join(uintptr_t thread) {
  int error = pthread_join((pthread_t)thread, NULL);
  if (error) bench_die("cannot join a thread: %s", strerror(error));
}

static struct {
  pthread_mutex_t lock;
  pthread_cond_t arrived, leave; /* main waits for the one, all others for the other */
  uint64_t waiting;
  bool over;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER, .leave = PTHREAD_COND_INITIALIZER};

void bench_crowd_join(void) {
  pthread_mutex_lock(&crowd.lock);
  crowd.waiting++;
  pthread_cond_signal(&crowd.arrived);
  while (!crowd.over) pthread_cond_wait(&crowd.leave, &crowd.lock);
  pthread_mutex_unlock(&crowd.lock);
}

void bench_crowd_await(uint64_t waiting) {
  pthread_mutex_lock(&crowd.lock);
  while (crowd.waiting < waiting) pthread_cond_wait(&crowd.arrived, &crowd.lock);
  pthread_mutex_unlock(&crowd.lock);
}

void bench_crowd_dismiss(void) {
  pthread_mutex_lock(&crowd.lock);
  crowd.over = true;
  pthread_cond_broadcast(&crowd.leave);
  pthread_mutex_unlock(&crowd.lock);
}

/* ---- Result --------------------------------------------------------------*/

/* From smaps_rollup, which walks the page tables: the counters behind statm are
 * kept per CPU and may lag by some hundred KiB. */
double bench_resident_mib(size_t harness_bytes) {
  char text[2048];
  int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (file < 0) bench_die("cannot read /proc/self/smaps_rollup: %s", strerror(errno));
  ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes < 0) bench_die("cannot read /proc/self/smaps_rollup: %s", strerror(errno));
  text[bytes] = 0;
  const char *rss = strstr(text, "Rss:");
  if (!rss) bench_die("no Rss in /proc/self/smaps_rollup");
  return (double)strtoull(rss + 4, NULL, 10) / 1024 - (double)harness_bytes / (double)BENCH_MIB;
}

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t left = sizeof state.line - state.line_bytes;
  int bytes = vsnprintf(state.line + state.line_bytes, left, format, arguments);
  va_end(arguments);
  if (bytes < 0 || (size_t)bytes >= left) bench_die("result line too long");
  state.line_bytes += (size_t)bytes;
}

static void begin_line(void) {
  if (state.line_bytes) return;
  put("workload=%s", state.workload);
  for (const bench_option_t *option = state.options; option->name; option++) {
    if (option->kind == BENCH_CHOICE) put(" %s=%s", option->name, option->choices[*option->value]);
    else put(" %s=%llu", option->name, (unsigned long long)*option->value);
  }
  put(" seed=%llu", (unsigned long long)bench_args.seed);
}

void bench_put_number(const char *key, uint64_t value) {
  begin_line();
  put(" %s=%llu", key, (unsigned long long)value);
}

void bench_put_real(const char *key, double value) {
  begin_line();
  put(" %s=%.6g", key, value);
}

void bench_put_text(const char *key, const char *value) {
  begin_line();
  put(" %s=%s", key, value);
}

void bench_put_outcome(bench_outcome_t outcome) {
  bench_put_number("ops", outcome.ops);
  bench_put_real("seconds", outcome.seconds);
  bench_put_number("ops_per_s", (uint64_t)((double)outcome.ops / outcome.seconds));
}

void bench_put_memory(const char *key, double mib) {
  bench_put_real(key, mib);
  state.memory = key;
}

void bench_finish(const char *metric) {
  begin_line();
  put(" metric=%s", metric);
  if (state.memory) put(" memory=%s", state.memory);
  put(" malloc_from=%s check=%s\n", state.malloc_from, bench_args.verify ? "ok" : "off");
  for (size_t done = 0; done < state.line_bytes;) {
    ssize_t bytes = write(STDOUT_FILENO, state.line + done, state.line_bytes - done);
    if (bytes < 0) bench_die("cannot write the result: %s", strerror(errno));
    done += (size_t)bytes;
  }
}
