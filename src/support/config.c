/* See config.h. SPDX-License-Identifier: MIT */
#include "config.h"

#include "../os/os.h"
#include "limit.h"

#include <string.h>

static config_t settings = {.abort_on_error = true, .over_time = OVER_TIME_ON};

const config_t *config(void) { return &settings; }

/* ---- One parser a type: false when the text is no such value ---------------*/
static bool parse_switch(const char *text, void *out) {
  if ((text[0] != '0' && text[0] != '1') || text[1] != '\0') return false;
  *(bool *)out = text[0] == '1';
  return true;
}
/* One of some words: its number. */
static bool parse_word(const char *text, const char *const words[], unsigned count, unsigned *number) {
  for (*number = 0; *number < count; ++*number)
    if (strcmp(text, words[*number]) == 0) return true;
  return false;
}
static bool parse_over_time(const char *text, void *out) {
  static const char *const words[] = {[OVER_TIME_OFF] = "off", [OVER_TIME_INLINE] = "inline", [OVER_TIME_ON] = "on"};
  unsigned number;
  if (!parse_word(text, words, sizeof words / sizeof *words, &number)) return false;
  *(over_time_t *)out = (over_time_t)number;
  return true;
}
static bool parse_report(const char *text, void *out) {
  static const char *const words[] = {[REPORT_NONE] = "0", [REPORT_SHORT] = "1", [REPORT_CLASSES] = "classes"};
  unsigned number;
  if (!parse_word(text, words, sizeof words / sizeof *words, &number)) return false;
  *(report_t *)out = (report_t)number;
  return true;
}
static bool parse_profile(const char *text, void *out) {
  unsigned number;
  if (!parse_word(text, profile_names, PROFILE_COUNT, &number)) return false;
  *(profile_t *)out = (profile_t)number;
  return true;
}
/* Gibibytes or tebibytes, "64G" or "1T", from 1G to 16T: rounded down to a power
 * of two, as windows are. */
static bool parse_reserve(const char *text, void *out) {
  size_t number = 0;
  if (*text < '1' || *text > '9') return false;
  for (; *text >= '0' && *text <= '9' && number <= 16 * 1024; text++) number = number * 10 + (size_t)(*text - '0');
  if (*text == 'T') number *= 1024;
  if ((*text != 'G' && *text != 'T') || text[1] != '\0' || number > 16 * 1024) return false;
  *(size_t *)out = HAK_GIB((size_t)1 << log2_floor(number));
  return true;
}
/* Bytes, or "K", "M", "G" or "T" of them; 0 is none. */
static bool parse_between(const char *text, size_t least, size_t most, void *out) {
  static const char suffixes[] = "KMGT";
  size_t number = 0;
  if (*text < '0' || *text > '9') return false;
  for (; *text >= '0' && *text <= '9' && number <= most; text++) number = number * 10 + (size_t)(*text - '0');
  const char *suffix = *text != '\0' ? strchr(suffixes, *text) : NULL;
  if (suffix != NULL) text++;
  for (const char *s = suffixes; suffix != NULL && s <= suffix && number <= most; s++) number *= 1024;
  if (*text != '\0' || (number != 0 && number < least) || number > most) return false;
  *(size_t *)out = number;
  return true;
}
/* As much as the allocator needs itself at the least. */
static bool parse_bytes(const char *text, void *out) {
  return parse_between(text, HAK_MIB(1), HAK_GIB(1024 * 1024), out);
}
/* Bytes and, behind a colon, the only process whose children are meant. */
static bool parse_sample(const char *text, void *out) {
  char bytes[32];
  size_t length = strcspn(text, ":"), parent = 0;
  if (length >= sizeof bytes) return false;
  memcpy(bytes, text, length);
  bytes[length] = '\0';
  if (text[length] == ':' && !(parse_between(text + length + 1, 1, INT32_MAX, &parent) && parent != 0)) return false;
  if (!parse_between(bytes, 1, HAK_GIB(1), out)) return false;
  settings.sample_parent = (uint32_t)parent;
  return true;
}
/* A copy: some programs write their title over the environment. */
static bool parse_path(const char *text, void *out) {
  static HAK_RARELY_USED char path[4096];
  if (text[0] == '\0' || strlen(text) >= sizeof path) return false;
  strcpy(path, text);
  *(const char **)out = path;
  return true;
}

static const struct variable {
  const char *name;
  bool (*parse)(const char *text, void *out);
  void *out;
  const char *expected;
} variables[] = {
    {"HAKMEM_ABORT_ON_ERROR", parse_switch, &settings.abort_on_error, "0 or 1"},
    {"HAKMEM_HARD_LIMIT", parse_bytes, &settings.hard_limit, "0, or 1M to 1024T"},
    {"HAKMEM_INT", parse_over_time, &settings.over_time, "on, inline or off"},
    {"HAKMEM_PROFILE", parse_profile, &settings.profile, "speed, balanced or memory"},
    {"HAKMEM_RESERVE", parse_reserve, &settings.reserve_bytes, "1G to 16T"},
    {"HAKMEM_SAMPLE", parse_sample, &settings.sample_bytes, "0, or 1 to 1G, and perhaps a colon and a process"},
    {"HAKMEM_SOFT_LIMIT", parse_bytes, &settings.soft_limit, "0, or 1M to 1024T"},
    {"HAKMEM_STATS", parse_report, &settings.report, "0, 1 or classes"},
    {"HAKMEM_STATS_FILE", parse_path, &settings.stats_file, "a path of at most 4095 bytes"},
};

static void read_one(const char *name, size_t name_length, const char *text) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const struct variable *v = &variables[i];
    if (strncmp(v->name, name, name_length) != 0 || v->name[name_length] != '\0') continue;
    if (!v->parse(text, v->out)) os_warn("%s='%s' is ignored: expected %s", v->name, text, v->expected);
    return;
  }
  os_warn("unknown environment variable %.*s is ignored", (int)name_length, name);
}

void config_read(char *const environment[]) {
  static bool done;
  if (environment == NULL || done) return;
  done = true;
  if (os_is_privileged()) return;
  for (; *environment != NULL; environment++) {
    const char *entry = *environment, *equals = strchr(entry, '=');
    if (equals != NULL && strncmp(entry, "HAKMEM_", 7) == 0) read_one(entry, (size_t)(equals - entry), equals + 1);
  }
  profile_choose(settings.profile);
  if (settings.hard_limit != 0) limit_set_hard(settings.hard_limit);
  if (settings.soft_limit != 0) limit_set_soft(settings.soft_limit);
}
