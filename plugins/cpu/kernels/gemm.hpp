// SPDX-License-Identifier: Apache-2.0
// gemm.hpp: a batch of matrix products as figures: c[batch][rows][columns] = a[…][depth] × b.
//
// Transposes are strides, broadcast batches are strides of 0.
// Invariant: all sizes are positive; strides are in elements.
#pragma once

#include "step.hpp"

#include <tenon/fragment.h>

#include <array>
#include <memory>

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
  // What is computed on c before it is written; oneDNN only.
  Place bias{};      // nowhere, or dense columns of c's type
  Place residual{};  // nowhere, or what lies as c does
  uint32_t activation = TN_OP_identity;
  bool variant = false;  // gelu's tanh form
};

// f64 by plain loops: what oneDNN does not compute. Any strides.
std::unique_ptr<Step> plain_gemm(const Gemm& gemm);

// A product that oneDNN runs, and the bytes of workspace each run of it takes.
struct OneDnnGemm {
  std::unique_ptr<Step> step;
  uint64_t scratch_bytes;
};

// Whether this build has oneDNN. [any-thread; cannot fail]
bool has_onednn() noexcept;
// f32 × f32 → f32 or bf16 × bf16 → bf16, operands with one unit stride each, c with unit columns. `scratch` is where its
// workspace will be. `threads` is what runs it. TN_UNSUPPORTED with oneDNN's reason. [any-thread; may block; may fail]
Result<OneDnnGemm> onednn_gemm(const Gemm& gemm, const Place& scratch, unsigned threads);

}  // namespace tenon::cpu
