// SPDX-License-Identifier: Apache-2.0
// conv_plain.cpp: convolutions in f64, which the library does not offer.
//
// Each kind walks over what it makes and gathers the products that meet there.
// Invariant: an element is summed in one order, by one thread, so the result does not depend on how many there are.
#include "conv.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

class PlainConv final : public Step {
 public:
  explicit PlainConv(const Conv& conv) : conv_(conv), made_(conv_.made()) {}
  std::string engine() const override { return "loops"; }

  Status run(const Run& run) const override {
    uint64_t count = 1;
    for (const int64_t dim : made_.dims) count *= static_cast<uint64_t>(dim);
    run.team.run(count, std::max<uint64_t>(1, parallel_grain / products()), [&](uint64_t at, uint64_t end) {
      for (; at < end; ++at) make(run, static_cast<int64_t>(at));
    });
    return {};
  }

 private:
  // About how many products an element takes.
  uint64_t products() const noexcept {
    const Four &w = conv_.weights.dims, &y = conv_.result.dims;
    const int64_t taps = conv_.op == TN_OP_conv2d_grad_weight ? y[0] * y[2] * y[3] : w[2] * w[3];
    const int64_t channels = conv_.op == TN_OP_conv2d             ? w[1]
                             : conv_.op == TN_OP_conv2d_grad_data ? w[0] / conv_.groups
                                                                  : 1;
    return static_cast<uint64_t>(std::max<int64_t>(1, taps * channels));
  }

  const double* data(const Run& run, const ConvTensor& of) const noexcept {
    return reinterpret_cast<const double*>(run.at(of.place));
  }
  static int64_t offset(const ConvTensor& of, int64_t a, int64_t b, int64_t c, int64_t d) noexcept {
    return a * of.strides[0] + b * of.strides[1] + c * of.strides[2] + d * of.strides[3];
  }
  // The image's place that tap t of window p sees in direction d; outside it: the padding.
  int64_t seen(size_t d, int64_t p, int64_t t) const noexcept {
    return p * conv_.stride[d] - conv_.before[d] + t * conv_.dilation[d];
  }
  // The window whose tap t sees place h in direction d, or -1.
  int64_t window(size_t d, int64_t h, int64_t t) const noexcept {
    const int64_t start = h + conv_.before[d] - t * conv_.dilation[d], p = start / conv_.stride[d];
    return start >= 0 && start % conv_.stride[d] == 0 && p < conv_.result.dims[2 + d] ? p : -1;
  }
  bool inside(size_t d, int64_t h) const noexcept { return h >= 0 && h < conv_.image.dims[2 + d]; }

  void make(const Run& run, int64_t at) const noexcept {
    Four i;
    for (size_t d = 4; d-- > 0; at /= made_.dims[d]) i[d] = at % made_.dims[d];
    auto* const to = reinterpret_cast<double*>(run.at(made_.place)) + offset(made_, i[0], i[1], i[2], i[3]);
    *to = conv_.op == TN_OP_conv2d             ? forward(run, i)
          : conv_.op == TN_OP_conv2d_grad_data ? to_image(run, i)
                                               : to_weights(run, i);
  }

  double forward(const Run& run, const Four& y) const noexcept {
    const double *const x = data(run, conv_.image), *const w = data(run, conv_.weights);
    const Four& kernel = conv_.weights.dims;
    const int64_t first = y[1] / (kernel[0] / conv_.groups) * kernel[1];
    double sum = 0;
    for (int64_t c = 0; c < kernel[1]; ++c) {
      for (int64_t r = 0; r < kernel[2]; ++r) {
        const int64_t h = seen(0, y[2], r);
        for (int64_t s = 0; inside(0, h) && s < kernel[3]; ++s) {
          const int64_t v = seen(1, y[3], s);
          if (!inside(1, v)) continue;
          sum += x[offset(conv_.image, y[0], first + c, h, v)] * w[offset(conv_.weights, y[1], c, r, s)];
        }
      }
    }
    return sum;
  }

  double to_image(const Run& run, const Four& x) const noexcept {
    const double *const dy = data(run, conv_.result), *const w = data(run, conv_.weights);
    const Four& kernel = conv_.weights.dims;
    const int64_t outputs = kernel[0] / conv_.groups, first = x[1] / kernel[1] * outputs,
                  c = x[1] % kernel[1];
    double sum = 0;
    for (int64_t o = first; o < first + outputs; ++o) {
      for (int64_t r = 0; r < kernel[2]; ++r) {
        const int64_t p = window(0, x[2], r);
        for (int64_t s = 0; p >= 0 && s < kernel[3]; ++s) {
          const int64_t q = window(1, x[3], s);
          if (q < 0) continue;
          sum += dy[offset(conv_.result, x[0], o, p, q)] * w[offset(conv_.weights, o, c, r, s)];
        }
      }
    }
    return sum;
  }

  double to_weights(const Run& run, const Four& w) const noexcept {
    const double *const x = data(run, conv_.image), *const dy = data(run, conv_.result);
    const Four &kernel = conv_.weights.dims, &y = conv_.result.dims;
    const int64_t c = w[0] / (kernel[0] / conv_.groups) * kernel[1] + w[1];
    double sum = 0;
    for (int64_t n = 0; n < y[0]; ++n) {
      for (int64_t p = 0; p < y[2]; ++p) {
        const int64_t h = seen(0, p, w[2]);
        for (int64_t q = 0; inside(0, h) && q < y[3]; ++q) {
          const int64_t v = seen(1, q, w[3]);
          if (!inside(1, v)) continue;
          sum += x[offset(conv_.image, n, c, h, v)] * dy[offset(conv_.result, n, w[0], p, q)];
        }
      }
    }
    return sum;
  }

  Conv conv_;
  ConvTensor made_;
};

}  // namespace

std::unique_ptr<Step> plain_conv(const Conv& conv) { return std::make_unique<PlainConv>(conv); }

}  // namespace tenon::cpu
