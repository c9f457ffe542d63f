// SPDX-License-Identifier: Apache-2.0
// attention.cpp: attention by its definition, one query against every key.
#include "node.hpp"

#include <cmath>
#include <limits>

namespace tenon::sim {

namespace {

// Operands of both directions: q, k, v stand from input `first` on; the additive mask may be absent.
struct Heads {
  const Operand &q, &k, &v;
  Operand mask{};
  uint64_t heads, queries, keys, width;
  double scale;
  bool causal;

  Heads(const Call& c, size_t first, size_t masked)
      : q(c.in[first]),
        k(c.in[first + 1]),
        v(c.in[first + 2]),
        heads(static_cast<uint64_t>(q.dim(0) * q.dim(1))),
        queries(static_cast<uint64_t>(q.dim(2))),
        keys(static_cast<uint64_t>(k.dim(2))),
        width(static_cast<uint64_t>(q.dim(3))),
        scale(c.node.real("scale")),
        causal(c.node.integer("causal") != 0) {
    if (c.has(masked)) mask = c.in[masked].spread({q.dim(0), q.dim(1), q.dim(2), k.dim(2)});
  }
  uint64_t query(uint64_t head, uint64_t i) const { return (head * queries + i) * width; }
  uint64_t key(uint64_t head, uint64_t j) const { return (head * keys + j) * width; }

  // What each key gets of one query, and log Σe^score; all nothing where every key is masked.
  double shares(uint64_t head, uint64_t i, std::vector<double>& out) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (uint64_t j = 0; j < keys; ++j) {
      out[j] = -std::numeric_limits<double>::infinity();
      if (causal && j + queries > i + keys) continue;  // the last query sees the last key
      Wide dot = 0;
      for (uint64_t d = 0; d < width; ++d) dot += q.real(query(head, i) + d) * k.real(key(head, j) + d);
      out[j] = static_cast<double>(dot) * scale + (mask ? mask.real((head * queries + i) * keys + j) : 0);
      largest = std::fmax(largest, out[j]);
    }
    for (uint64_t j = 0; j < keys && !std::isinf(largest); ++j) sum += std::exp(out[j] - largest);
    for (double& share : out) share = std::isinf(largest) ? 0 : std::exp(share - largest) / sum;
    return std::isinf(largest) ? largest : largest + std::log(sum);
  }
};

void forward(const Call& c) {
  const Heads h(c, 0, 3);
  std::vector<double> share(h.keys);
  for (uint64_t row = 0; row < h.heads * h.queries; ++row) {
    const uint64_t head = row / h.queries;
    const double log = h.shares(head, row % h.queries, share);
    if (c.gives(1)) c.out[1].set(row, log);
    for (uint64_t d = 0; d < h.width && c.gives(0); ++d) {
      Wide sum = 0;
      for (uint64_t j = 0; j < h.keys; ++j) sum += share[j] * h.v.real(h.key(head, j) + d);
      c.out[0].set(row * h.width + d, sum);
    }
  }
}

void backward(const Call& c) {
  const Heads h(c, 1, 6);
  const Operand &dy = c.in[0], &y = c.in[4];
  std::vector<double> share(h.keys), dq(h.q.count()), dk(h.k.count()), dv(h.v.count());
  for (uint64_t row = 0; row < h.heads * h.queries; ++row) {
    const uint64_t head = row / h.queries, at = row * h.width;
    (void)h.shares(head, row % h.queries, share);
    Wide inner = 0;  // Σ dy·y
    for (uint64_t d = 0; d < h.width; ++d) inner += dy.real(at + d) * y.real(at + d);
    for (uint64_t j = 0; j < h.keys; ++j) {
      const uint64_t key = h.key(head, j);
      Wide dp = 0;
      for (uint64_t d = 0; d < h.width; ++d) dp += dy.real(at + d) * h.v.real(key + d);
      const double ds = h.scale * share[j] * static_cast<double>(dp - inner);
      for (uint64_t d = 0; d < h.width; ++d) {
        dq[at + d] += ds * h.k.real(key + d);
        dk[key + d] += ds * h.q.real(at + d);
        dv[key + d] += share[j] * dy.real(at + d);
      }
    }
  }
  const std::vector<double>* const all[] = {&dq, &dk, &dv};
  for (size_t n = 0; n < 3; ++n) {
    for (uint64_t i = 0; c.gives(n) && i < all[n]->size(); ++i) c.out[n].set(i, (*all[n])[i]);
  }
}

}  // namespace

Routine attention(uint32_t op) {
  return op == TN_OP_attention ? forward : op == TN_OP_attention_grad ? backward : nullptr;
}

}  // namespace tenon::sim
