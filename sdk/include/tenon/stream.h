/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: a stream is a timeline.
 *
 * Work on a stream is in order. `record` returns a value on its timeline; anyone can wait for (stream, value). Values
 * never decrease; the timeline starts at 0, which is always reached. There are no event objects.
 *
 *   - With nothing enqueued since, `record` may repeat a value; `wait(v)` may round up to any value recorded before the
 *     call. So a plugin with few native events can coarsen.
 *   - Waiting for a reached value costs nothing. Waiting for a value neither recorded nor promised is TN_INVALID.
 *   - Poison is a verdict, not a fence: after a failure, work already enqueued may run, and what it writes is undefined.
 *     The plugin reports its own stream's first error, flagged TN_ERROR_ASYNC, from any later call on it; the host
 *     carries it across waits. TN_TIMEOUT poisons nothing. Recovery: destroy and create.
 *   - "Does not block" means that a call never waits for work to finish, but for one thing: when 256 calls or more are on
 *     their way on its stream, it may wait for room. A copy from pageable memory may, too: who keeps promises pins it.
 *   - One stream is externally synchronised; different streams are free-threaded. In `wait` only `stream` is the
 *     caller's; `query`, `sync`, `timestamp` and `signal` are any-thread.
 */
#ifndef TENON_STREAM_H
#define TENON_STREAM_H

#include <tenon/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_stream_options {
  uint32_t size;
  uint32_t priority; /* 0 … limits.priorities-1 */
  const char* name;  /* for logs and timelines; may be NULL */
  const tn_link* next;
} tn_stream_options;

/* destroy */
#define TN_DESTROY_COMPLETE 0u /* finish enqueued work first */
#define TN_DESTROY_ABANDON 1u  /* drop what has not started; used after a failure */

/* record flags */
#define TN_RECORD_TIMED 1u /* `timestamp` will be asked for this value */

#define TN_TIMEOUT_NEVER UINT64_MAX

/* Extents of a strided copy, in bytes along the last dimension; rank ≤ 4, outermost first. */
typedef struct tn_copy_shape {
  uint32_t size;
  uint32_t rank;
  uint64_t extent[4];     /* rows …; extent[rank-1] is in bytes */
  uint64_t dst_stride[4]; /* in bytes; the last is 1 */
  uint64_t src_stride[4];
} tn_copy_shape;

struct tn_stream_api {
  tn_header header;
  /* Makes a stream. Ended by `destroy`. TN_INVALID (priority), TN_NO_MEMORY (limits.max_streams reached, with the
   * figure). [any-thread; may block; may fail] */
  int32_t (*create)(tn_device* device, const tn_stream_options* options, tn_stream** stream, tn_error* error);
  /* Ends a stream; the handle is invalid afterwards whatever is returned. The error is the stream's first failure, if
   * nobody was told yet. [stream's thread; blocks; may fail] */
  int32_t (*destroy)(tn_stream* stream, uint32_t mode, tn_error* error);

  /* Enqueues a copy of equal byte counts; the ranges must not overlap. A pageable host source is consumed on return; a
   * pageable host destination may block until filled. [stream's thread; may block; may fail] */
  int32_t (*copy)(tn_stream* stream, const tn_span* dst, const tn_span* src, tn_error* error);
  /* (optional) The same for a box of bytes. NULL: the host copies row by row.
   * [stream's thread; may block; may fail] */
  int32_t (*copy_strided)(tn_stream* stream, const tn_span* dst, const tn_span* src,
                          const tn_copy_shape* shape, tn_error* error);
  /* Enqueues dst = pattern repeated; pattern_bytes is 1, 2, 4 or 8 and divides dst->bytes.
   * [stream's thread; does not block; may fail] */
  int32_t (*fill)(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
                  tn_error* error);

  /* Stores the value that is reached when all work enqueued so far has finished. It may block because runtimes with a
   * fixed number of events wait here until one is free: limits.max_pending_records. Others say TN_NO_MEMORY, with the
   * figure. [stream's thread; may block; may fail] */
  int32_t (*record)(tn_stream* stream, uint32_t flags, uint64_t* value, tn_error* error);
  /* Later work on `stream` starts after `other` reaches `value`. `other` is of the same plugin and, without feature
   * CROSS_DEVICE_WAIT, the same device. A stream may wait for itself at no cost. `other` may be
   * destroyed meanwhile: what it has finished, or dropped, nobody waits for any more.
   * [stream's thread; does not block; may fail] */
  int32_t (*wait)(tn_stream* stream, tn_stream* other, uint64_t value, tn_error* error);
  /* Stores the newest value known to be reached. A runtime that cannot be asked knows what a sync has learned, so this
   * may lag: who polls asks `sync` with a timeout of 0. [any-thread; does not block; may fail] */
  int32_t (*query)(tn_stream* stream, uint64_t* completed, tn_error* error);
  /* Blocks until `value` is reached. TN_TIMEOUT; a timeout of 0 asks without blocking, and asked again finds what is
   * reached meanwhile. A value reached before a failure succeeds where the runtime can tell.
   * [any-thread; blocks; may fail] */
  int32_t (*sync)(tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* error);

  /* (optional) Device time of a reached value recorded with TIMED, in ns from an origin fixed per device.
   * NULL: TN_UNSUPPORTED. [any-thread; does not block; may fail] */
  int32_t (*timestamp)(tn_stream* stream, uint64_t value, uint64_t* ns, tn_error* error);
  /* (optional) Runs `call(argument)` on a host thread, in stream order. It must not call into the plugin.
   * NULL: TN_UNSUPPORTED. [stream's thread; does not block; may fail] */
  int32_t (*host_call)(tn_stream* stream, void (*call)(void* argument), void* argument, tn_error* error);

  /* (optional) Stores a value that the host will complete once, by `signal`; promises complete in order of value. A
   * stream used for promises carries no other work. NULL: the host blocks instead.
   * [stream's thread; does not block; may fail] */
  int32_t (*promise)(tn_stream* stream, uint64_t* value, tn_error* error);
  /* (optional, with promise) Keeps a promise; code TN_OK, or the failure that poisons the stream. A second signal of one
   * value is TN_INVALID. [any-thread; does not block; may fail] */
  int32_t (*signal)(tn_stream* stream, uint64_t value, int32_t code, tn_error* error);
};

#ifdef __cplusplus
}
#endif
#endif
