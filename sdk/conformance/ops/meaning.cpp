// SPDX-License-Identifier: Apache-2.0
// meaning.cpp: one line for each op: its reference, its error model, the numbers it is asked about.
#include "conformance/ops/meaning.hpp"

#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <array>
#include <numbers>

namespace tenon::conform {

namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

constexpr uint64_t bits(auto x) { return static_cast<uint64_t>(x); }
double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double greater(double x, double y) { return x > y || std::isnan(x) ? x : y; }
double lesser(double x, double y) { return x < y || std::isnan(x) ? x : y; }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
constexpr int sign_whole(auto x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }
constexpr auto greater_whole = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto lesser_whole = [](auto x, auto y) { return x < y ? x : y; };

constexpr double gelu_linear = 0.79788456080286535588, gelu_cubic = 0.044715;  // √(2/π)
double gelu_turn(double x) { return 2 * gelu_linear * (x + gelu_cubic * x * x * x); }

// ½(1 + erf) and ½(1 + tanh) cancel on the left: an error of the size of x is a rounding there.
Approximate gelu(const Trial& trial, double x) {
  const double gate = trial.integer("tanh") != 0 ? logistic(gelu_turn(x)) : 0.5 * std::erfc(-x / sqrt2);
  return {x * gate, std::fabs(x)};
}
Approximate gelu_grad(const Trial& trial, double dy, double x) {
  if (trial.integer("tanh") != 0) {
    const double turn = gelu_turn(x), gate = logistic(turn), rest = gate * logistic(-turn);
    // Far out nothing is left, and the slope may be infinite.
    if (rest == 0) return {dy * gate, std::fabs(dy)};
    const double bend = x * rest * 2 * gelu_linear * (1 + 3 * gelu_cubic * x * x);
    return {dy * (gate + bend), std::fabs(dy) * (1 + std::fabs(bend) * (1 + std::fabs(turn)))};
  }
  const double bend = x * 0.5 * sqrt2 * inv_sqrtpi * std::exp(-0.5 * x * x);
  return {dy * (0.5 * std::erfc(-x / sqrt2) + bend), std::fabs(dy) * (1 + std::fabs(bend) * (1 + x * x))};
}
Approximate silu_grad(double dy, double x) {
  const double gate = logistic(x), bend = x * logistic(-x);
  return {dy * gate * (1 + bend), std::fabs(dy) * gate * (1 + std::fabs(bend))};
}

template <class T>
T quotient(T x, T y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(-bits(x));  // the least one wraps to itself
  }
  return x / y;
}
template <class T>
T remainder(T x, T y) {
  return y == 0 ? 0 : static_cast<T>(bits(x) - bits(quotient(x, y)) * bits(y));
}

constexpr ErrorModel zeros{.either_zero = true};
constexpr ErrorModel chooses{.chooses = true};
constexpr ErrorModel roundings(double count) { return {.roundings = count}; }
constexpr ErrorModel ulps(double count) { return {.ulps = count}; }

using namespace reference;

// One op a line reads as a table.
// clang-format off
constexpr Meaning meanings[] = {
    {TN_OP_neg,         numbers<[](double x) { return -x; }, [](auto x) { return -bits(x); }>},
    {TN_OP_abs,         numbers<[](double x) { return std::fabs(x); }, [](auto x) { return x < 0 ? -bits(x) : bits(x); }>},
    {TN_OP_exp,         floats<[](double x) { return std::exp(x); }>},
    {TN_OP_log,         floats<[](double x) { return std::log(x); }>},
    {TN_OP_sqrt,        floats<[](double x) { return std::sqrt(x); }>},
    {TN_OP_rsqrt,       floats<[](double x) { return 1 / std::sqrt(x); }>},
    {TN_OP_square,      numbers<[](double x) { return x * x; }, [](auto x) { return bits(x) * bits(x); }>},
    {TN_OP_reciprocal,  floats<[](double x) { return 1 / x; }>},
    {TN_OP_sigmoid,     floats<[](double x) { return logistic(x); }>},
    {TN_OP_tanh,        floats<[](double x) { return std::tanh(x); }>},
    {TN_OP_relu,        numbers<[](double x) { return x < 0 ? 0 : x; }, [](auto x) { return x < 1 ? 0 : x; }>, zeros},
    {TN_OP_gelu,        with_attributes<gelu>, {}, Values::finite},
    {TN_OP_silu,        floats<[](double x) { return x * logistic(x); }>, {}, Values::finite},
    {TN_OP_floor,       floats<[](double x) { return std::floor(x); }>},
    {TN_OP_sign,        numbers<sign, [](auto x) { return sign_whole(x); }>, zeros},
    {TN_OP_erf,         floats<[](double x) { return std::erf(x); }>},
    {TN_OP_sin,         floats<[](double x) { return std::sin(x); }>, {}, Values::moderate},
    {TN_OP_cos,         floats<[](double x) { return std::cos(x); }>, {}, Values::moderate},
    {TN_OP_is_finite,   tests<[](auto x) { return std::isfinite(static_cast<double>(x)); }>},
    {TN_OP_logical_not, tests<[](auto x) { return x == 0; }>},
    {TN_OP_cast,        cast},
    {TN_OP_scale,       with_attributes<[](const Trial& t, double x) { const double s = t.real("scale"), b = t.real("bias"); return Approximate(std::fma(x, s, b), std::fabs(x * s) + std::fabs(b)); }>},
    {TN_OP_identity,    identity},

    {TN_OP_add,           numbers<[](double x, double y) { return x + y; }, [](auto x, auto y) { return bits(x) + bits(y); }>},
    {TN_OP_sub,           numbers<[](double x, double y) { return x - y; }, [](auto x, auto y) { return bits(x) - bits(y); }>},
    {TN_OP_mul,           numbers<[](double x, double y) { return x * y; }, [](auto x, auto y) { return bits(x) * bits(y); }>},
    {TN_OP_div,           numbers<[](double x, double y) { return x / y; }, [](auto x, auto y) { return quotient(x, y); }>},
    {TN_OP_max,           numbers<greater, greater_whole>, zeros},
    {TN_OP_min,           numbers<lesser, lesser_whole>, zeros},
    {TN_OP_pow,           floats<[](double x, double y) { return std::pow(x, y); }>, ulps(8)},
    {TN_OP_mod,           numbers<[](double x, double y) { return std::fmod(x, y); }, [](auto x, auto y) { return remainder(x, y); }>, {.either_zero = true, .chooses = true}},
    {TN_OP_equal,         tests<[](auto x, auto y) { return x == y; }>},
    {TN_OP_not_equal,     tests<[](auto x, auto y) { return x != y; }>},
    {TN_OP_less,          tests<[](auto x, auto y) { return x < y; }>},
    {TN_OP_less_equal,    tests<[](auto x, auto y) { return x <= y; }>},
    {TN_OP_greater,       tests<[](auto x, auto y) { return y < x; }>},
    {TN_OP_greater_equal, tests<[](auto x, auto y) { return y <= x; }>},
    {TN_OP_logical_and,   tests<[](auto x, auto y) { return x != 0 && y != 0; }>},
    {TN_OP_logical_or,    tests<[](auto x, auto y) { return x != 0 || y != 0; }>},
    {TN_OP_relu_grad,     floats<[](double dy, double y) { return 0 < y ? dy : 0; }>, zeros},
    {TN_OP_gelu_grad,     with_attributes<gelu_grad>, {}, Values::finite},
    {TN_OP_silu_grad,     floats<silu_grad>, {}, Values::finite},
    {TN_OP_sigmoid_grad,  floats<[](double dy, double y) { return Approximate(dy * (y * (1 - y)), std::fabs(dy * y) * (1 + std::fabs(y))); }>, {}, Values::finite},
    {TN_OP_tanh_grad,     floats<[](double dy, double y) { return Approximate(dy * (1 - y * y), std::fabs(dy) * (1 + y * y)); }>, {}, Values::finite},
    {TN_OP_where,         where},
    {TN_OP_clip,          numbers<[](double x, double lo, double hi) { return lesser(greater(x, lo), hi); }, [](auto x, auto lo, auto hi) { return lesser_whole(greater_whole(x, lo), hi); }>, zeros},
    {TN_OP_fma,           floats<[](double a, double b, double c) { return Approximate(std::fma(a, b, c), std::fabs(a * b)); }>},

    {TN_OP_sum,         sum,         {},    Values::moderate},
    {TN_OP_mean,        mean,        {},    Values::moderate},
    {TN_OP_reduce_max,  reduce_max,  zeros},
    {TN_OP_reduce_min,  reduce_min,  zeros},
    {TN_OP_reduce_prod, reduce_prod, {},    Values::near_one},
    {TN_OP_argmax,      argmax,      chooses},

    {TN_OP_matmul,             matmul},
    {TN_OP_conv2d,             conv2d},
    {TN_OP_conv2d_grad_data,   conv2d_grad_data},
    {TN_OP_conv2d_grad_weight, conv2d_grad_weight},
    {TN_OP_max_pool,           max_pool,      zeros},
    {TN_OP_avg_pool,           avg_pool,      {},    Values::moderate},
    {TN_OP_max_pool_grad,      max_pool_grad, chooses, Values::tame},
    {TN_OP_avg_pool_grad,      avg_pool_grad, {},    Values::tame},
    {TN_OP_global_pool,        global_pool,   {},    Values::moderate},

    {TN_OP_batch_norm_train,      batch_norm_train,      {}, Values::tame, "full channel channel channel channel+ -> full channel channel channel channel"},
    {TN_OP_batch_norm_infer,      batch_norm_infer,      {}, Values::tame, "full channel channel channel channel+ -> full"},
    {TN_OP_batch_norm_grad,       batch_norm_grad,       {}, Values::tame, "full full channel channel* channel* -> full channel channel", prepare_batch_norm_grad},
    {TN_OP_batch_norm_stats,      batch_norm_stats,      {}, Values::tame, "full -> channel32 channel32"},
    {TN_OP_batch_norm_apply,      batch_norm_apply,      {}, Values::tame, "full channel channel channel channel+ -> full"},
    {TN_OP_batch_norm_grad_stats, batch_norm_grad_stats, {}, Values::tame, "full full channel channel+ -> channel32 channel32"},
    {TN_OP_batch_norm_grad_apply, batch_norm_grad_apply, {}, Values::tame, "full full channel channel channel+ channel32 channel32 count -> full"},
    {TN_OP_layer_norm,            layer_norm,            {}, Values::tame, "full param param -> full row row"},
    {TN_OP_layer_norm_grad,       layer_norm_grad,       {}, Values::tame, "full full param row* row* -> full param param", prepare_layer_norm_grad},
    {TN_OP_rms_norm,              rms_norm,              {}, Values::tame, "full param -> full row"},
    {TN_OP_rms_norm_grad,         rms_norm_grad,         {}, Values::tame, "full full param row* -> full param", prepare_rms_norm_grad},

    {TN_OP_softmax,            softmax,            {}, Values::mask},
    {TN_OP_softmax_grad,       softmax_grad,       {}, Values::tame},
    {TN_OP_log_softmax,        log_softmax,        {}, Values::mask},
    {TN_OP_cross_entropy,      cross_entropy},
    {TN_OP_cross_entropy_grad, cross_entropy_grad, {}, Values::tame, "", prepare_cross_entropy_grad},
    {TN_OP_attention,          attention,          {.in_type = true}},
    {TN_OP_attention_grad,     attention_grad,     {.in_type = true}, Values::tame, "", prepare_attention_grad},

    {TN_OP_embedding,      embedding},
    {TN_OP_embedding_grad, embedding_grad, {}, Values::tame},
    {TN_OP_one_hot,        one_hot},
    {TN_OP_dropout,        dropout,        roundings(2), Values::tame},
    {TN_OP_random_uniform, random_uniform},
    {TN_OP_random_normal,  random_normal,  ulps(16)},
    {TN_OP_advance,        advance},
    {TN_OP_reshape,        identity},
    {TN_OP_transpose,      transpose},
    {TN_OP_concat,         concat},
    {TN_OP_slice,          slice},
    {TN_OP_pad,            pad},
    {TN_OP_broadcast_to,   broadcast_to},
    {TN_OP_constant,       constant},
    {TN_OP_convert_layout, identity},

    {TN_OP_sgd,      sgd,      roundings(5), Values::tame, "full full rate master? flag? rate? -> full master? full"},
    {TN_OP_momentum, momentum, roundings(8), Values::tame, "full full state rate master? flag? rate? -> full state master?"},
    {TN_OP_adam,     adam,     ulps(16),     Values::tame, "full full state state+ rate count master? flag? rate? -> full state state master?"},
    {TN_OP_adamw,    adamw,    ulps(16),     Values::tame, "full full state state+ rate count master? flag? rate? -> full state state master?"},
    {TN_OP_check_finite_and_unscale, check_finite_and_unscale, roundings(2)},
    {TN_OP_update_loss_scaling,      update_loss_scaling,      {}, Values::tame, "flag scale count count -> rate rate rate"},
};
// clang-format on

constexpr bool has_one_meaning(const Row& row) {
  int found = 0;
  for (const Meaning& known : meanings) found += known.op == row.op ? 1 : 0;
  return found == (is_single(row) ? 1 : 0);
}
static_assert(std::all_of(std::begin(op_rows), std::end(op_rows), has_one_meaning),
              "an op of ops.def has no line in the table above, or several");

}  // namespace

const Meaning& meaning_of(const Row& row) noexcept {
  static const auto by_row = [] {
    std::array<const Meaning*, std::size(op_rows)> out{};
    for (const Meaning& known : meanings) out[static_cast<size_t>(find_row(known.op) - op_rows)] = &known;
    return out;
  }();
  return *by_row[static_cast<size_t>(&row - op_rows)];
}

std::vector<double>& magnitudes(Job& job, size_t i) {
  job.out[i].magnitude.assign(job.out[i].tensor.at.size(), 0);
  return job.out[i].magnitude;
}

Job empty_job(const Trial& trial) {
  Job job{.trial = trial};
  for (const Operand& operand : trial.outputs) {
    Wanted& wanted = job.out.emplace_back();
    if (operand.absent) continue;
    wanted.tensor = {.dtype = operand.dtype, .dims = operand.dims, .at = {}};
    wanted.tensor.at.resize(element_count(operand.dims));
  }
  return job;
}

Job solve(const Trial& trial) {
  Job job = empty_job(trial);
  const Meaning& meaning = meaning_of(*trial.row);
  for (size_t i = 0; i < trial.inputs.size(); ++i) {
    const Operand& operand = trial.inputs[i];
    const uint64_t seed = mix(trial.value_seed + (operand.repeats_first ? 0 : i));
    job.in.push_back(operand.absent ? Tensor{} : values_of(operand, seed, trial.specials));
  }
  if (meaning.prepare != nullptr) meaning.prepare(job);
  for (Tensor& tensor : job.in) {
    if (!author::is_float(tensor.dtype)) continue;
    for (Scalar& one : tensor.at) one.real = rounded(format_of(tensor.dtype), one.real);
  }
  meaning.compute(job);
  return job;
}

void Sum::add(double term) noexcept {
  const double next = plain_ + term;
  rest_ += std::fabs(plain_) >= std::fabs(term) ? (plain_ - next) + term : (term - next) + plain_;
  plain_ = next;
  magnitude_ += std::fabs(term);
}

void Sum::add_product(double a, double b) noexcept {
  const double product = a * b;
  add(product);
  rest_ += std::fma(a, b, -product);
}

namespace detail {

std::vector<std::vector<uint64_t>> operand_places(const Job& job) {
  std::vector<std::vector<uint64_t>> out;
  for (const Tensor& tensor : job.in) out.push_back(broadcast_places(tensor.dims, job.out[0].tensor.dims));
  return out;
}

}  // namespace detail

}  // namespace tenon::conform
