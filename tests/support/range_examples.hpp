// SPDX-License-Identifier: Apache-2.0
// range_examples.hpp: for each row of ranges.def a value that is let pass, one that is not, and the words for it.
//
// The graph and the author framework are asked the same. Invariant: every row of ranges.def has an example, by hand.
#pragma once

#include <tenon/fragment.h>

#include <limits>
#include <string>

namespace tenon::test {

struct RangeExample {
  uint32_t op;
  const char* attribute;
  double passes, refused;
  const char* told;
};

namespace range_numbers {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
constexpr const char* flag = "2, it must be 0 to 1";
constexpr const char* some = "-1, it must be 0 or more";
constexpr const char* rank = "-1, it must be 0 to 2147483647";
constexpr const char* beta = "1, it must be 0 or more, and less than 1 in f32";
}  // namespace range_numbers

// clang-format off
inline const RangeExample range_examples[] = {
  {TN_OP_gelu,          "tanh",        1, 2, range_numbers::flag},
  {TN_OP_gelu_grad,     "tanh",        0, 2, range_numbers::flag},
  {TN_OP_sum,           "keepdims",    1, 2, range_numbers::flag},
  {TN_OP_mean,          "keepdims",    1, 2, range_numbers::flag},
  {TN_OP_reduce_max,    "keepdims",    1, -1, "-1, it must be 0 to 1"},
  {TN_OP_reduce_min,    "keepdims",    1, 2, range_numbers::flag},
  {TN_OP_reduce_prod,   "keepdims",    1, 2, range_numbers::flag},
  {TN_OP_argmax,        "keepdims",    1, 2, range_numbers::flag},
  {TN_OP_matmul,        "transpose_a", 1, 2, range_numbers::flag},
  {TN_OP_matmul,        "transpose_b", 1, 2, range_numbers::flag},
  {TN_OP_avg_pool,      "count_pad",   1, 2, range_numbers::flag},
  {TN_OP_avg_pool_grad, "count_pad",   1, 2, range_numbers::flag},
  {TN_OP_batch_norm_train, "epsilon",  0, -1, range_numbers::some},
  {TN_OP_batch_norm_train, "momentum", 0, 2, "2, it must be 0 to 1"},
  {TN_OP_batch_norm_train, "momentum", 1, -0.5, "-0.5, it must be 0 to 1"},
  {TN_OP_batch_norm_infer, "epsilon",  0, range_numbers::nan, "nan, it must be 0 or more"},
  {TN_OP_layer_norm,    "epsilon",     0, -1, range_numbers::some},
  {TN_OP_rms_norm,      "epsilon",     1e-6, range_numbers::infinity, "inf, it must be 0 or more"},
  {TN_OP_attention,     "causal",      1, 2, range_numbers::flag},
  {TN_OP_attention,     "scale",       -range_numbers::largest, range_numbers::nan, "nan, it must be a finite number"},
  {TN_OP_attention_grad, "causal",     1, 2, range_numbers::flag},
  {TN_OP_attention_grad, "scale",      0, -range_numbers::infinity, "-inf, it must be a finite number"},
  {TN_OP_dropout,       "rate",        0, 2, "2, it must be 0 to 1"},
  {TN_OP_dropout,       "rate",        1, range_numbers::nan, "nan, it must be 0 to 1"},
  {TN_OP_sgd,           "weight_decay", 0, -1, range_numbers::some},
  {TN_OP_momentum,      "momentum",    1, 1.5, "1.5, it must be 0 to 1"},
  {TN_OP_momentum,      "nesterov",    1, 2, range_numbers::flag},
  {TN_OP_momentum,      "weight_decay", 0.1, -1, range_numbers::some},
  {TN_OP_adam,          "beta1",       0, 1, range_numbers::beta},
  {TN_OP_adam,          "beta1",       0.9999999, 0.99999999, "0.99999999, it must be 0 or more, and less than 1 in f32"},
  {TN_OP_adam,          "beta2",       0.999, 1, range_numbers::beta},
  {TN_OP_adam,          "epsilon",     0, -1, range_numbers::some},
  {TN_OP_adam,          "weight_decay", 0, -1, range_numbers::some},
  {TN_OP_adamw,         "beta1",       0.9, 1, range_numbers::beta},
  {TN_OP_adamw,         "beta2",       0.999, 1, range_numbers::beta},
  {TN_OP_adamw,         "epsilon",     0, -1, range_numbers::some},
  {TN_OP_adamw,         "weight_decay", 0, -1, range_numbers::some},
  {TN_OP_update_loss_scaling, "decr_every_n_nan_or_inf", 1, 0, "0, it must be 1 or more"},
  {TN_OP_update_loss_scaling, "decr_ratio", 1, 0, "0, it must be more than 0, and 1 at most"},
  {TN_OP_update_loss_scaling, "incr_every_n_steps", 1, 0, "0, it must be 1 or more"},
  {TN_OP_update_loss_scaling, "incr_ratio", 1, 0.5, "0.5, it must be 1 or more"},
  {TN_OP_all_reduce,     "comm", 0, -1, range_numbers::rank},
  {TN_OP_broadcast,      "comm", 0, -1, range_numbers::rank},
  {TN_OP_broadcast,      "root", 7, 2147483648.0, "2147483648, it must be 0 to 2147483647"},
  {TN_OP_reduce,         "comm", 0, -1, range_numbers::rank},
  {TN_OP_reduce,         "root", 0, -1, range_numbers::rank},
  {TN_OP_all_gather,     "comm", 0, -1, range_numbers::rank},
  {TN_OP_reduce_scatter, "comm", 0, -1, range_numbers::rank},
  {TN_OP_all_to_all,     "comm", 0, -1, range_numbers::rank},
  {TN_OP_send,           "comm", 0, -1, range_numbers::rank},
  {TN_OP_send,           "peer", 1, -1, range_numbers::rank},
  {TN_OP_recv,           "comm", 0, -1, range_numbers::rank},
  {TN_OP_recv,           "peer", 1, -1, range_numbers::rank},
};
// clang-format on

// Ops with an attribute `reduce`, and what it may be.
inline constexpr uint32_t reducing_ops[] = {TN_OP_all_reduce, TN_OP_reduce, TN_OP_reduce_scatter};
inline constexpr const char* reductions[] = {"sum", "prod", "min", "max", "avg"};

// A `value` of `constant` that its type holds or not.
struct ValueExample {
  uint32_t dtype;
  double value;
  bool held;
};
inline constexpr ValueExample value_examples[] = {
    {TN_DTYPE_u8, 255, true},
    {TN_DTYPE_u8, 300, false},
    {TN_DTYPE_u8, -1, false},
    {TN_DTYPE_i8, -128, true},
    {TN_DTYPE_i8, 128, false},
    {TN_DTYPE_i32, 1.5, false},
    {TN_DTYPE_i32, -2147483648.0, true},
    {TN_DTYPE_i64, 9223372036854775808.0, false},
    {TN_DTYPE_i64, -9223372036854775808.0, true},
    {TN_DTYPE_u64, 9223372036854775808.0, true},
    {TN_DTYPE_u64, range_numbers::nan, false},
    {TN_DTYPE_bool, 1, true},
    {TN_DTYPE_bool, 2, false},
    {TN_DTYPE_f16, 1e30, true},
    {TN_DTYPE_f32, 0.1, true},
    {TN_DTYPE_f64, -range_numbers::infinity, true},
    {TN_DTYPE_bf16, range_numbers::nan, true},
};

// The message of a refused example.
inline std::string told(const RangeExample& example) {
  return std::string("attribute '") + example.attribute + "' is " + example.told;
}

}  // namespace tenon::test
