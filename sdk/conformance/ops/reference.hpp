// SPDX-License-Identifier: Apache-2.0
// reference.hpp: what ops mean, in fp64, for the table in meaning.cpp.
//
// Invariant: a reference reads a Job's inputs and fills its outputs, whose dtypes and dims are already those of the trial.
#pragma once

#include "conformance/ops/meaning.hpp"

#include <cmath>
#include <type_traits>

namespace tenon::conform {

// A sum whose own error is far below what it is compared with (Neumaier), with the sum of absolute terms.
class Sum {
 public:
  void add(double term) noexcept;
  // a·b with the part that rounding drops.
  void add_product(double a, double b) noexcept;
  double value() const noexcept { return std::isfinite(plain_) ? plain_ + rest_ : plain_; }
  double magnitude() const noexcept { return magnitude_; }

 private:
  double plain_ = 0, rest_ = 0, magnitude_ = 0;
};

// A value, and how large its terms were where they cancel.
struct Approximate {
  double value, magnitude = 0;
  Approximate(double exact) : value(exact) {}
  Approximate(double near, double terms) : value(near), magnitude(terms) {}
};

// Room for magnitudes of output `i`.
std::vector<double>& magnitudes(Job& job, size_t i);

namespace detail {

// The flat index in each operand of every element of output 0.
std::vector<std::vector<uint64_t>> operand_places(const Job& job);

template <class T>
T element(const Tensor& tensor, uint64_t i) noexcept {
  if constexpr (std::is_same_v<T, double>)
    return tensor.at[i].real;
  else
    return static_cast<T>(tensor.at[i].whole);
}

// f of the operands' elements, however many it takes; the trial first where `before` is one.
template <class T, class F, class... Before>
auto apply(const F& f, const Job& job, const std::vector<std::vector<uint64_t>>& at, uint64_t i,
           const Before&... before) {
  const auto x = [&](size_t n) { return element<T>(job.in[n], at[n][i]); };
  if constexpr (std::is_invocable_v<F, Before..., T>)
    return f(before..., x(0));
  else if constexpr (std::is_invocable_v<F, Before..., T, T>)
    return f(before..., x(0), x(1));
  else
    return f(before..., x(0), x(1), x(2));
}

template <class F, class... Before>
void map_reals(Job& job, const F& f, const Before&... before) {
  const auto at = operand_places(job);
  std::vector<double>& magnitude = magnitudes(job, 0);
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i) {
    const Approximate made = apply<double>(f, job, at, i, before...);
    out.at[i].real = made.value;
    magnitude[i] = made.magnitude;
  }
}

template <class T, class F>
void map_wholes(Job& job, const F& f) {
  const auto at = operand_places(job);
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i)
    out.at[i].whole = wrapped(out.dtype, static_cast<uint64_t>(apply<T>(f, job, at, i)));
}

}  // namespace detail

// Elementwise on floats alone.
template <auto real>
void floats(Job& job) {
  detail::map_reals(job, real);
}
// The same with attributes: the trial comes first.
template <auto real>
void with_attributes(Job& job) {
  detail::map_reals(job, real, job.trial);
}
// Elementwise on floats, and on integers as int64_t or uint64_t.
template <auto real, auto whole>
void numbers(Job& job) {
  const uint32_t dtype = job.in[0].dtype;
  if (author::is_float(dtype)) return detail::map_reals(job, real);
  if (is_signed(dtype)) return detail::map_wholes<int64_t>(job, whole);
  detail::map_wholes<uint64_t>(job, whole);
}
// Any type in, bool out.
template <auto test>
void tests(Job& job) {
  const uint32_t dtype = job.in[0].dtype;
  if (author::is_float(dtype)) return detail::map_wholes<double>(job, test);
  if (is_signed(dtype)) return detail::map_wholes<int64_t>(job, test);
  detail::map_wholes<uint64_t>(job, test);
}

namespace reference {

// reference_move.cpp
void identity(Job& job);
void cast(Job& job);
void where(Job& job);
void transpose(Job& job);
void concat(Job& job);
void slice(Job& job);
void pad(Job& job);
void broadcast_to(Job& job);
void constant(Job& job);
void embedding(Job& job);
void embedding_grad(Job& job);
void one_hot(Job& job);
// reference_random.cpp
void dropout(Job& job);
void random_uniform(Job& job);
void random_normal(Job& job);
void advance(Job& job);
// reference_sum.cpp
void sum(Job& job);
void mean(Job& job);
void reduce_prod(Job& job);
void reduce_max(Job& job);
void reduce_min(Job& job);
void argmax(Job& job);
void matmul(Job& job);
// reference_softmax.cpp
void softmax(Job& job);
void softmax_grad(Job& job);
void log_softmax(Job& job);
void cross_entropy(Job& job);
void cross_entropy_grad(Job& job);
void prepare_cross_entropy_grad(Job& job);
// reference_attention.cpp
void attention(Job& job);
void attention_grad(Job& job);
void prepare_attention_grad(Job& job);
// reference_window.cpp
void conv2d(Job& job);
void conv2d_grad_data(Job& job);
void conv2d_grad_weight(Job& job);
void max_pool(Job& job);
void avg_pool(Job& job);
void max_pool_grad(Job& job);
void avg_pool_grad(Job& job);
void global_pool(Job& job);
// reference_norm.cpp
void batch_norm_train(Job& job);
void batch_norm_infer(Job& job);
void batch_norm_grad(Job& job);
void batch_norm_stats(Job& job);
void batch_norm_apply(Job& job);
void batch_norm_grad_stats(Job& job);
void batch_norm_grad_apply(Job& job);
void layer_norm(Job& job);
void layer_norm_grad(Job& job);
void rms_norm(Job& job);
void rms_norm_grad(Job& job);
void prepare_batch_norm_grad(Job& job);
void prepare_layer_norm_grad(Job& job);
void prepare_rms_norm_grad(Job& job);
// reference_update.cpp
void sgd(Job& job);
void momentum(Job& job);
void adam(Job& job);
void adamw(Job& job);
void check_finite_and_unscale(Job& job);
void update_loss_scaling(Job& job);

}  // namespace reference
}  // namespace tenon::conform
