// SPDX-License-Identifier: Apache-2.0
// reference_sum.cpp: reductions and the matrix product.
#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <limits>

namespace tenon::conform::reference {

namespace {

// Which element of the result each element of the input goes to, and how many go to each.
struct Folding {
  std::vector<uint64_t> to;
  uint64_t length = 1;
};

Folding folding(const Job& job) {
  const std::vector<int64_t>& axes = job.trial.integers("axes");
  const std::vector<int64_t>& dims = job.dims(0);
  std::vector<int64_t> strides(dims.size(), 0);
  Folding out;
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) {
      out.length *= static_cast<uint64_t>(dims[i]);
    } else {
      strides[i] = step;
      step *= dims[i];
    }
  }
  out.to = places(dims, strides);
  return out;
}

bool is_whole(const Job& job) { return !author::is_float(job.in[0].dtype); }

void fold_wholes(Job& job, uint64_t none, uint64_t (*fold)(uint64_t, uint64_t)) {
  const Folding folded = folding(job);
  Tensor& out = job.out[0].tensor;
  for (Scalar& one : out.at) one.whole = none;
  for (uint64_t i = 0; i < folded.to.size(); ++i) {
    uint64_t& total = out.at[folded.to[i]].whole;
    total = wrapped(out.dtype, fold(total, job.in[0].at[i].whole));
  }
}

void fold_sums(Job& job, bool average) {
  const Folding folded = folding(job);
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  for (uint64_t i = 0; i < folded.to.size(); ++i) sums[folded.to[i]].add(job.real(0, i));
  const double share = average ? static_cast<double>(folded.length) : 1;
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (size_t i = 0; i < sums.size(); ++i) {
    job.out[0].tensor.at[i].real = sums[i].value() / share;
    magnitude[i] = sums[i].magnitude() / share;
  }
  job.out[0].length = static_cast<double>(folded.length);
}

// Comes before the other in its order; a NaN before all.
bool beats(const Tensor& tensor, const Scalar& a, const Scalar& b, bool greatest) {
  if (author::is_float(tensor.dtype)) {
    if (std::isnan(b.real)) return false;
    return std::isnan(a.real) || (greatest ? a.real > b.real : a.real < b.real);
  }
  if (is_signed(tensor.dtype)) return greatest ? a.integer() > b.integer() : a.integer() < b.integer();
  return greatest ? a.whole > b.whole : a.whole < b.whole;
}

// What an extreme of nothing is: the last in its order.
Scalar last(uint32_t dtype, bool greatest) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (author::is_float(dtype)) return Scalar::of(greatest ? -infinity : infinity);
  const uint64_t top = uint64_t{1} << (author::dtype_bits(dtype) - 1);
  const uint64_t low = is_signed(dtype) ? top : 0, high = is_signed(dtype) ? top - 1 : ~uint64_t{0};
  return Scalar::of_whole(wrapped(dtype, greatest ? low : high));
}

void fold_extreme(Job& job, bool greatest) {
  const Folding folded = folding(job);
  Tensor& out = job.out[0].tensor;
  for (Scalar& one : out.at) one = last(out.dtype, greatest);
  for (uint64_t i = 0; i < folded.to.size(); ++i) {
    Scalar& best = out.at[folded.to[i]];
    if (beats(out, job.in[0].at[i], best, greatest)) best = job.in[0].at[i];
  }
}

}  // namespace

void sum(Job& job) {
  if (is_whole(job)) return fold_wholes(job, 0, [](uint64_t a, uint64_t b) { return a + b; });
  fold_sums(job, false);
}

void mean(Job& job) { fold_sums(job, true); }

void reduce_prod(Job& job) {
  if (is_whole(job)) return fold_wholes(job, 1, [](uint64_t a, uint64_t b) { return a * b; });
  const Folding folded = folding(job);
  Tensor& out = job.out[0].tensor;
  for (Scalar& one : out.at) one.real = 1;
  for (uint64_t i = 0; i < folded.to.size(); ++i) out.at[folded.to[i]].real *= job.real(0, i);
  job.out[0].length = static_cast<double>(folded.length);
}

void reduce_max(Job& job) { fold_extreme(job, true); }
void reduce_min(Job& job) { fold_extreme(job, false); }

void argmax(Job& job) {
  const Folding folded = folding(job);
  const auto axis = static_cast<size_t>(job.trial.integers("axes")[0]);
  const std::vector<int64_t>& dims = job.dims(0);
  const auto along = static_cast<uint64_t>(dims[axis]),
             step = static_cast<uint64_t>(dense_strides(dims)[axis]);
  std::vector<int64_t> best(job.out[0].tensor.at.size(), -1);  // the place of the winner in the input
  for (uint64_t i = 0; i < folded.to.size(); ++i) {
    int64_t& held = best[folded.to[i]];
    if (held < 0 || beats(job.in[0], job.in[0].at[i], job.in[0].at[static_cast<uint64_t>(held)], true)) {
      held = static_cast<int64_t>(i);
    }
  }
  for (size_t i = 0; i < best.size(); ++i)
    job.out[0].tensor.at[i].whole = static_cast<uint64_t>(best[i]) / step % along;
}

void matmul(Job& job) {
  const bool turn_a = job.trial.integer("transpose_a") != 0, turn_b = job.trial.integer("transpose_b") != 0;
  const auto batch = [](const std::vector<int64_t>& dims) {
    return std::vector<int64_t>(dims.begin(), dims.end() - 2);
  };
  const std::vector<int64_t>&a = job.dims(0), &b = job.dims(1), &c = job.out[0].tensor.dims;
  const auto rows = static_cast<uint64_t>(c[c.size() - 2]), columns = static_cast<uint64_t>(c.back());
  const auto depth = static_cast<uint64_t>(turn_a ? a[a.size() - 2] : a.back());
  const std::vector<uint64_t> from_a = broadcast_places(batch(a), batch(c)),
                              from_b = broadcast_places(batch(b), batch(c));
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (uint64_t i = 0; i < job.out[0].tensor.at.size(); ++i) {
    const uint64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
    const uint64_t at_a = from_a[matrix] * rows * depth, at_b = from_b[matrix] * depth * columns;
    Sum sum;
    for (uint64_t k = 0; k < depth; ++k) {
      sum.add_product(job.real(0, at_a + (turn_a ? k * rows + row : row * depth + k)),
                      job.real(1, at_b + (turn_b ? column * depth + k : k * columns + column)));
    }
    job.out[0].tensor.at[i].real = sum.value();
    magnitude[i] = sum.magnitude();
  }
  job.out[0].length = static_cast<double>(depth);
}

}  // namespace tenon::conform::reference
