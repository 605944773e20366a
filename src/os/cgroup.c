/* See cgroup.h. SPDX-License-Identifier: MIT */
#include "cgroup.h"

#include "os.h"

#include <string.h>

/* Not on the stack: a program's own may be small, and one thread reads at a time. */
enum { PATH_BYTES = 4096, LINE_BYTES = 4096, CHUNK_BYTES = 4096 };
static HAK_RARELY_USED char chunk[CHUNK_BYTES], line[LINE_BYTES], file_path[2 * PATH_BYTES];
static HAK_RARELY_USED char group_path[PATH_BYTES]; /* of the process, below the hierarchy's root      */
static HAK_RARELY_USED char mount_root[PATH_BYTES],
    mount[PATH_BYTES]; /* which part of the hierarchy is seen, and where  */

/* ---- Files, line by line ---------------------------------------------------------*/
typedef struct {
  int fd;
  size_t at, end;
} reader_t;

static bool open_file(reader_t *reader, const char *root, const char *directory, const char *name) {
  size_t lengths[] = {strlen(root), strlen(directory), strlen(name)};
  if (lengths[0] + lengths[1] + lengths[2] >= sizeof file_path) return false;
  memcpy(file_path, root, lengths[0]);
  memcpy(file_path + lengths[0], directory, lengths[1]);
  memcpy(file_path + lengths[0] + lengths[1], name, lengths[2] + 1);
  *reader = (reader_t){.fd = os_open_for_reading(file_path)};
  return reader->fd >= 0;
}

/* What has been read and not looked at yet; some more, if that is all. 0 at the end. */
static size_t available(reader_t *reader) {
  if (reader->at == reader->end) {
    reader->at = 0;
    reader->end = os_read(reader->fd, chunk, sizeof chunk);
  }
  return reader->end - reader->at;
}

/* The next line without its end. One that is too long, or has a zero in it, is skipped. */
static bool next_line(reader_t *reader) {
  size_t length = 0, bytes;
  for (bool is_good = true; (bytes = available(reader)) > 0;) {
    char *from = chunk + reader->at, *newline = memchr(from, '\n', bytes);
    if (newline != NULL) bytes = (size_t)(newline - from);
    is_good = is_good && length + bytes < sizeof line && memchr(from, '\0', bytes) == NULL;
    if (is_good) memcpy(line + length, from, bytes);
    length = is_good ? length + bytes : 0;
    reader->at += bytes + (newline != NULL);
    line[length] = '\0';
    if (newline != NULL && is_good) return true;
    if (newline != NULL) length = 0, is_good = true;
  }
  return length > 0; /* the last one has no end */
}

/* The number that a text begins with; false if it does not, or if it is too large. */
static bool parse_number(const char *text, uint64_t *number) {
  uint64_t n = 0;
  if (*text < '0' || *text > '9') return false;
  for (; *text >= '0' && *text <= '9'; text++)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n)) return false;
  *number = n;
  return *text == '\0';
}

/* A file of one number. false: there is no such file, or something else in it ("max"). */
static bool read_number(const char *root, const char *directory, const char *name, uint64_t *number) {
  reader_t reader;
  if (!open_file(&reader, root, directory, name)) return false;
  bool found = next_line(&reader) && parse_number(line, number);
  os_close(reader.fd);
  return found;
}

/* ---- Which group, and where it is seen ---------------------------------------------*/

typedef struct {
  const char *file_system, *limits[2]; /* the names of its files */
} version_t;
static const version_t version_1 = {"cgroup", {"/memory.limit_in_bytes", NULL}};
static const version_t version_2 = {"cgroup2", {"/memory.max", "/memory.high"}};

/* Whether a list of words between commas has this one. */
static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  while (list != NULL) {
    if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0')) return true;
    list = strchr(list, ',');
    if (list != NULL) list++;
  }
  return false;
}

/* The group of the process, from lines such as "4:memory:/a/b" or, of version 2, "0::/a/b". A
 * controller belongs to one version at a time. NULL: none is known. */
static const version_t *find_group(const char *root) {
  const version_t *found = NULL;
  reader_t reader;
  if (!open_file(&reader, root, "/proc/self", "/cgroup")) return NULL;
  while (next_line(&reader)) {
    char *list = strchr(line, ':'), *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL || path[1] != '/' || strlen(path + 1) >= sizeof group_path) continue;
    *list++ = *path++ = '\0';
    bool is_memory = has_word(list, "memory"), is_unified = *list == '\0' && strcmp(line, "0") == 0;
    if (!is_memory && !(is_unified && found == NULL)) continue;
    found = is_memory ? &version_1 : &version_2;
    strcpy(group_path, path);
    if (is_memory) break;
  }
  os_close(reader.fd);
  return found;
}

/* The next of the words that a line consists of, cut off; NULL at its end. */
static char *next_word(char **rest) {
  char *word = *rest;
  if (word == NULL || *word == '\0') return NULL;
  char *end = strchr(word, ' ');
  *rest = end != NULL ? end + 1 : NULL;
  if (end != NULL) *end = '\0';
  return word;
}

/* Spaces and the like in paths are written as three octal digits. */
static void copy_path(char *to, const char *from) {
  for (; *from != '\0'; to++) {
    bool is_octal = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                    from[3] >= '0' && from[3] <= '7';
    if (is_octal) *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')), from += 4;
    else *to = *from++;
  }
  *to = '\0';
}

/* Whether the line of /proc/self/mountinfo mounts the hierarchy: "36 35 98:0 ROOT PLACE
 * options [optional words] - TYPE source OPTIONS". Takes over its paths. */
static bool is_mount(const version_t *version) {
  char *rest = line, *words[6], *word;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    words[i] = next_word(&rest);
    if (words[i] == NULL) return false;
  }
  while ((word = next_word(&rest)) != NULL && strcmp(word, "-") != 0) continue;
  char *type = next_word(&rest), *source = next_word(&rest), *options = next_word(&rest);
  if (type == NULL || source == NULL || options == NULL || strcmp(type, version->file_system) != 0) return false;
  if (version == &version_1 && !has_word(options, "memory")) return false;
  if (strlen(words[3]) >= sizeof mount_root || strlen(words[4]) >= sizeof mount) return false;
  copy_path(mount_root, words[3]);
  copy_path(mount, words[4]);
  return true;
}

static bool find_mount(const char *root, const version_t *version) {
  reader_t reader;
  if (!open_file(&reader, root, "/proc/self", "/mountinfo")) return false;
  bool found = false;
  while (!found && next_line(&reader)) found = is_mount(version);
  os_close(reader.fd);
  return found;
}

/* ---- The tightest of the groups ----------------------------------------------------*/

/* Of one group; UINT64_MAX if it has none. From its largest number of pages on, version 1 says so. */
static uint64_t read_limit(const char *root, const char *directory, const version_t *version) {
  const uint64_t unlimited = (uint64_t)INT64_MAX / 65536 * 65536;
  uint64_t limit = UINT64_MAX, number;
  for (int i = 0; i < 2; i++)
    if (version->limits[i] != NULL && read_number(root, directory, version->limits[i], &number) && number < limit)
      limit = number;
  return limit < unlimited ? limit : UINT64_MAX;
}

/* Appends the process's group to the place where the hierarchy is seen. If the group lies
 * outside of what is mounted there, that place is all that can be seen. */
static size_t go_to_group(char *directory, size_t most) {
  size_t root_length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root), length = strlen(directory);
  const char *below = group_path + root_length;
  bool is_inside = strncmp(group_path, mount_root, root_length) == 0 && (*below == '/' || *below == '\0') &&
                   strstr(below, "/..") == NULL;
  size_t more = is_inside && strcmp(below, "/") != 0 ? strlen(below) : 0;
  if (length + more >= most) return length;
  memcpy(directory + length, below, more);
  directory[length + more] = '\0';
  return length;
}

bool cgroup_memory_limit(const char *root, uint64_t *bytes) {
  static HAK_RARELY_USED char directory[2 * PATH_BYTES];
  const version_t *version = find_group(root);
  if (version == NULL || !find_mount(root, version)) return false;
  strcpy(directory, mount);
  size_t top = go_to_group(directory, sizeof directory);
  *bytes = UINT64_MAX;
  for (size_t length = strlen(directory);;) {
    uint64_t limit = read_limit(root, directory, version);
    if (limit < *bytes) *bytes = limit;
    if (length <= top) return *bytes != UINT64_MAX;
    while (length > top && directory[length] != '/') length--;
    directory[length] = '\0';
  }
}
