/* SPDX-License-Identifier: Apache-2.0 */
/* frozen_v1_fragment.h: which fragments the frozen plugin runs: one identity of dense f32, and nothing else.
 *
 * Invariant: nothing that a fragment points to is read before it is known to be there.
 */
#ifndef TENON_FROZEN_V1_FRAGMENT_H
#define TENON_FROZEN_V1_FRAGMENT_H

#include <stddef.h>

#include <tenon/abi.h>

/* Whether nothing in a chain of links has to be understood: the plugin knows no extension. */
static int understood(const tn_link* link) {
  for (; link != NULL; link = link->next) {
    if ((link->flags & TN_LINK_MUST_UNDERSTAND) != 0) return 0;
  }
  return 1;
}

static int is_tensor(const tn_tensor* t) {
  if (t->rank > TN_MAX_RANK || (t->rank != 0 && t->dims == NULL)) return 0;
  if ((t->alignment & (t->alignment - 1)) != 0) return 0;
  for (uint32_t i = 0; i < t->rank; ++i) {
    if (t->dims[i] < 0 || (t->strides != NULL && t->strides[i] < 0)) return 0;
  }
  return 1;
}

/* Whether each of `count` numbers names one of the fragment's tensors. */
static int are_tensors_of(const tn_fragment* f, const uint32_t* numbers, uint32_t count) {
  if (count != 0 && numbers == NULL) return 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (numbers[i] >= f->tensor_count && numbers[i] != TN_ABSENT) return 0;
  }
  return 1;
}

/* Whether all that a fragment points to and names is there; otherwise it is TN_INVALID, whatever it is to compute. */
static int is_fragment(const tn_fragment* f) {
  if (f->size < offsetof(tn_fragment, name)) return 0;
  if ((f->tensor_count != 0 && f->tensors == NULL) || (f->node_count != 0 && f->nodes == NULL)) return 0;
  if (!are_tensors_of(f, f->inputs, f->input_count) || !are_tensors_of(f, f->outputs, f->output_count))
    return 0;
  for (uint32_t i = 0; i < f->tensor_count; ++i) {
    if (!is_tensor(&f->tensors[i])) return 0;
  }
  for (uint32_t i = 0; i < f->node_count; ++i) {
    const tn_node* node = &f->nodes[i];
    if (node->op == TN_OP_identity && (node->input_count == 0 || node->output_count == 0)) return 0;
    if (!are_tensors_of(f, node->inputs, node->input_count)) return 0;
    if (!are_tensors_of(f, node->outputs, node->output_count)) return 0;
  }
  return 1;
}

static int is_plain(const tn_tensor* t) {
  return t->strides == NULL && t->layout == 0 && (t->flags & TN_TENSOR_CONSTANT) == 0 &&
         t->dtype == TN_DTYPE_f32 && understood(t->next);
}

static int same_shape(const tn_tensor* a, const tn_tensor* b) {
  if (a->rank != b->rank) return 0;
  for (uint32_t i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return 0;
  }
  return 1;
}

/* The ends of the one kernel there is, y = x; 0 where `f`, which is a fragment, is another. */
static int is_identity(const tn_fragment* f, const tn_tensor** x, const tn_tensor** y) {
  if (f->node_count != 1 || f->input_count != 1 || f->output_count != 1) return 0;
  if (f->size >= sizeof *f && !understood(f->next)) return 0;
  const tn_node* node = &f->nodes[0];
  if (node->op != TN_OP_identity || node->version != 1 || !understood(node->next)) return 0;
  if (node->input_count != 1 || node->output_count != 1) return 0;
  if (node->inputs[0] != f->inputs[0] || node->outputs[0] != f->outputs[0]) return 0;
  if (f->inputs[0] == TN_ABSENT || f->outputs[0] == TN_ABSENT) return 0;
  *x = &f->tensors[f->inputs[0]];
  *y = &f->tensors[f->outputs[0]];
  return is_plain(*x) && is_plain(*y) && same_shape(*x, *y);
}

#endif
