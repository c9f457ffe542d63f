/* SPDX-License-Identifier: Apache-2.0 */
/* fragment.h: what a device is asked to compile: tensors, nodes, inputs, outputs.
 *
 * One op is a fragment of one node, a fused kernel is a fragment of several, a training step is a fragment for a device
 * that wants whole graphs. All pointers are borrowed for the call. Nodes stand in an order in which they can run.
 */
#ifndef TENON_FRAGMENT_H
#define TENON_FRAGMENT_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TN_DTYPE_f32 = 12 … */
enum {
#define TN_DTYPE(number, name, bits, class) TN_DTYPE_##name = number,
#include <tenon/dtypes.def>
  TN_DTYPE_NONE = 0
};

/* TN_OP_add = 40 … */
enum {
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, \
              attributes, doc)                                                                          \
  TN_OP_##name = number,
#include <tenon/ops.def>
  TN_OP_NONE = 0
};

#define TN_MAX_RANK 8

/* tn_tensor.flags */
#define TN_TENSOR_CONSTANT 1u /* `constant` holds the dense bytes, copied at compile */

/* Array element: frozen. Dims are in logical order (NCHW, OIHW) and concrete; negative ones are reserved. A strided
 * tensor gives strides in elements, ≥ 0, 0 = broadcast; NULL strides = dense, row-major. Rank 0 has one element. */
typedef struct tn_tensor {
  uint32_t dtype;
  uint32_t rank;
  const int64_t* dims;
  const int64_t* strides;
  uint32_t layout; /* 0: strided; otherwise a private layout interned at open (kernel.h) */
  uint32_t flags;
  uint64_t alignment; /* guaranteed for every binding of it, in bytes; 0: that of the element */
  const void* constant;
  uint64_t constant_bytes;
  const tn_link* next;
  uint64_t reserved[2]; /* zero */
} tn_tensor;

/* tn_attribute.kind */
#define TN_ATTRIBUTE_I64 1u
#define TN_ATTRIBUTE_F64 2u
#define TN_ATTRIBUTE_I64S 3u   /* data: int64_t[count] */
#define TN_ATTRIBUTE_F64S 4u   /* data: double[count] */
#define TN_ATTRIBUTE_STRING 5u /* data: char[count], not NUL-terminated */
#define TN_ATTRIBUTE_DTYPE 6u  /* i64 */
#define TN_ATTRIBUTE_BYTES 7u  /* data: uint8_t[count] */

/* Array element: frozen. Within a node attributes are sorted by name, defaults written out. */
typedef struct tn_attribute {
  const char* name;
  uint32_t kind;
  uint32_t reserved; /* zero */
  uint64_t count;
  int64_t i64;
  double f64;
  const void* data;
} tn_attribute;

/* Array element: frozen. inputs and outputs index fragment.tensors; TN_ABSENT marks an optional one left out. */
typedef struct tn_node {
  uint32_t op, version;
  uint32_t input_count, output_count, attribute_count, reserved;
  const uint32_t* inputs;
  const uint32_t* outputs;
  const tn_attribute* attributes;
  const char* name; /* for messages only, never for identity; may be NULL */
  const tn_link* next;
  uint64_t reserved2[2];
} tn_node;
#define TN_ABSENT UINT32_MAX

/* Array element: frozen. Output `output` may be bound to exactly the span of input `input` (indexes into the
 * fragment's inputs and outputs). */
typedef struct tn_alias {
  uint32_t input, output;
} tn_alias;

typedef struct tn_fragment {
  uint32_t size;
  uint32_t flags; /* zero */
  const tn_tensor* tensors;
  const tn_node* nodes;
  const uint32_t* inputs;  /* indexes into tensors */
  const uint32_t* outputs; /* indexes into tensors */
  const tn_alias* aliases;
  uint32_t tensor_count, node_count, input_count, output_count, alias_count, reserved;
  const char* name; /* for messages only; may be NULL */
  /* Computed by the host over ops, versions, attributes, tensors, aliasing, alignment and constant bytes; never over
   * names or pointers. Equal identities mean equal fragments. */
  uint8_t identity[32];
  const tn_link* next;
} tn_fragment;

#ifdef __cplusplus
}
#endif
#endif
