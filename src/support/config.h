/*
 * The environment variables HAKMEM_*; docs/configuration.md documents them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_CONFIG_H
#define HAK_CONFIG_H

#include "profile.h"

HAK_C_BEGIN

/* What is decided over time: nothing; by the program's threads, at batch boundaries; by the
 * background thread as well. */
typedef enum { OVER_TIME_OFF, OVER_TIME_INLINE, OVER_TIME_ON } over_time_t;
typedef enum { REPORT_NONE, REPORT_SHORT, REPORT_CLASSES } report_t;

typedef struct {
  bool abort_on_error;    /* HAKMEM_ABORT_ON_ERROR, default 1                    */
  over_time_t over_time;  /* HAKMEM_INT, default on                              */
  profile_t profile;      /* HAKMEM_PROFILE, default balanced                    */
  report_t report;        /* HAKMEM_STATS: at exit; default 0                    */
  size_t reserve_bytes;   /* HAKMEM_RESERVE; 0, the default: by the machine   */
  size_t hard_limit;      /* HAKMEM_HARD_LIMIT, in bytes; 0, the default: none */
  size_t soft_limit;      /* HAKMEM_SOFT_LIMIT, likewise                          */
  size_t sample_bytes;    /* HAKMEM_SAMPLE, in bytes; 0, the default: none      */
  uint32_t sample_parent; /* only if this process has started it; 0: in any case */
  const char *stats_file; /* HAKMEM_STATS_FILE, default none                      */
} config_t;

/* The defaults until config_read has run; the same object for ever. */
const config_t *config(void);

/* Reads the environment: the first call does, while there is no second thread:
 * the first allocation of a static program, else our constructor. NULL: it is not
 * known yet. An unknown name or a bad value warns and changes nothing. Does
 * nothing in a privileged process. The limits (limit.h) and the profile are set then. */
void config_read(char *const environment[]);

HAK_C_END
#endif
