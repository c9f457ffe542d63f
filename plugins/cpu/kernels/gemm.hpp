// SPDX-License-Identifier: Apache-2.0
// gemm.hpp: a batch of matrix products as figures: c[batch][rows][columns] = a[…][depth] × b.
//
// Transposes are strides, broadcast batches are strides of 0.
// Invariant: all sizes are positive; strides are in elements.
#pragma once

#include "builder.hpp"

#include <array>

namespace tenon::cpu {

inline constexpr uint32_t most_batch_dims = TN_MAX_RANK - 2;

struct GemmOperand {
  Place place;
  uint32_t dtype;
  std::array<int64_t, most_batch_dims> batch{};  // strides, outermost first; entries past batch_rank are 0
  int64_t row, column;                           // strides
};

struct Gemm {
  uint32_t batch_rank = 0;
  std::array<int64_t, most_batch_dims> batch{};
  int64_t rows, columns, depth;
  GemmOperand a, b, c;
  // What is computed on c before it is written; not by plain loops.
  Place bias{};      // nowhere, or dense columns of c's type
  Place residual{};  // nowhere, or what lies as c does, elsewhere
  uint32_t activation = TN_OP_identity;
  bool variant = false;  // gelu's tanh form
};

// f64 by plain loops: what oneDNN does not compute. Any strides.
std::unique_ptr<Step> plain_gemm(const Gemm& gemm);

// Whether this build has oneDNN, and which one: "oneDNN 2.6.3". [any-thread; cannot fail]
bool has_onednn() noexcept;
std::string onednn_version();
// Has oneDNN keep to isa(), or, as it has nothing of its own below, to SSE4.1: from before its first use in the process on, else
// it stays as it is: false. [any-thread; does not block; cannot fail]
bool cap_onednn() noexcept;
// f32 × f32 → f32 or bf16 × bf16 → bf16, operands with one unit stride each, c with unit columns. `packs`: b is brought
// into the layout that the kernel asks for, at compile where it is constant, else by each run. `threads` is what runs it.
// TN_UNSUPPORTED with oneDNN's reason. [any-thread; may block; may fail]
Status onednn_gemm(Builder& builder, const Gemm& gemm, bool packs, unsigned threads, Steps& steps);

// The same of bf16 on tile registers (AMX), where this processor has them; subnormal numbers count as 0 there. Constant
// operands are packed at compile. [any-thread; may block; may throw bad_alloc]
bool has_amx_gemm(const Gemm& gemm) noexcept;
std::unique_ptr<Step> amx_gemm(Builder& builder, const Gemm& gemm, unsigned threads);

// The same of f32 in strips of registers, by generated code, where this processor and build have it and options let it (`isa`, `engine`); each element is summed in an order
// that the shape and the number of threads set. Appended to `steps`. [any-thread; may block; may throw bad_alloc]
bool has_strip_gemm(const Gemm& gemm) noexcept;
void strip_gemm(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps);
// b in panels, for products of any number of rows with it: packed by a step that is appended, or at compile where it is constant. Where
// it is, and such a product. [any-thread; may block; may throw bad_alloc]
Place strip_pack(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps);
std::unique_ptr<Step> strip_gemm(Builder& builder, const Gemm& gemm, const Place& packed, unsigned threads);
// Whether strips are the table's way.
bool suits_strips(const Gemm& gemm) noexcept;

// Appends the steps of the product in the way that suits it best: by the builder's search, else by a table of shapes. All
// ways take what onednn_gemm does. TN_UNSUPPORTED with a reason. [any-thread; may block; may fail]
Status build_gemm(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps);

}  // namespace tenon::cpu
