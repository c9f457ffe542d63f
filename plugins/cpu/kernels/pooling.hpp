// SPDX-License-Identifier: Apache-2.0
// pooling.hpp: where windows over images lie, and what they see.
//
// Invariant: a tap that a window is said to see is a place of the image.
#pragma once

#include "builder.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace tenon::cpu {

struct Plane {
  Place place;
  std::array<int64_t, 4> dims{}, strides{};

  Plane(const Place& where, TensorView tensor) : place(where) {
    const auto steps = tensor.strides();
    std::copy_n(tensor.dims().begin(), 4, dims.begin());
    std::copy_n(steps.begin(), 4, strides.begin());
  }
  int64_t at(int64_t n, int64_t c, int64_t h) const noexcept {
    return n * strides[0] + c * strides[1] + h * strides[2];
  }
  bool has_channels_last() const noexcept { return strides[1] == 1 && dims[1] > 1; }
};

// How windows slide over the image.
struct Window {
  std::array<int64_t, 2> kernel{}, stride{}, before{};
  bool count_pad = false;

  explicit Window(const tn_node& node) {
    const auto sizes = *author::attribute_i64s(node, "kernel"),
               steps = *author::attribute_i64s(node, "stride"), pad = *author::attribute_i64s(node, "pad");
    kernel = {sizes[0], sizes[1]};
    stride = {steps[0], steps[1]};
    before = {pad[0], pad[1]};
    count_pad = author::attribute_i64(node, "count_pad").value_or(0) != 0;
  }
  int64_t area() const noexcept { return kernel[0] * kernel[1]; }
  // The first place of window p in direction d, which may be padding.
  int64_t start(size_t d, int64_t p) const noexcept { return p * stride[d] - before[d]; }
  // The taps [first, end) of window p in direction d that see one of `places`.
  std::pair<int64_t, int64_t> taps(size_t d, int64_t p, int64_t places) const noexcept {
    const int64_t end = std::clamp<int64_t>(places - start(d, p), 0, kernel[d]);
    return {std::min(std::max<int64_t>(0, -start(d, p)), end), end};
  }
  // Of `windows` in direction d those [first, end) whose tap j sees one of `places`.
  std::pair<int64_t, int64_t> windows(size_t d, int64_t j, int64_t windows, int64_t places) const noexcept {
    const int64_t ahead = before[d] - j, room = places - 1 + ahead;
    const int64_t low = ahead > 0 ? (ahead + stride[d] - 1) / stride[d] : 0,
                  high = room < 0 ? 0 : room / stride[d] + 1;
    return {low, std::max(low, std::min(windows, high))};
  }
};

// `image` is what windows slide over, `windows` has an element for each. Backwards the image is written from them, and `seen`
// is what forward saw, in which a greatest is looked for once more.
struct Pooling {
  Window window;
  Plane image, windows;
  bool greatest = false, backward = false;
  std::optional<Plane> seen{};

  bool sees() const noexcept { return !backward || greatest; }
  bool has_channels_last() const noexcept {
    return image.has_channels_last() && windows.has_channels_last() && (!seen || seen->has_channels_last());
  }
};

}  // namespace tenon::cpu
