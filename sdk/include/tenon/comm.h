/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h: a group is an array.
 *
 *   - One `submit` is one group: all its operations progress together; order inside is irrelevant except first-in
 *     first-out per pair of ranks; no operation reads another's output; zero-count operations keep their place.
 *   - Successive submits on one communicator run in submit order, also on different streams.
 *   - Across communicators every rank uses one order: the host's issuer keeps it.
 *   - A communicator refuses what it does not take, and never coerces a dtype.
 *   - Several ranks in one process: one host thread each.
 */
#ifndef TENON_COMM_H
#define TENON_COMM_H

#include <tenon/host.h>
#include <tenon/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tn_comm_op.kind */
#define TN_COMM_ALL_REDUCE 1u
#define TN_COMM_BROADCAST 2u
#define TN_COMM_REDUCE 3u
#define TN_COMM_ALL_GATHER 4u     /* in place: send is recv + rank · count */
#define TN_COMM_REDUCE_SCATTER 5u /* in place: recv is send + rank · count */
#define TN_COMM_ALL_TO_ALL 6u
#define TN_COMM_ALL_TO_ALL_V 7u
#define TN_COMM_SEND 8u
#define TN_COMM_RECV 9u
#define TN_COMM_BARRIER 10u

/* tn_comm_op.reduce */
#define TN_REDUCE_SUM 1u
#define TN_REDUCE_PROD 2u
#define TN_REDUCE_MIN 3u
#define TN_REDUCE_MAX 4u
#define TN_REDUCE_AVG 5u
/* Σ scalar_r · x_r; the scalar is `scalar`, or a rank-0 tensor of dtype in `factor` */
#define TN_REDUCE_PREMUL_SUM 6u

/* Array element: frozen. `count` is elements sent to (or from) one rank; buffers hold count, or size · count for the
 * gathered side. */
typedef struct tn_comm_op {
  uint32_t kind;
  uint32_t dtype;
  uint32_t reduce;
  int32_t peer; /* root of broadcast and reduce, the other rank of send and recv */
  uint64_t count;
  tn_span send;
  tn_span recv;
  double scalar;
  tn_span factor; /* empty: `scalar` counts */
  const uint64_t *send_counts,
      *recv_counts; /* ALL_TO_ALL_V, one per rank, in elements; packed in rank order */
  const tn_link* next;
  uint64_t reserved[2]; /* zero */
} tn_comm_op;

typedef struct tn_comm_options {
  uint32_t size;
  uint32_t flags;        /* TN_COMM_… */
  uint64_t timeout_ns;   /* of creation, and of lost-peer detection; 0: the plugin's default */
  const tn_store* store; /* borrowed until the communicator stands, or is destroyed */
  const char* name;      /* for messages; may be NULL */
  const tn_link* next;
} tn_comm_options;
#define TN_COMM_NON_BLOCKING 1u  /* `create` returns at once; `health` says TN_BUSY until it stands */
#define TN_COMM_DETERMINISTIC 2u /* same bits for any arrival order, cut and algorithm */

typedef struct tn_comm_limits {
  uint32_t size;
  uint32_t max_ops;        /* per submit; 0: no limit */
  uint64_t kind_mask;      /* bit k: TN_COMM kind k */
  uint64_t reduce_mask;    /* bit r: TN_REDUCE r */
  uint64_t dtype_mask;     /* bit d: dtype d may be moved */
  uint64_t reducible_mask; /* bit d: dtype d may be reduced */
} tn_comm_limits;

struct tn_comm_api {
  tn_header header;
  /* Stores the size of an id in bytes. [any-thread; does not block; may fail] */
  int32_t (*id_bytes)(tn_device* device, uint64_t* bytes, tn_error* error);
  /* Makes an id on one rank; the host carries it to the others. [any-thread; may block; may fail] */
  int32_t (*make_id)(tn_device* device, void* id, uint64_t bytes, tn_error* error);
  /* Joins. Ended by `destroy`. TN_TIMEOUT when ranks are missing, TN_MISMATCH, TN_PEER_LOST.
   * [any-thread; blocks unless NON_BLOCKING; may fail] */
  int32_t (*create)(tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t id_bytes,
                    const tn_comm_options* options, tn_comm** comm, tn_error* error);
  /* Fills at most limits->size bytes. [any-thread; does not block; may fail] */
  int32_t (*limits)(tn_comm* comm, tn_comm_limits* limits, tn_error* error);
  /* Enqueues one group on `stream`. Arrays are borrowed for the call, memory until completion.
   * TN_UNSUPPORTED (mask), TN_ABORTED, TN_PEER_LOST. [stream's thread, one submit per communicator at a time; may block;
   * may fail] */
  int32_t (*submit)(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count, tn_error* error);
  /* (optional) Ranks of one `color` form a new communicator, ordered by (key, rank); a negative color takes part and
   * gets NULL. NULL: the host creates it anew. [all ranks; blocks; may fail] */
  int32_t (*split)(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options, tn_comm** out,
                   tn_error* error);
  /* Marks the communicator and returns at once; local. Work in flight ends with TN_ABORTED.
   * [any-thread; does not block; may fail] */
  int32_t (*abort)(tn_comm* comm, tn_error* error);
  /* TN_OK, TN_BUSY while it is being created, or what is wrong. [any-thread; does not block; may fail] */
  int32_t (*health)(tn_comm* comm, tn_error* error);
  /* Joins the teardown. TN_TIMEOUT when it does not end in time; the handle is invalid either way.
   * [one thread; blocks; may fail] */
  int32_t (*destroy)(tn_comm* comm, uint64_t timeout_ns, tn_error* error);
};

#ifdef __cplusplus
}
#endif
#endif
