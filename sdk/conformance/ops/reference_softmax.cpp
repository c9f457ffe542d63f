// SPDX-License-Identifier: Apache-2.0
// reference_softmax.cpp: softmax and the loss made of it.
#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <limits>

namespace tenon::conform::reference {

namespace {

// The rows along attribute `axis`: element k of row r is at first[r] + k · step.
struct Rows {
  std::vector<uint64_t> first;
  uint64_t length, step;
};

Rows rows_of(const Job& job) {
  const std::vector<int64_t>& dims = job.dims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t given = job.trial.integer("axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  const std::vector<int64_t> strides = dense_strides(dims);
  std::vector<int64_t> others = dims;
  others[axis] = 1;
  return {places(others, strides), static_cast<uint64_t>(dims[axis]), static_cast<uint64_t>(strides[axis])};
}

// log Σe^x of n numbers, without overflow; -∞ where all are, ∞ where one is. `sum` is Σe^(x - largest).
struct LogSum {
  double largest = -std::numeric_limits<double>::infinity(), value = largest, magnitude = 0, sum = 1;
};
template <class At>
LogSum log_sum(uint64_t n, const At& at) {
  LogSum out;
  for (uint64_t k = 0; k < n; ++k) out.largest = std::max(out.largest, at(k));
  if (std::isinf(out.largest)) {
    out.value = out.largest;
    return out;
  }
  Sum sum;
  for (uint64_t k = 0; k < n; ++k) sum.add(std::exp(at(k) - out.largest));
  out.sum = sum.value();
  out.value = out.largest + std::log(out.sum);
  out.magnitude = std::fabs(out.largest) + std::fabs(std::log(out.sum)) + 1;
  return out;
}

}  // namespace

void softmax(Job& job) {
  const Rows rows = rows_of(job);
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (const uint64_t first : rows.first) {
    const LogSum total = log_sum(rows.length, [&](uint64_t k) { return job.real(0, first + k * rows.step); });
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = first + k * rows.step;
      // Not e^(x - value): a rounding of a value far from 0 would be many of y.
      const double x = job.real(0, i), y = std::exp(x - total.largest) / total.sum;
      job.out[0].tensor.at[i].real = y;
      magnitude[i] = y * (std::isinf(x) ? 1 : 1 + std::fabs(x - total.largest));
    }
  }
  job.out[0].length = static_cast<double>(rows.length);
}

void log_softmax(Job& job) {
  const Rows rows = rows_of(job);
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (const uint64_t first : rows.first) {
    const LogSum total = log_sum(rows.length, [&](uint64_t k) { return job.real(0, first + k * rows.step); });
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = first + k * rows.step;
      const double x = job.real(0, i);
      job.out[0].tensor.at[i].real = x - total.value;
      magnitude[i] = std::isinf(x) ? 0 : std::fabs(x) + total.magnitude;
    }
  }
  job.out[0].length = static_cast<double>(rows.length);
}

void softmax_grad(Job& job) {
  const Rows rows = rows_of(job);
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (const uint64_t first : rows.first) {
    Sum inner;
    for (uint64_t k = 0; k < rows.length; ++k)
      inner.add_product(job.real(0, first + k * rows.step), job.real(1, first + k * rows.step));
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = first + k * rows.step;
      const double dy = job.real(0, i), y = job.real(1, i);
      job.out[0].tensor.at[i].real = y * (dy - inner.value());
      magnitude[i] = std::fabs(y) * (std::fabs(dy) + inner.magnitude());
    }
  }
  job.out[0].length = static_cast<double>(rows.length);
}

void cross_entropy(Job& job) {
  const auto rows = static_cast<uint64_t>(job.dims(0)[0]), classes = static_cast<uint64_t>(job.dims(0)[1]);
  std::vector<double>&loss = magnitudes(job, 0), &log = magnitudes(job, 1);
  for (uint64_t row = 0; row < rows; ++row) {
    const LogSum total = log_sum(classes, [&](uint64_t k) { return job.real(0, row * classes + k); });
    const int64_t label = job.in[1].at[row].integer();
    const bool ignored = label == job.trial.integer("ignore_index");
    const double score = job.real(0, row * classes + static_cast<uint64_t>(label));
    job.out[0].tensor.at[row].real = ignored ? 0 : total.value - score;
    job.out[1].tensor.at[row].real = total.value;
    loss[row] = ignored ? 0 : total.magnitude + std::fabs(score);
    log[row] = total.magnitude;
  }
  job.out[0].length = job.out[1].length = static_cast<double>(classes);
}

void prepare_cross_entropy_grad(Job& job) {
  const auto classes = static_cast<uint64_t>(job.dims(0)[1]);
  for (uint64_t row = 0; row < job.in[2].at.size(); ++row) {
    job.in[2].at[row].real =
        log_sum(classes, [&](uint64_t k) { return job.real(0, row * classes + k); }).value;
  }
}

void cross_entropy_grad(Job& job) {
  const auto classes = static_cast<uint64_t>(job.dims(0)[1]);
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (uint64_t i = 0; i < job.out[0].tensor.at.size(); ++i) {
    const uint64_t row = i / classes;
    const int64_t label = job.in[1].at[row].integer();
    const double log = job.real(2, row), x = job.real(0, i), share = std::exp(x - log),
                 hit = static_cast<uint64_t>(label) == i % classes ? 1 : 0, dloss = job.real(3, row);
    const bool ignored = label == job.trial.integer("ignore_index");
    job.out[0].tensor.at[i].real = ignored ? 0 : dloss * (share - hit);
    magnitude[i] = ignored ? 0 : std::fabs(dloss) * (share * (1 + std::fabs(x) + std::fabs(log)) + hit);
  }
  job.out[0].length = static_cast<double>(classes);
}

}  // namespace tenon::conform::reference
