/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: everything a device runs is a compiled fragment; `supports` → `compile` → `launch` is the only path.
 *
 *   - supports: rules only, ≤ 5 µs, may be optimistic; the host remembers its answer by identity.
 *   - compile: may still refuse with TN_UNSUPPORTED and a reason; the host then cuts the graph another way.
 *   - launch: bindings are inputs, then outputs, in fragment order. Outputs overlap nothing but declared in-place pairs.
 *     Spans are borrowed for the call, memory until completion. One kernel may be in flight on several streams with
 *     distinct workspaces.
 *   - Without feature ADDRESSABLE a memory names contents, not a place: an in-place pair may live inside an executable
 *     until it is copied or bound elsewhere, so weights do not travel each step.
 *   - Launching a fragment that holds collectives (feature FRAGMENT_COLLECTIVES) counts as `submit` on each of its
 *     communicators.
 */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include <tenon/fragment.h>
#include <tenon/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tn_support.verdict */
#define TN_SUPPORT_NO 0u
#define TN_SUPPORT_NATIVE 1u
#define TN_SUPPORT_CONVERTED 2u /* computed in another type or layout; the reason says which */
#define TN_SUPPORT_EMULATED 3u  /* correct, and not what this device is good at */

typedef struct tn_support {
  uint32_t size;
  uint32_t verdict;
  double cost_ns;           /* predicted time of one launch, finite; 0: no opinion */
  uint64_t workspace_bytes; /* predicted */
  uint64_t alias_mask; /* bit i: declared alias i is honoured in place; none whose two ends lie otherwise */
  char reason[232];    /* always filled for NO, CONVERTED, EMULATED: the predicate and its values */
  uint64_t aliases_beyond; /* past those 64: how many are honoured before the first that is not */
} tn_support;

typedef struct tn_compile_options {
  uint32_t size;
  uint32_t comm_count;
  double budget_ms;         /* for tuning; 0: no tuning */
  uint64_t workspace_limit; /* TN_COMPILE_NO_LIMIT: none */
  tn_comm* const* comms;    /* indexed by the `comm` attribute of collective nodes */
  const tn_link* next;
} tn_compile_options;
#define TN_COMPILE_NO_LIMIT UINT64_MAX

typedef struct tn_kernel_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t workspace_bytes; /* upper bound of what a launch uses */
  uint64_t workspace_alignment;
  double cost_ns;  /* measured when tuned, predicted otherwise; 0: unknown */
  char engine[64]; /* who runs it: "onednn:jit:avx512_core", "tiles" */
} tn_kernel_info;

/* A step of a fusion that the plugin publishes: a node over standard ops. Each operand is a step (its index), or a free
 * input (TN_PATTERN_INPUT + n). Array element: frozen. */
typedef struct tn_pattern_step {
  const uint32_t* ops; /* any one of these */
  uint32_t op_count;
  uint32_t operand_count;
  const uint32_t* operands;
  uint32_t flags; /* TN_PATTERN_… */
  uint32_t reserved;
} tn_pattern_step;
#define TN_PATTERN_INPUT 0x80000000u
#define TN_PATTERN_OPTIONAL 1u /* the step may be missing; its first operand stands for it */
#define TN_PATTERN_OUTPUT 2u   /* the step's value may be used outside the group */

/* A fusion that the plugin publishes, as data: its steps in run order, matched by the host. Array element: frozen. */
typedef struct tn_pattern {
  const char* name; /* "conv_bias_relu" */
  const tn_pattern_step* steps;
  uint32_t step_count;
  uint32_t reserved;
} tn_pattern;

/* Those of a device, which keeps them for its life. Frozen: it has no size. */
typedef struct tn_pattern_list {
  const tn_pattern* items;
  uint64_t count;
} tn_pattern_list;

struct tn_kernel_api {
  tn_header header;
  /* Answers whether and how well `fragment` runs; fills at most support->size bytes. "No" is TN_OK with verdict NO; an
   * error means the fragment itself is malformed. [any-thread; does not block; may fail] */
  int32_t (*supports)(tn_device* device, const tn_fragment* fragment, tn_support* support, tn_error* error);
  /* (optional) The fusions it publishes; the list lives as long as the device. NULL: none.
   * [any-thread; does not block; may fail] */
  int32_t (*patterns)(tn_device* device, tn_pattern_list* patterns, tn_error* error);
  /* (optional) Names of private layouts; index + 1 is tn_tensor.layout. NULL: none.
   * [any-thread; does not block; may fail] */
  int32_t (*layouts)(tn_device* device, tn_string_list* names, tn_error* error);
  /* (optional, with layouts) Bytes that `tensor` takes in its layout. NULL: dense or strided extent.
   * [any-thread; does not block; may fail] */
  int32_t (*layout_bytes)(tn_device* device, const tn_tensor* tensor, uint64_t* bytes, tn_error* error);

  /* Compiles. Ended by `destroy`. TN_INVALID for what `supports` calls so, which need not have been asked; TN_UNSUPPORTED
   * with a reason, TN_NO_MEMORY.
   * [any-thread; may block; may fail] */
  int32_t (*compile)(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                     tn_kernel** kernel, tn_error* error);
  /* Fills at most info->size bytes. [any-thread; does not block; may fail] */
  int32_t (*info)(tn_kernel* kernel, tn_kernel_info* info, tn_error* error);
  /* Enqueues one run. `binding_count` is inputs + outputs; workspace is exclusive until completion, and NULL or empty
   * when info says 0 bytes. TN_INVALID for a wrong count, size or alignment. [stream's thread; may block; may fail] */
  int32_t (*launch)(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t binding_count,
                    const tn_span* workspace, tn_error* error);
  /* Destroys a kernel; launches in flight keep what they need. [any-thread; may block; may fail] */
  int32_t (*destroy)(tn_kernel* kernel, tn_error* error);

  /* (optional) Serialises: with data NULL stores the size, else writes at most `capacity` bytes. NULL: TN_UNSUPPORTED.
   * [any-thread; may block; may fail] */
  int32_t (*save)(tn_kernel* kernel, void* data, uint64_t capacity, uint64_t* bytes, tn_error* error);
  /* (optional) Restores. TN_MISMATCH when it was saved for another identity, plugin, device or driver.
   * [any-thread; may block; may fail] */
  int32_t (*load)(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
                  tn_kernel** kernel, tn_error* error);
};

#ifdef __cplusplus
}
#endif
#endif
