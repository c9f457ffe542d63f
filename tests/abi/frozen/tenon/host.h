/* SPDX-License-Identifier: Apache-2.0 */
/* host.h: the services a host lends to a plugin, and the shape of a key-value store.
 *
 * The table outlives the plugin. A null function means the service is absent: the stated default holds. Every function
 * takes `host->context` first, so one process can hold several hosts.
 */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_LOG_ERROR 0
#define TN_LOG_WARN 1
#define TN_LOG_INFO 2
#define TN_LOG_DEBUG 3
#define TN_LOG_TRACE 4

/* Kinds of trace events. */
#define TN_TRACE_BEGIN 0   /* a host-side span starts on this thread */
#define TN_TRACE_END 1     /* … and ends */
#define TN_TRACE_COUNTER 2 /* `value` is the counter's new level */

/* A key-value store shared by all ranks of a job: what communicators bootstrap over. Keys are written once. */
typedef struct tn_store {
  tn_header header;
  void* context;
  /* Publishes `bytes` under `key`; a second set of one key is TN_INVALID. [any-thread; may block; may fail] */
  int32_t (*set)(void* context, const char* key, const void* data, uint64_t bytes, tn_error* error);
  /* Waits for `key`, copies at most `capacity` bytes and stores the value's full size in `bytes`. TN_TIMEOUT when the
   * key does not appear in time. [any-thread; may block; may fail] */
  int32_t (*get)(void* context, const char* key, void* data, uint64_t capacity, uint64_t* bytes,
                 uint64_t timeout_ns, tn_error* error);
} tn_store;

typedef struct tn_host {
  tn_header header;              /* the newest ABI the host offers */
  uint16_t min_major, min_minor; /* the oldest */
  uint32_t reserved;
  void* context;
  const char* name; /* "libtenon 0.1.0" */

  /* Writes one log line. NULL: the plugin stays silent. [any-thread; does not block; cannot fail] */
  void (*log)(void* context, int32_t level, const char* component, const char* text);
  /* The most talkative level that `log` passes on; ask before building a costly line. NULL: TN_LOG_WARN.
   * [any-thread; does not block; cannot fail] */
  int32_t (*log_level)(void* context);
  /* Host memory; NULL when there is none. Absent: malloc. [any-thread; may block; returns NULL] */
  void* (*allocate)(void* context, uint64_t bytes, uint64_t alignment);
  /* Gives back what `allocate` gave. Absent: free. [any-thread; may block; cannot fail] */
  void (*release)(void* context, void* memory, uint64_t bytes, uint64_t alignment);
  /* The value of option `key` for this plugin ("threads"), or NULL. Lives as long as the host. NULL: no options.
   * [any-thread; does not block; returns NULL] */
  const char* (*option)(void* context, const char* plugin, const char* key);
  /* One event on the host's timeline. NULL: nobody listens. [any-thread; does not block; cannot fail] */
  void (*trace)(void* context, int32_t kind, const char* name, uint64_t id, double value);
  /* Runs body(argument, begin, end) over [0, count) in pieces of at least `grain`, on the framework's own threads, and
   * returns when all are done. NULL (the default): the plugin uses its own threads. [any-thread; blocks; cannot fail] */
  void (*parallel_for)(void* context, uint64_t count, uint64_t grain,
                       void (*body)(void* argument, uint64_t begin, uint64_t end), void* argument);
} tn_host;

#ifdef __cplusplus
}
#endif
#endif
