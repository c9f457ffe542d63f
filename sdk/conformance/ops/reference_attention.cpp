// SPDX-License-Identifier: Apache-2.0
// reference_attention.cpp: attention by its definition, one query at a time.
#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <limits>

namespace tenon::conform::reference {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Operands of both directions: q, k, v stand from `q` on.
struct Heads {
  const Job& job;
  size_t q, mask;  // inputs; mask may be absent
  uint64_t heads, queries, keys, width;
  double scale;
  bool causal;

  Heads(const Job& asked, size_t first, size_t masked)
      : job(asked),
        q(first),
        mask(masked),
        heads(static_cast<uint64_t>(asked.dims(first)[0] * asked.dims(first)[1])),
        queries(static_cast<uint64_t>(asked.dims(first)[2])),
        keys(static_cast<uint64_t>(asked.dims(first + 1)[2])),
        width(static_cast<uint64_t>(asked.dims(first)[3])),
        scale(asked.trial.real("scale")),
        causal(asked.trial.integer("causal") != 0) {}

  uint64_t query(uint64_t head, uint64_t i) const { return (head * queries + i) * width; }
  uint64_t key(uint64_t head, uint64_t j) const { return (head * keys + j) * width; }
  // What the mask adds to a score; it broadcasts to [B,H,S,S'].
  double bias(uint64_t head, uint64_t i, uint64_t j) const {
    if (!job.has(mask)) return 0;
    const auto per_batch = static_cast<uint64_t>(job.dims(q)[1]);
    const uint64_t place[] = {head / per_batch, head % per_batch, i, j};
    const std::vector<int64_t>& dims = job.dims(mask);
    uint64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      at = at * static_cast<uint64_t>(dims[d]) + (dims[d] == 1 ? 0 : place[4 - dims.size() + d]);
    return job.real(mask, at);
  }
  // Σ a·b over the width, of two inputs.
  Sum dot(size_t a, uint64_t at_a, size_t b, uint64_t at_b) const {
    Sum out;
    for (uint64_t d = 0; d < width; ++d) out.add_product(job.real(a, at_a + d), job.real(b, at_b + d));
    return out;
  }
};

// One query against every key.
struct Scores {
  std::vector<double> score, share;
  double log = -infinity, size = 1;  // log Σe^score; how large the scores' terms were
};

Scores scores_of(const Heads& h, uint64_t head, uint64_t i) {
  Scores out{.score = std::vector<double>(h.keys, -infinity), .share = std::vector<double>(h.keys, 0)};
  double largest = -infinity;
  for (uint64_t j = 0; j < h.keys; ++j) {
    // The last query sees the last key.
    if (h.causal && j + h.queries > i + h.keys) continue;
    const Sum dot = h.dot(h.q, h.query(head, i), h.q + 1, h.key(head, j));
    const double bias = h.bias(head, i, j);
    out.score[j] = dot.value() * h.scale + bias;
    out.size = std::max(out.size, 1 + dot.magnitude() * h.scale + (std::isinf(bias) ? 0 : std::fabs(bias)));
    largest = std::max(largest, out.score[j]);
  }
  if (std::isinf(largest)) return out;
  Sum total;
  for (const double score : out.score) total.add(std::exp(score - largest));
  out.log = largest + std::log(total.value());
  for (uint64_t j = 0; j < h.keys; ++j) out.share[j] = std::exp(out.score[j] - largest) / total.value();
  return out;
}

void forward(const Heads& h, std::vector<Scalar>& y, std::vector<Scalar>& log, std::vector<double>* y_terms,
             std::vector<double>* log_terms) {
  for (uint64_t row = 0; row < h.heads * h.queries; ++row) {
    const uint64_t head = row / h.queries;
    const Scores scores = scores_of(h, head, row % h.queries);
    log[row].real = scores.log;
    if (log_terms != nullptr) (*log_terms)[row] = std::isinf(scores.log) ? 0 : scores.size;
    for (uint64_t d = 0; d < h.width; ++d) {
      Sum sum;
      for (uint64_t j = 0; j < h.keys; ++j)
        sum.add_product(scores.share[j], h.job.real(h.q + 2, h.key(head, j) + d));
      y[row * h.width + d].real = sum.value();
      if (y_terms != nullptr) (*y_terms)[row * h.width + d] = sum.magnitude() * scores.size;
    }
  }
}

// The gradient's outputs while they are summed.
struct Gradient {
  std::vector<Sum> value;
  double largest = 0;  // of all terms' sizes: what an error is compared with
};

}  // namespace

void attention(Job& job) {
  const Heads h(job, 0, 3);
  std::vector<double>&y = magnitudes(job, 0), &log = magnitudes(job, 1);
  forward(h, job.out[0].tensor.at, job.out[1].tensor.at, &y, &log);
  job.out[0].length = job.out[1].length = static_cast<double>(h.keys + h.width);
}

void prepare_attention_grad(Job& job) {
  const Heads h(job, 1, 6);
  forward(h, job.in[4].at, job.in[5].at, nullptr, nullptr);
}

void attention_grad(Job& job) {
  const Heads h(job, 1, 6);
  Gradient dq{.value = std::vector<Sum>(job.out[0].tensor.at.size())},
      dk{.value = std::vector<Sum>(job.out[1].tensor.at.size())},
      dv{.value = std::vector<Sum>(job.out[2].tensor.at.size())};
  for (uint64_t row = 0; row < h.heads * h.queries; ++row) {
    const uint64_t head = row / h.queries, at = row * h.width;
    const Scores scores = scores_of(h, head, row % h.queries);
    const Sum inner = h.dot(0, at, 4, at);  // Σ dy·y
    for (uint64_t j = 0; j < h.keys; ++j) {
      const double share = scores.share[j];
      const Sum dp = h.dot(0, at, 3, h.key(head, j));
      const double ds = h.scale * share * (dp.value() - inner.value());
      const double size = scores.size * (dp.magnitude() + inner.magnitude() + 1) * share;
      for (uint64_t d = 0; d < h.width; ++d) {
        const uint64_t key = h.key(head, j) + d;
        dq.value[at + d].add_product(ds, h.job.real(2, key));
        dk.value[key].add_product(ds, h.job.real(1, at + d));
        dv.value[key].add_product(share, h.job.real(0, at + d));
        dq.largest = std::max(dq.largest, size * 2);
        dk.largest = std::max(dk.largest, size * 2);
        dv.largest = std::max(dv.largest, scores.size * 2);
      }
    }
  }
  const Gradient* const all[] = {&dq, &dk, &dv};
  for (size_t n = 0; n < 3; ++n) {
    std::vector<double>& magnitude = magnitudes(job, n);
    for (size_t i = 0; i < magnitude.size(); ++i) {
      job.out[n].tensor.at[i].real = all[n]->value[i].value();
      magnitude[i] = all[n]->value[i].magnitude() + all[n]->largest;
    }
    job.out[n].length = static_cast<double>(h.keys + h.queries + h.width);
  }
}

}  // namespace tenon::conform::reference
