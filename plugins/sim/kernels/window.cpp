// SPDX-License-Identifier: Apache-2.0
// window.cpp: convolutions and pools: a window slides over an image x and makes an image y.
//
// All of them visit the same pairs of places; what differs is which of the three tensors is summed into.
#include "node.hpp"

#include <cmath>
#include <limits>

namespace tenon::sim {

namespace {

struct Sliding {
  Dims x, y;  // [N, C, H, W] of the image, [N, ·, P, Q] of the result
  int64_t kernel[2], stride[2], dilation[2], pad[2];

  Sliding(const Node& node, Dims image, Dims result, const Dims& sizes)
      : x(std::move(image)), y(std::move(result)) {
    const bool dilated = node.attributes.contains("dilation");
    for (size_t i = 0; i < 2; ++i) {
      kernel[i] = sizes[sizes.size() - 2 + i];
      stride[i] = node.integers("stride")[i];
      dilation[i] = dilated ? node.integers("dilation")[i] : 1;
      pad[i] = node.integers("pad")[i];
    }
  }
  static uint64_t index(const Dims& d, int64_t n, int64_t c, int64_t h, int64_t w) {
    return static_cast<uint64_t>(((n * d[1] + c) * d[2] + h) * d[3] + w);
  }
  // Calls see(h, w, r, s) for each place of the image under the window of (p, q).
  template <class See>
  void under(int64_t p, int64_t q, See&& see) const {
    for (int64_t r = 0; r < kernel[0]; ++r) {
      for (int64_t s = 0; s < kernel[1]; ++s) {
        const int64_t h = p * stride[0] - pad[0] + r * dilation[0],
                      w = q * stride[1] - pad[1] + s * dilation[1];
        if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) see(h, w, r, s);
      }
    }
  }
  template <class Each>
  void results(Each&& each) const {
    for (int64_t n = 0; n < y[0]; ++n)
      for (int64_t c = 0; c < y[1]; ++c)
        for (int64_t p = 0; p < y[2]; ++p)
          for (int64_t q = 0; q < y[3]; ++q) each(n, c, p, q);
  }
};

void store(const Operand& out, const std::vector<Wide>& sums) {
  for (uint64_t i = 0; i < out.count(); ++i) out.set(i, sums[i]);
}

// Calls term(x, w, y) with the indices of every product of a convolution.
template <class Term>
void products(const Sliding& s, const Dims& w, int64_t groups, Term&& term) {
  const int64_t per_group = s.y[1] / groups;
  s.results([&](int64_t n, int64_t o, int64_t p, int64_t q) {
    for (int64_t c = 0; c < w[1]; ++c) {
      s.under(p, q, [&](int64_t h, int64_t v, int64_t r, int64_t t) {
        term(Sliding::index(s.x, n, o / per_group * w[1] + c, h, v), Sliding::index(w, o, c, r, t),
             Sliding::index(s.y, n, o, p, q));
      });
    }
  });
}

void conv2d(const Call& c) {
  const Sliding s(c.node, c.in[0].dims(), c.out[0].dims(), c.in[1].dims());
  std::vector<Wide> sums(c.out[0].count());
  products(s, c.in[1].dims(), c.node.integer("groups"),
           [&](uint64_t x, uint64_t w, uint64_t y) { sums[y] += Wide(c.in[0].real(x)) * c.in[1].real(w); });
  store(c.out[0], sums);
}

void conv2d_grad_data(const Call& c) {
  const Sliding s(c.node, c.out[0].dims(), c.in[0].dims(), c.in[1].dims());
  std::vector<Wide> sums(c.out[0].count());
  products(s, c.in[1].dims(), c.node.integer("groups"),
           [&](uint64_t x, uint64_t w, uint64_t y) { sums[x] += Wide(c.in[0].real(y)) * c.in[1].real(w); });
  store(c.out[0], sums);
}

void conv2d_grad_weight(const Call& c) {
  const Sliding s(c.node, c.in[0].dims(), c.in[1].dims(), c.out[0].dims());
  std::vector<Wide> sums(c.out[0].count());
  products(s, c.out[0].dims(), c.node.integer("groups"),
           [&](uint64_t x, uint64_t w, uint64_t y) { sums[w] += Wide(c.in[0].real(x)) * c.in[1].real(y); });
  store(c.out[0], sums);
}

// The place that wins a window: the first greatest, or the first NaN. A window over padding alone has none.
bool winner(const Operand& x, const Sliding& s, int64_t n, int64_t c, int64_t p, int64_t q, uint64_t& best) {
  bool found = false;
  s.under(p, q, [&](int64_t h, int64_t w, int64_t, int64_t) {
    const uint64_t at = Sliding::index(s.x, n, c, h, w);
    if (found && (std::isnan(x.real(best)) || !(std::isnan(x.real(at)) || x.real(at) > x.real(best)))) return;
    found = true;
    best = at;
  });
  return found;
}

void max_pool(const Call& c) {
  const Sliding s(c.node, c.in[0].dims(), c.out[0].dims(), c.node.integers("kernel"));
  s.results([&](int64_t n, int64_t ch, int64_t p, int64_t q) {
    uint64_t best = 0;
    const uint64_t at = Sliding::index(s.y, n, ch, p, q);
    c.out[0].set(at, winner(c.in[0], s, n, ch, p, q, best) ? c.in[0].real(best)
                                                           : -std::numeric_limits<double>::infinity());
  });
}

void max_pool_grad(const Call& c) {
  const Sliding s(c.node, c.out[0].dims(), c.in[0].dims(), c.node.integers("kernel"));
  std::vector<Wide> sums(c.out[0].count());
  s.results([&](int64_t n, int64_t ch, int64_t p, int64_t q) {
    uint64_t best = 0;
    if (winner(c.in[1], s, n, ch, p, q, best)) sums[best] += c.in[0].real(Sliding::index(s.y, n, ch, p, q));
  });
  store(c.out[0], sums);
}

// How many places a window's mean is over.
double share(const Call& c, const Sliding& s, int64_t p, int64_t q) {
  if (c.node.integer("count_pad") != 0) return static_cast<double>(s.kernel[0] * s.kernel[1]);
  double seen = 0;
  s.under(p, q, [&](int64_t, int64_t, int64_t, int64_t) { ++seen; });
  return seen;
}

void avg_pool(const Call& c) {
  const Sliding s(c.node, c.in[0].dims(), c.out[0].dims(), c.node.integers("kernel"));
  s.results([&](int64_t n, int64_t ch, int64_t p, int64_t q) {
    Wide sum = 0;
    s.under(p, q, [&](int64_t h, int64_t w, int64_t, int64_t) {
      sum += c.in[0].real(Sliding::index(s.x, n, ch, h, w));
    });
    c.out[0].set(Sliding::index(s.y, n, ch, p, q), sum / share(c, s, p, q));
  });
}

void avg_pool_grad(const Call& c) {
  const Sliding s(c.node, c.out[0].dims(), c.in[0].dims(), c.node.integers("kernel"));
  std::vector<Wide> sums(c.out[0].count());
  s.results([&](int64_t n, int64_t ch, int64_t p, int64_t q) {
    const double dy = c.in[0].real(Sliding::index(s.y, n, ch, p, q)) / share(c, s, p, q);
    s.under(p, q,
            [&](int64_t h, int64_t w, int64_t, int64_t) { sums[Sliding::index(s.x, n, ch, h, w)] += dy; });
  });
  store(c.out[0], sums);
}

void global_pool(const Call& c) {
  const auto area = static_cast<uint64_t>(c.in[0].dim(2) * c.in[0].dim(3));
  for (uint64_t o = 0; o < c.out[0].count(); ++o) {
    Wide sum = 0;
    for (uint64_t k = 0; k < area; ++k) sum += c.in[0].real(o * area + k);
    c.out[0].set(o, sum / static_cast<Wide>(area));
  }
}

}  // namespace

Routine window(uint32_t op) {
  switch (op) {
    case TN_OP_conv2d:
      return conv2d;
    case TN_OP_conv2d_grad_data:
      return conv2d_grad_data;
    case TN_OP_conv2d_grad_weight:
      return conv2d_grad_weight;
    case TN_OP_max_pool:
      return max_pool;
    case TN_OP_max_pool_grad:
      return max_pool_grad;
    case TN_OP_avg_pool:
      return avg_pool;
    case TN_OP_avg_pool_grad:
      return avg_pool_grad;
    case TN_OP_global_pool:
      return global_pool;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
