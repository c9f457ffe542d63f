// SPDX-License-Identifier: Apache-2.0
// reduction.cpp: for each element of the result, all the elements that it is made of, in order.
#include "node.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::sim {

namespace {

// The input's elements behind each element of the result: first[o] + inner[k].
struct Fold {
  std::vector<uint64_t> first, inner;
};

// Logical indices of the elements of `dims`, under the strides of a row-major tensor.
std::vector<uint64_t> indices(const Dims& dims, const Dims& strides) {
  std::vector<uint64_t> out{0};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<uint64_t> next;
    for (const uint64_t base : out) {
      for (int64_t i = 0; i < dims[d]; ++i) next.push_back(base + static_cast<uint64_t>(i * strides[d]));
    }
    out = std::move(next);
  }
  return out;
}

Fold fold_of(const Call& c) {
  const Dims& dims = c.in[0].dims();
  const Dims strides = Shape::row_major(c.in[0].dtype(), dims).strides;
  Dims kept = dims, folded(dims.size(), 1);
  for (const int64_t axis : c.node.integers("axes")) {
    const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis);
    folded[at] = dims[at];
    kept[at] = 1;
  }
  return {indices(kept, strides), indices(folded, strides)};
}

struct Sum {
  static Wide start() { return 0; }
  static uint64_t start_whole(uint32_t) { return 0; }
  static Wide join(Wide a, double x) { return a + x; }
  static uint64_t join(uint64_t a, uint64_t x, bool) { return a + x; }
};
struct Product {
  static Wide start() { return 1; }
  static uint64_t start_whole(uint32_t) { return 1; }
  static Wide join(Wide a, double x) { return a * x; }
  static uint64_t join(uint64_t a, uint64_t x, bool) { return a * x; }
};
struct Greatest {
  static Wide start() { return -std::numeric_limits<Wide>::infinity(); }
  static uint64_t start_whole(uint32_t dtype) { return saturate(dtype, -1e300); }
  static Wide join(Wide a, double x) { return std::isnan(a) || std::isnan(x) ? a + x : std::max<Wide>(a, x); }
  static uint64_t join(uint64_t a, uint64_t x, bool sign) {
    return sign ? static_cast<uint64_t>(std::max(static_cast<int64_t>(a), static_cast<int64_t>(x)))
                : std::max(a, x);
  }
};
struct Least {
  static Wide start() { return std::numeric_limits<Wide>::infinity(); }
  static uint64_t start_whole(uint32_t dtype) { return saturate(dtype, 1e300); }
  static Wide join(Wide a, double x) { return std::isnan(a) || std::isnan(x) ? a + x : std::min<Wide>(a, x); }
  static uint64_t join(uint64_t a, uint64_t x, bool sign) {
    return sign ? static_cast<uint64_t>(std::min(static_cast<int64_t>(a), static_cast<int64_t>(x)))
                : std::min(a, x);
  }
};

template <class Way>
void reduce(const Call& c) {
  const Operand& x = c.in[0];
  const Fold fold = fold_of(c);
  for (uint64_t o = 0; o < fold.first.size(); ++o) {
    if (is_real(x.dtype())) {
      Wide value = Way::start();
      for (const uint64_t k : fold.inner) value = Way::join(value, x.real(fold.first[o] + k));
      c.out[0].set(o, value);
    } else {
      uint64_t value = Way::start_whole(x.dtype());
      for (const uint64_t k : fold.inner)
        value = Way::join(value, x.bits(fold.first[o] + k), is_signed(x.dtype()));
      c.out[0].set_bits(o, value);
    }
  }
}

void mean(const Call& c) {
  const Fold fold = fold_of(c);
  for (uint64_t o = 0; o < fold.first.size(); ++o) {
    Wide sum = 0;
    for (const uint64_t k : fold.inner) sum += c.in[0].real(fold.first[o] + k);
    c.out[0].set(o, sum / static_cast<Wide>(fold.inner.size()));
  }
}

bool beats(const Operand& x, uint64_t candidate, uint64_t best) {
  if (is_real(x.dtype())) {
    const double a = x.real(candidate), b = x.real(best);
    return !std::isnan(b) && (std::isnan(a) || a > b);
  }
  const uint64_t a = x.bits(candidate), b = x.bits(best);
  return is_signed(x.dtype()) ? static_cast<int64_t>(a) > static_cast<int64_t>(b) : a > b;
}

void argmax(const Call& c) {
  const Fold fold = fold_of(c);
  for (uint64_t o = 0; o < fold.first.size(); ++o) {
    uint64_t best = 0;
    for (uint64_t k = 1; k < fold.inner.size(); ++k) {
      if (beats(c.in[0], fold.first[o] + fold.inner[k], fold.first[o] + fold.inner[best])) best = k;
    }
    c.out[0].set_bits(o, best);
  }
}

}  // namespace

Routine reduction(uint32_t op) {
  switch (op) {
    case TN_OP_sum:
      return reduce<Sum>;
    case TN_OP_reduce_prod:
      return reduce<Product>;
    case TN_OP_reduce_max:
      return reduce<Greatest>;
    case TN_OP_reduce_min:
      return reduce<Least>;
    case TN_OP_mean:
      return mean;
    case TN_OP_argmax:
      return argmax;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
