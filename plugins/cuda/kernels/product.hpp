// SPDX-License-Identifier: Apache-2.0
// product.hpp: a fragment around one matmul, as a library for column-major matrices sees it.
//
// A row-major result is the column-major one of the transposed product, so its operands change places. Around the matmul may
// stand what a library computes while it writes: a bias, something to add, relu or gelu, gelu's gradient, a sum for a bias.
// Invariant: a product that is read writes exactly the fragment's outputs. Nothing here depends on a driver or a library, and
// reading allocates nothing until something is wrong, but for pairs in place that are declared.
#pragma once

#include <tenon/author/aliases.hpp>
#include <tenon/author/fragment_view.hpp>
#include <tenon/result.hpp>

namespace tenon::cuda {

inline constexpr uint32_t no_binding = UINT32_MAX;
inline constexpr uint32_t most_product_bindings = 8;
inline constexpr uint32_t most_batch_dims = TN_MAX_RANK - 2;

// What becomes of the sums; `gelu_grad` multiplies by the derivative at what Product::aux holds.
enum class Activation : uint8_t { none, relu, gelu, gelu_grad };

// What is summed over into a vector of its own.
enum class Sums : uint8_t { none, result, left, right };

// A matrix as it is stored: dense columns, `lead` elements apart. Strides are in elements.
struct Matrix {
  uint32_t binding = no_binding;  // inputs first, then outputs
  bool transposed = false;
  int64_t rows = 0, columns = 0, lead = 0;
  int64_t batch_stride = 0;
  std::array<int64_t, most_batch_dims> call_strides{};
};

// result = activation(left · right + bias + residual), for each of a batch in one call, and for each call.
struct Product {
  uint32_t dtype = TN_DTYPE_NONE;
  int64_t depth = 0;
  int64_t batch = 1;
  std::array<int64_t, most_batch_dims>
      calls{};  // how often for each dim that no stride of a batch steps over
  uint32_t call_dims = 0;
  Matrix left{}, right{}, result{};
  Matrix residual{};           // without a binding: nothing is added
  Matrix aux{};                // gelu writes its input there, gelu_grad reads it there
  uint32_t bias = no_binding;  // read: one element for each row of the result; or, with sums, written
  Activation activation = Activation::none;
  Sums sums = Sums::none;
  author::Honoured honoured_aliases{};

  bool is_empty() const noexcept {
    return result.rows == 0 || result.columns == 0 || batch == 0 || call_count() == 0;
  }
  int64_t call_count() const noexcept {
    int64_t out = 1;
    for (uint32_t i = 0; i < call_dims; ++i) out *= calls[i];
    return out;
  }
  bool is_plain() const noexcept {
    return activation == Activation::none && sums == Sums::none && bias == no_binding &&
           residual.binding == no_binding;
  }
};

// Whether a fragment is one of products: it has a matmul. [any-thread; does not block; cannot fail]
bool has_product(const author::FragmentView& fragment) noexcept;

// The fragment as a product. TN_UNSUPPORTED with the reason, TN_INVALID for what ops.def forbids; both name the node or the
// tensor. At most a few microseconds. [any-thread; does not block; may fail]
Result<Product> read_product(const author::FragmentView& fragment);

// All that a product is, in one line; equal lines are equal products. "f16 64x32x128 left N 64x128/64 …"
// [any-thread; does not block; may throw bad_alloc]
std::string told(const Product& product);

}  // namespace tenon::cuda
