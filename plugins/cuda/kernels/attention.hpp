// SPDX-License-Identifier: Apache-2.0
// attention.hpp: a fragment of one attention, or of its gradient, as figures.
//
// Invariant: attention that is read has a key for every query to see, and rows of heads that begin at multiples of 16 bytes where
// their tensors do. Nothing here depends on a driver or a library.
#pragma once

#include "placed.hpp"

namespace tenon::cuda {

struct Attention {
  uint32_t op = TN_OP_attention;  // or attention_grad, which reads y and log, and makes dq, dk, dv
  uint32_t dtype = TN_DTYPE_NONE;
  float scale = 1;
  bool causal = false;        // the last query sees the last key
  Placed q{}, k{}, v{}, y{};  // [batch, heads, queries or keys, width]
  Placed log{};               // log Σe, f32 [batch, heads, queries, 1]
  Placed dy{}, dq{}, dk{}, dv{};

  bool is_gradient() const noexcept { return op == TN_OP_attention_grad; }
  std::array<int64_t, 4> query_dims() const noexcept { return q.dims; }
  std::array<int64_t, 4> key_dims() const noexcept { return k.dims; }
  std::array<int64_t, 4> score_dims() const noexcept { return {q.dims[0], q.dims[1], q.dims[2], k.dims[2]}; }
  std::array<int64_t, 4> row_dims() const noexcept { return {q.dims[0], q.dims[1], q.dims[2], 1}; }
};

// Whether a fragment is one of attention: it has it or a gradient of it. [any-thread; does not block; cannot fail]
bool has_attention(const author::FragmentView& fragment) noexcept;

// TN_UNSUPPORTED with the reason, TN_INVALID for what ops.def forbids; both name the node or the tensor. At most a few
// microseconds. [any-thread; does not block; may fail]
Result<Attention> read_attention(const author::FragmentView& fragment);

// All that attention is, in one line; equal lines are equal attention. [any-thread; does not block; may throw bad_alloc]
std::string told(const Attention& attention);

}  // namespace tenon::cuda
