// SPDX-License-Identifier: Apache-2.0
// strip_finish.cpp: the loops of strip_finish.hpp, one for each activation.
//
// Invariant: activations are those of elementwise kernels (float_ops.hpp).
#include "strip_finish.hpp"

#include "float_ops.hpp"

#include <tenon/fragment.h>

#include <type_traits>

namespace tenon::cpu {
namespace {

TENON_CPU_LOOP void add_row(float* __restrict to, const float* __restrict from, int64_t n) {
  for (int64_t j = 0; j < n; ++j) to[j] += from[j];
}

template <class F>
struct Finish {
  template <bool fused>
  struct Loop {
    static void run(const StripResult& result) {
      for (int64_t i = 0; i < result.rows; ++i) {
        float* const to = result.at + i * result.row;
        if (result.bias != nullptr) add_row(to, result.bias, result.columns);
        if (result.residual != nullptr) add_row(to, result.residual + i * result.row, result.columns);
        if constexpr (!std::is_same_v<F, float_ops::Identity>) {
          for (int64_t j = 0; j < result.columns; ++j) to[j] = F{}(Scalar<float, fused>(to[j])).v;
        }
      }
    }
  };
};

template <class F>
StripFinish widest_finish() noexcept {
  return widest_of<Finish<F>::template Loop>();
}

}  // namespace

StripFinish strip_finish(uint32_t activation, bool variant) noexcept {
  switch (activation) {
    case TN_OP_relu:
      return widest_finish<float_ops::Relu>();
    case TN_OP_gelu:
      return variant ? widest_finish<float_ops::GeluTanh>() : widest_finish<float_ops::Gelu>();
    case TN_OP_sigmoid:
      return widest_finish<float_ops::Sigmoid>();
    case TN_OP_tanh:
      return widest_finish<float_ops::Tanh>();
    case TN_OP_silu:
      return widest_finish<float_ops::Silu>();
    default:
      return widest_finish<float_ops::Identity>();
  }
}

}  // namespace tenon::cpu
