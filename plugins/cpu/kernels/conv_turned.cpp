// SPDX-License-Identifier: Apache-2.0
// conv_turned.cpp: the gradient of an image as a convolution of its own.
//
// Where windows move by one, each pixel of the image is reached through every tap: its gradient is the result's gradient under
// the same window, turned by half a circle, with the weights' two sides of channels exchanged. Kernels that go forward are the ones
// that libraries tune most.
// Invariant: the same products are summed as in the gradient, for every element.
#include "conv.hpp"
#include "move.hpp"

namespace tenon::cpu {
namespace {

// What the window of a turned convolution sees beyond the image, before or after it.
std::array<int64_t, 2> turned_pad(const Conv& conv, const std::array<int64_t, 2>& pad) noexcept {
  std::array<int64_t, 2> out{};
  for (size_t i = 0; i < 2; ++i) out[i] = conv.dilation[i] * (conv.weights.dims[2 + i] - 1) - pad[i];
  return out;
}

// The weights as dense [O, R, S, I], both of R and S from their ends: now where they are constant, else by a step of each run.
Place turned_weights(Builder& builder, const ConvTensor& weights, Steps& steps) {
  const auto [filters, channels, rows, columns] = weights.dims;
  const auto [filter, channel, row, column] = weights.strides;
  const View from(weights.dtype, Four{filters, rows, columns, channels},
                  Four{filter, -row, -column, channel});
  const View to = View::dense(weights.dtype, from.count());
  const uint64_t width = from.element_bytes(), bytes = from.count() * width;
  const Place last =
      weights.place.plus(static_cast<uint64_t>((rows - 1) * row + (columns - 1) * column) * width);
  if (last.kind != Place::Kind::constant) {
    const Place room = builder.scratch(bytes);
    steps.push_back(move_step(last, from, room, to));
    return room;
  }
  auto made = std::make_unique<std::byte[]>(bytes);
  std::byte* out = made.get();
  from.for_runs(0, from.count(), [&](int64_t offset, uint64_t length, int64_t step) {
    const std::byte* const in = last.constant + last.offset + offset * static_cast<int64_t>(width);
    move_run(from.element_bytes())(out, 1, in, step, length);
    out += length * width;
  });
  return builder.constant(std::move(made));
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
  if (rows * columns == 1) {
    std::swap(out.weights.strides[0], out.weights.strides[1]);
    return out;
  }
  out.weights.place = turned_weights(builder, conv.weights, steps);
  out.weights.strides = {1, rows * columns * channels, columns * channels, channels};
  return out;
}

}  // namespace tenon::cpu
