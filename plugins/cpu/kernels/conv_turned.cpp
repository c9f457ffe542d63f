// SPDX-License-Identifier: Apache-2.0
// conv_turned.cpp: the gradient of an image as a convolution of its own.
//
// Where windows move by one, each pixel of the image is reached through every tap: its gradient is the result's gradient under
// the same window, turned by half a circle, with the weights' two sides of channels exchanged. Kernels that go forward are the ones
// that libraries tune most.
// Invariant: the same products are summed as in the gradient, for every element.
#include "conv.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

// What the window of a turned convolution sees beyond the image, before or after it.
std::array<int64_t, 2> turned_pad(const Conv& conv, const std::array<int64_t, 2>& pad) noexcept {
  std::array<int64_t, 2> out{};
  for (size_t i = 0; i < 2; ++i) out[i] = conv.dilation[i] * (conv.weights.dims[2 + i] - 1) - pad[i];
  return out;
}

int64_t taps_of(const Conv& conv) noexcept { return conv.weights.dims[2] * conv.weights.dims[3]; }

// [O, I, R, S], however it lies, to [R, S, O, I], both of R and S from their ends.
struct Turn {
  Four dims{}, strides{};

  // Of filters [first, end).
  template <class T>
  void run(const T* from, T* to, int64_t first, int64_t end) const noexcept {
    const auto [filters, channels, rows, columns] = dims;
    for (int64_t o = first; o < end; ++o) {
      T* out = to + o * channels;
      for (int64_t r = rows; r-- > 0;) {
        for (int64_t s = columns; s-- > 0; out += filters * channels) {
          const T* const in = from + o * strides[0] + r * strides[2] + s * strides[3];
          for (int64_t i = 0; i < channels; ++i) out[i] = in[i * strides[1]];
        }
      }
    }
  }
  void run(uint32_t dtype, const std::byte* from, std::byte* to, int64_t first, int64_t end) const noexcept {
    if (author::dtype_bits(dtype) == 16)
      run(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to), first, end);
    else
      run(reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to), first, end);
  }
};

class TurnStep final : public Step {
 public:
  TurnStep(const Turn& turn, uint32_t dtype, const Place& from, const Place& to)
      : turn_(turn), dtype_(dtype), from_(from), to_(to) {}

  Status run(const Run& run) const override {
    const auto [filters, channels, rows, columns] = turn_.dims;
    const auto each = static_cast<uint64_t>(channels * rows * columns);
    run.team.run(static_cast<uint64_t>(filters), std::max<uint64_t>(1, parallel_grain / each),
                 [&](uint64_t first, uint64_t end) {
                   turn_.run(dtype_, run.at(from_), run.at(to_), static_cast<int64_t>(first),
                             static_cast<int64_t>(end));
                 });
    return {};
  }
  std::string engine() const override { return "turn"; }

 private:
  Turn turn_;
  uint32_t dtype_;
  Place from_, to_;
};

// The weights' bytes turned: now where they are constant, else by a step of each run.
Place turned_weights(Builder& builder, const ConvTensor& weights, Steps& steps) {
  const Turn turn{.dims = weights.dims, .strides = weights.strides};
  uint64_t count = 1;
  for (const int64_t dim : weights.dims) count *= static_cast<uint64_t>(dim);
  const uint64_t bytes = author::dtype_bytes(weights.dtype, count);
  if (weights.place.kind == Place::Kind::constant) {
    auto made = std::make_unique<std::byte[]>(bytes);
    turn.run(weights.dtype, weights.place.constant + weights.place.offset, made.get(), 0, weights.dims[0]);
    return builder.constant(std::move(made));
  }
  const Place room = builder.scratch(bytes);
  steps.push_back(std::make_unique<TurnStep>(turn, weights.dtype, weights.place, room));
  return room;
}

}  // namespace

bool can_turn(const Conv& conv) noexcept {
  constexpr std::array<int64_t, 2> one{1, 1};
  if (conv.op != TN_OP_conv2d_grad_data || conv.groups != 1 || conv.stride != one) return false;
  for (const auto& pad : {turned_pad(conv, conv.before), turned_pad(conv, conv.after)}) {
    if (pad[0] < 0 || pad[1] < 0) return false;
  }
  return true;
}

Conv turned(Builder& builder, const Conv& conv, Steps& steps) {
  Conv out = conv;
  out.op = TN_OP_conv2d;
  out.before = turned_pad(conv, conv.before);
  out.after = turned_pad(conv, conv.after);
  std::swap(out.image, out.result);
  const auto [filters, channels, rows, columns] = conv.weights.dims;
  out.weights.dims = {channels, filters, rows, columns};
  if (taps_of(conv) == 1) {
    std::swap(out.weights.strides[0], out.weights.strides[1]);
    return out;
  }
  out.weights.place = turned_weights(builder, conv.weights, steps);
  out.weights.strides = {1, channels, columns * filters * channels, filters * channels};
  return out;
}

}  // namespace tenon::cpu
