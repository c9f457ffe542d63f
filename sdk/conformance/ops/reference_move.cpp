// SPDX-License-Identifier: Apache-2.0
// reference_move.cpp: ops that carry elements about, change their type, or look them up.
#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <limits>

namespace tenon::conform::reference {

namespace {

// Fills output 0 with the elements of input `from` that `at` names.
void gather(Job& job, size_t from, const std::vector<uint64_t>& at) {
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i) out.at[i] = job.in[from].at[at[i]];
}

Scalar number(uint32_t dtype, double value) {
  return author::is_float(dtype)
             ? Scalar::of(rounded(format_of(dtype), value))
             : Scalar::of_whole(wrapped(dtype, static_cast<uint64_t>(static_cast<int64_t>(value))));
}

// Toward zero, cut to what the type holds; a NaN is 0.
uint64_t saturated(uint32_t dtype, double value) {
  if (std::isnan(value)) return 0;
  const int bits = static_cast<int>(author::dtype_bits(dtype)) - (is_signed(dtype) ? 1 : 0);
  const double past = std::ldexp(1.0, bits), whole = std::trunc(value);
  const uint64_t highest = std::numeric_limits<uint64_t>::max() >> (64 - bits);
  if (whole >= past) return highest;
  if (!is_signed(dtype)) return whole <= 0 ? 0 : static_cast<uint64_t>(whole);
  return whole < -past ? ~highest : static_cast<uint64_t>(static_cast<int64_t>(whole));
}

double real_of(uint32_t from, const Scalar& x, uint32_t to) {
  if (author::is_float(from)) return x.real;
  const bool negative = is_signed(from) && x.integer() < 0;
  const uint64_t magnitude = negative ? -x.whole : x.whole;
  const double size = to == TN_DTYPE_f64 ? static_cast<double>(magnitude) : to_odd(magnitude);
  return negative ? -size : size;
}

// Offset in elements of an index list against strides, one dim at a time.
std::vector<uint64_t> shifted(std::vector<uint64_t> at, uint64_t by) {
  for (uint64_t& one : at) one += by;
  return at;
}

}  // namespace

void identity(Job& job) {
  for (uint64_t i = 0; i < job.out[0].tensor.at.size(); ++i) job.out[0].tensor.at[i] = job.in[0].at[i];
}

void cast(Job& job) {
  const Tensor& in = job.in[0];
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i) {
    const Scalar& x = in.at[i];
    if (author::is_float(out.dtype)) {
      out.at[i].real = real_of(in.dtype, x, out.dtype);
    } else if (out.dtype == TN_DTYPE_bool) {
      out.at[i].whole = author::is_float(in.dtype) ? x.real != 0 : x.whole != 0;
    } else {
      out.at[i].whole =
          author::is_float(in.dtype) ? saturated(out.dtype, x.real) : wrapped(out.dtype, x.whole);
    }
  }
}

void where(Job& job) {
  const auto at = detail::operand_places(job);
  Tensor& out = job.out[0].tensor;
  for (uint64_t i = 0; i < out.at.size(); ++i) {
    const size_t chosen = job.in[0].at[at[0][i]].whole != 0 ? 1 : 2;
    out.at[i] = job.in[chosen].at[at[chosen][i]];
  }
}

void transpose(Job& job) {
  const std::vector<int64_t> strides = dense_strides(job.dims(0));
  std::vector<int64_t> turned;
  for (const int64_t from : job.trial.integers("order")) turned.push_back(strides[static_cast<size_t>(from)]);
  gather(job, 0, places(job.out[0].tensor.dims, turned));
}

void concat(Job& job) {
  Tensor& out = job.out[0].tensor;
  const std::vector<int64_t> strides = dense_strides(out.dims);
  const auto axis = static_cast<size_t>(job.trial.integer("axis"));
  int64_t begin = 0;
  for (const Tensor& part : job.in) {
    const std::vector<uint64_t> to =
        shifted(places(part.dims, strides), static_cast<uint64_t>(begin * strides[axis]));
    for (uint64_t i = 0; i < to.size(); ++i) out.at[to[i]] = part.at[i];
    begin += part.dims[axis];
  }
}

void slice(Job& job) {
  std::vector<int64_t> strides = dense_strides(job.dims(0));
  uint64_t begin = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    begin += static_cast<uint64_t>(job.trial.integers("begin")[i] * strides[i]);
    strides[i] *= job.trial.integers("step")[i];
  }
  gather(job, 0, shifted(places(job.out[0].tensor.dims, strides), begin));
}

void pad(Job& job) {
  Tensor& out = job.out[0].tensor;
  const std::vector<int64_t> strides = dense_strides(out.dims);
  uint64_t begin = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    begin += static_cast<uint64_t>(job.trial.integers("before")[i] * strides[i]);
  std::fill(out.at.begin(), out.at.end(), number(out.dtype, job.trial.real("value")));
  const std::vector<uint64_t> to = shifted(places(job.dims(0), strides), begin);
  for (uint64_t i = 0; i < to.size(); ++i) out.at[to[i]] = job.in[0].at[i];
}

void broadcast_to(Job& job) { gather(job, 0, detail::operand_places(job)[0]); }

void constant(Job& job) {
  Tensor& out = job.out[0].tensor;
  std::fill(out.at.begin(), out.at.end(), number(out.dtype, job.trial.real("value")));
}

void embedding(Job& job) {
  Tensor& out = job.out[0].tensor;
  const auto width = static_cast<uint64_t>(job.dims(1)[1]);
  for (uint64_t i = 0; i < out.at.size(); ++i)
    out.at[i] = job.in[1].at[job.in[0].at[i / width].whole * width + i % width];
}

void embedding_grad(Job& job) {
  Tensor& out = job.out[0].tensor;
  const auto width = static_cast<uint64_t>(out.dims[1]);
  std::vector<Sum> sums(out.at.size());
  for (uint64_t i = 0; i < job.in[1].at.size(); ++i)
    sums[job.in[0].at[i / width].whole * width + i % width].add(job.real(1, i));
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (uint64_t i = 0; i < sums.size(); ++i) {
    out.at[i].real = sums[i].value();
    magnitude[i] = sums[i].magnitude();
  }
  job.out[0].length = static_cast<double>(job.in[0].at.size());
}

void one_hot(Job& job) {
  Tensor& out = job.out[0].tensor;
  const auto classes = static_cast<uint64_t>(job.trial.integer("classes"));
  for (uint64_t i = 0; i < out.at.size(); ++i)
    out.at[i] = number(out.dtype, job.in[0].at[i / classes].whole == i % classes ? 1 : 0);
}

}  // namespace tenon::conform::reference
