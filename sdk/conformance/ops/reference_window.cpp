// SPDX-License-Identifier: Apache-2.0
// reference_window.cpp: convolutions and pools: every pair of an image's place and a result's that see each other.
#include "conformance/ops/reference.hpp"

#include <algorithm>
#include <limits>

namespace tenon::conform::reference {

namespace {

uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }

// The geometry of a window that slides over x [N,C,H,W] and makes y [N,·,P,Q].
struct Sliding {
  const std::vector<int64_t>& x;
  const std::vector<int64_t>& y;
  int64_t kernel[2], stride[2], dilation[2], pad[2];

  Sliding(const Trial& trial, const std::vector<int64_t>& image, const std::vector<int64_t>& result,
          const std::vector<int64_t>& sizes)
      : x(image), y(result) {
    for (size_t i = 0; i < 2; ++i) {
      kernel[i] = sizes[sizes.size() - 2 + i];
      stride[i] = trial.integers("stride")[i];
      dilation[i] = trial.attribute("dilation") != nullptr ? trial.integers("dilation")[i] : 1;
      pad[i] = trial.integers("pad")[i];
    }
  }

  uint64_t at_x(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return u(((n * x[1] + c) * x[2] + h) * x[3] + w);
  }
  uint64_t at_y(int64_t n, int64_t c, int64_t p, int64_t q) const {
    return u(((n * y[1] + c) * y[2] + p) * y[3] + q);
  }
  // Calls see(h, w, r, s) for the places of the image under the window of (p, q).
  template <class See>
  void window(int64_t p, int64_t q, const See& see) const {
    for (int64_t r = 0; r < kernel[0]; ++r) {
      for (int64_t s = 0; s < kernel[1]; ++s) {
        const int64_t h = p * stride[0] - pad[0] + r * dilation[0],
                      w = q * stride[1] - pad[1] + s * dilation[1];
        if (h >= 0 && h < x[2] && w >= 0 && w < x[3]) see(h, w, r, s);
      }
    }
  }
  template <class Each>
  void results(const Each& each) const {
    for (int64_t n = 0; n < y[0]; ++n) {
      for (int64_t c = 0; c < y[1]; ++c) {
        for (int64_t p = 0; p < y[2]; ++p) {
          for (int64_t q = 0; q < y[3]; ++q) each(n, c, p, q);
        }
      }
    }
  }
};

void store(Job& job, const std::vector<Sum>& sums, double length) {
  std::vector<double>& magnitude = magnitudes(job, 0);
  for (size_t i = 0; i < sums.size(); ++i) {
    job.out[0].tensor.at[i].real = sums[i].value();
    magnitude[i] = sums[i].magnitude();
  }
  job.out[0].length = length;
}

// Calls term(x, w, y) with the flat indices of every product that a convolution has.
template <class Term>
void products(const Sliding& s, const std::vector<int64_t>& w, int64_t groups, const Term& term) {
  const int64_t per_group = s.y[1] / groups;
  s.results([&](int64_t n, int64_t o, int64_t p, int64_t q) {
    for (int64_t c = 0; c < w[1]; ++c) {
      s.window(p, q, [&](int64_t h, int64_t v, int64_t r, int64_t t) {
        term(s.at_x(n, o / per_group * w[1] + c, h, v), u(((o * w[1] + c) * w[2] + r) * w[3] + t),
             s.at_y(n, o, p, q));
      });
    }
  });
}

// How many places a pool's mean is over.
double share_of(const Sliding& s, bool count_pad, int64_t p, int64_t q) {
  if (count_pad) return static_cast<double>(s.kernel[0] * s.kernel[1]);
  double seen = 0;
  s.window(p, q, [&](int64_t, int64_t, int64_t, int64_t) { ++seen; });
  return seen;
}

// The winner of a window: the first greatest, or the first NaN.
uint64_t winner(const Job& job, size_t input, const Sliding& s, int64_t n, int64_t c, int64_t p, int64_t q) {
  bool found = false;
  uint64_t best = 0;
  s.window(p, q, [&](int64_t h, int64_t w, int64_t, int64_t) {
    const uint64_t at = s.at_x(n, c, h, w);
    const double x = job.real(input, at), y = job.real(input, best);
    if (found && (std::isnan(y) || !(std::isnan(x) || x > y))) return;
    found = true;
    best = at;
  });
  return best;
}

}  // namespace

void conv2d(Job& job) {
  const Sliding s(job.trial, job.dims(0), job.out[0].tensor.dims, job.dims(1));
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  products(s, job.dims(1), job.trial.integer("groups"),
           [&](uint64_t x, uint64_t w, uint64_t y) { sums[y].add_product(job.real(0, x), job.real(1, w)); });
  store(job, sums, static_cast<double>(job.dims(1)[1] * s.kernel[0] * s.kernel[1]));
}

void conv2d_grad_data(Job& job) {
  const Sliding s(job.trial, job.out[0].tensor.dims, job.dims(0), job.dims(1));
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  products(s, job.dims(1), job.trial.integer("groups"),
           [&](uint64_t x, uint64_t w, uint64_t y) { sums[x].add_product(job.real(0, y), job.real(1, w)); });
  store(job, sums, static_cast<double>(job.dims(1)[0] * s.kernel[0] * s.kernel[1]));
}

void conv2d_grad_weight(Job& job) {
  const std::vector<int64_t>& w = job.out[0].tensor.dims;
  const Sliding s(job.trial, job.dims(0), job.dims(1), w);
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  products(s, w, job.trial.integer("groups"), [&](uint64_t x, uint64_t at, uint64_t y) {
    sums[at].add_product(job.real(0, x), job.real(1, y));
  });
  store(job, sums, static_cast<double>(s.y[0] * s.y[2] * s.y[3]));
}

void max_pool(Job& job) {
  const Sliding s(job.trial, job.dims(0), job.out[0].tensor.dims, job.trial.integers("kernel"));
  s.results([&](int64_t n, int64_t c, int64_t p, int64_t q) {
    job.out[0].tensor.at[s.at_y(n, c, p, q)] = job.in[0].at[winner(job, 0, s, n, c, p, q)];
  });
}

void max_pool_grad(Job& job) {
  const Sliding s(job.trial, job.out[0].tensor.dims, job.dims(0), job.trial.integers("kernel"));
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  s.results([&](int64_t n, int64_t c, int64_t p, int64_t q) {
    sums[winner(job, 1, s, n, c, p, q)].add(job.real(0, s.at_y(n, c, p, q)));
  });
  store(job, sums, static_cast<double>(s.kernel[0] * s.kernel[1]));
}

void avg_pool(Job& job) {
  const Sliding s(job.trial, job.dims(0), job.out[0].tensor.dims, job.trial.integers("kernel"));
  const bool count_pad = job.trial.integer("count_pad") != 0;
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  s.results([&](int64_t n, int64_t c, int64_t p, int64_t q) {
    const double share = share_of(s, count_pad, p, q);
    s.window(p, q, [&](int64_t h, int64_t w, int64_t, int64_t) {
      sums[s.at_y(n, c, p, q)].add(job.real(0, s.at_x(n, c, h, w)) / share);
    });
  });
  store(job, sums, static_cast<double>(s.kernel[0] * s.kernel[1]));
}

void avg_pool_grad(Job& job) {
  const Sliding s(job.trial, job.out[0].tensor.dims, job.dims(0), job.trial.integers("kernel"));
  const bool count_pad = job.trial.integer("count_pad") != 0;
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  s.results([&](int64_t n, int64_t c, int64_t p, int64_t q) {
    const double dy = job.real(0, s.at_y(n, c, p, q)) / share_of(s, count_pad, p, q);
    s.window(p, q, [&](int64_t h, int64_t w, int64_t, int64_t) { sums[s.at_x(n, c, h, w)].add(dy); });
  });
  store(job, sums, static_cast<double>(s.kernel[0] * s.kernel[1]));
}

void global_pool(Job& job) {
  const uint64_t area = u(job.dims(0)[2] * job.dims(0)[3]);
  std::vector<Sum> sums(job.out[0].tensor.at.size());
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i)
    sums[i / area].add(job.real(0, i) / static_cast<double>(area));
  store(job, sums, static_cast<double>(area));
}

}  // namespace tenon::conform::reference
