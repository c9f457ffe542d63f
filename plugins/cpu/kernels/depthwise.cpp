// SPDX-License-Identifier: Apache-2.0
// depthwise.cpp: planes of one channel, or of a few where channels lie last, with room for the padding around them.
//
// In a plane `lanes` channels lie side by side, so the loops over taps run along memory in either order of images.
#include "depthwise.hpp"

#include "arrangement.hpp"
#include "conv.hpp"
#include "epilogue.hpp"
#include "families.hpp"
#include "tile_ops.hpp"
#include "wide.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <string>

namespace tenon::cpu {
namespace {

using author::text;

constexpr int64_t most_lanes = 16;  // channels of one plane

// Sizes of one convolution; the image is what is read forward and made backward.
struct Shape {
  int64_t images = 0, channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t taps_down = 0, taps_across = 0, step_down = 1, step_across = 1, spread_down = 1, spread_across = 1;
  int64_t top = 0, left = 0, padded_height = 0, padded_width = 0;
  int64_t lanes = 1;

  int64_t blocks() const noexcept { return (channels + lanes - 1) / lanes; }
  uint64_t plane() const noexcept { return static_cast<uint64_t>(padded_height * padded_width * lanes); }
};

template <class T>
struct Taps {
  // to[q][c] += from[q · step][c] · tap[c]
  static void gather(T* to, const T* from, const T* tap, int64_t count, int64_t step, int64_t lanes) {
    for (int64_t q = 0; q < count; ++q) {
      for (int64_t c = 0; c < lanes; ++c) to[q * lanes + c] += from[q * step * lanes + c] * tap[c];
    }
  }
  // to[q · step][c] += from[q][c] · tap[c]
  static void scatter(T* to, const T* from, const T* tap, int64_t count, int64_t step, int64_t lanes) {
    for (int64_t q = 0; q < count; ++q) {
      for (int64_t c = 0; c < lanes; ++c) to[q * step * lanes + c] += from[q * lanes + c] * tap[c];
    }
  }
  // One lane, or many with the same step of 1: one long row.
  static void along(T* to, const T* from, T tap, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i] * tap;
  }
};

// An image of which rows of a block of channels are read and written.
struct Image {
  Place place{};
  uint32_t dtype = 0;
  Four strides{};
  LoadFn load = nullptr;
  StoreFn store = nullptr;

  Image() = default;
  Image(const Place& at, TensorView tensor)
      : place(at), dtype(tensor.dtype()), load(load_op(dtype)), store(store_op(dtype)) {
    std::copy_n(tensor.strides().begin(), 4, strides.begin());
  }
  bool there() const noexcept { return place.kind != Place::Kind::none; }
  std::byte* row(const Run& run, int64_t n, int64_t c, int64_t h) const noexcept {
    return run.at(place) + (n * strides[0] + c * strides[1] + h * strides[2]) * author::dtype_bits(dtype) / 8;
  }
  View view(int64_t width, int64_t lanes) const {
    const int64_t dims[] = {width, lanes}, steps[] = {strides[3], strides[1]};
    return View(dtype, dims, steps);
  }
};

template <class T>
class DepthwiseStep final : public Step {
 public:
  struct Operands {
    Image relu_in, relu_out, result;  // forward: x, y, the convolution's; backward: dx, y, dy
    Place weights;                    // dense, as T
  };

  DepthwiseStep(Builder& builder, const Shape& shape, bool backward, const Operands& operands,
                unsigned threads)
      : shape_(shape), backward_(backward), operands_(operands) {
    const auto jobs = static_cast<uint64_t>(shape.images * shape.blocks());
    lanes_ = std::clamp<uint64_t>(jobs, 1, std::max(1u, threads));
    const auto widest = static_cast<uint64_t>(std::max(shape.width, shape.out_width) * shape.lanes);
    room_elements_ = (shape.plane() + 2 * widest + static_cast<uint64_t>(shape.lanes) + 15) / 16 * 16;
    room_ = builder.scratch(lanes_ * room_elements_ * sizeof(T));
  }

  std::string engine() const override { return "depthwise"; }

  Status run(const Run& run) const override {
    const auto jobs = static_cast<uint64_t>(shape_.images * shape_.blocks());
    run.team.run(lanes_, 1, [&](uint64_t lane, uint64_t end) {
      for (; lane < end; ++lane) {
        for (uint64_t job = lane; job < jobs; job += lanes_) run_plane(run, lane, static_cast<int64_t>(job));
      }
    });
    return {};
  }

 private:
  // One block of channels of one image, and a thread's room for it.
  struct Plane {
    int64_t image, channel, lanes;
    T *pixels, *row, *other, *tap;
  };

  void run_plane(const Run& run, uint64_t lane, int64_t job) const {
    T* const room = reinterpret_cast<T*>(run.at(room_)) + lane * room_elements_;
    const int64_t channel = job % shape_.blocks() * shape_.lanes;
    const int64_t widest = std::max(shape_.width, shape_.out_width) * shape_.lanes;
    Plane plane{.image = job / shape_.blocks(),
                .channel = channel,
                .lanes = std::min(shape_.lanes, shape_.channels - channel),
                .pixels = room,
                .row = room + shape_.plane(),
                .other = room + shape_.plane() + widest,
                .tap = room + shape_.plane() + 2 * widest};
    std::fill_n(plane.pixels, shape_.padded_height * shape_.padded_width * plane.lanes, T(0));
    backward_ ? to_image(run, plane) : forward(run, plane);
  }

  T* pixel(const Plane& plane, int64_t h, int64_t w) const noexcept {
    return plane.pixels + (h * shape_.padded_width + w) * plane.lanes;
  }
  void read(const Run& run, const Image& image, const Plane& plane, int64_t h, int64_t width, T* to) const {
    image.load(image.view(width, plane.lanes), image.row(run, plane.image, plane.channel, h), 0,
               static_cast<uint32_t>(width * plane.lanes), to);
  }
  void write(const Run& run, const Image& image, const Plane& plane, int64_t h, int64_t width,
             const T* from) const {
    image.store(image.view(width, plane.lanes), image.row(run, plane.image, plane.channel, h), 0,
                static_cast<uint32_t>(width * plane.lanes), from);
  }

  static constexpr Reg reg = sizeof(T) == 8 ? Reg::f64 : Reg::f32;

  void forward(const Run& run, const Plane& plane) const {
    static const TileFn relu = tile_op(TN_OP_relu, reg, false);
    for (int64_t h = 0; h < shape_.height; ++h) {
      T* const to = pixel(plane, h + shape_.top, shape_.left);
      read(run, operands_.relu_in, plane, h, shape_.width, plane.row);
      relu(to, plane.row, nullptr, nullptr, static_cast<uint32_t>(shape_.width * plane.lanes), {});
      if (operands_.relu_out.there()) write(run, operands_.relu_out, plane, h, shape_.width, to);
    }
    for (int64_t p = 0; p < shape_.out_height; ++p) {
      std::fill_n(plane.row, shape_.out_width * plane.lanes, T(0));
      for_taps(run, plane, p, [&](T* pixels, const T* tap) {
        if (shape_.step_across == 1 && plane.lanes == 1)
          along_(plane.row, pixels, *tap, shape_.out_width);
        else
          gather_(plane.row, pixels, tap, shape_.out_width, shape_.step_across, plane.lanes);
      });
      write(run, operands_.result, plane, p, shape_.out_width, plane.row);
    }
  }

  void to_image(const Run& run, const Plane& plane) const {
    static const TileFn relu_grad = tile_op(TN_OP_relu_grad, reg, false);
    for (int64_t p = 0; p < shape_.out_height; ++p) {
      read(run, operands_.result, plane, p, shape_.out_width, plane.row);
      for_taps(run, plane, p, [&](T* pixels, const T* tap) {
        if (shape_.step_across == 1 && plane.lanes == 1)
          along_(pixels, plane.row, *tap, shape_.out_width);
        else
          scatter_(pixels, plane.row, tap, shape_.out_width, shape_.step_across, plane.lanes);
      });
    }
    for (int64_t h = 0; h < shape_.height; ++h) {
      read(run, operands_.relu_out, plane, h, shape_.width, plane.row);
      relu_grad(plane.other, pixel(plane, h + shape_.top, shape_.left), plane.row, nullptr,
                static_cast<uint32_t>(shape_.width * plane.lanes), {});
      write(run, operands_.relu_in, plane, h, shape_.width, plane.other);
    }
  }

  // Calls body(where the tap of output row p begins in the plane, the tap of each lane) for every tap, in order.
  template <class Body>
  void for_taps(const Run& run, const Plane& plane, int64_t p, Body&& body) const {
    const T* const weights = reinterpret_cast<const T*>(run.at(operands_.weights));
    const int64_t taps = shape_.taps_down * shape_.taps_across;
    for (int64_t r = 0; r < shape_.taps_down; ++r) {
      for (int64_t s = 0; s < shape_.taps_across; ++s) {
        for (int64_t c = 0; c < plane.lanes; ++c)
          plane.tap[c] = weights[(plane.channel + c) * taps + r * shape_.taps_across + s];
        body(pixel(plane, p * shape_.step_down + r * shape_.spread_down, s * shape_.spread_across),
             plane.tap);
      }
    }
  }

  Shape shape_;
  bool backward_;
  Operands operands_;
  uint64_t lanes_ = 1, room_elements_ = 0;
  Place room_{};
  decltype(widest<Taps<T>::gather>()) gather_ = widest<Taps<T>::gather>(),
                                      scatter_ = widest<Taps<T>::scatter>();
  decltype(widest<Taps<T>::along>()) along_ = widest<Taps<T>::along>();
};

// The convolution of a group, and its relu.
struct Pair {
  const tn_node &conv, &relu;
  bool backward;
};

Shape shape_of(const FragmentView& fragment, const Pair& pair) {
  const auto image = fragment.tensor(pair.relu.inputs[0]).dims();
  const TensorView out = fragment.tensor(pair.backward ? pair.conv.inputs[0] : pair.conv.outputs[0]),
                   weights = fragment.tensor(pair.conv.inputs[1]);
  const auto two = [&](const char* name) { return *author::attribute_i64s(pair.conv, name); };
  const auto pad = two("pad"), step = two("stride"), spread = two("dilation");
  Shape shape{.images = image[0], .channels = image[1], .height = image[2], .width = image[3]};
  shape.out_height = out.dims()[2];
  shape.out_width = out.dims()[3];
  shape.taps_down = weights.dims()[2];
  shape.taps_across = weights.dims()[3];
  shape.step_down = step[0];
  shape.step_across = step[1];
  shape.spread_down = spread[0];
  shape.spread_across = spread[1];
  shape.top = pad[0];
  shape.left = pad[1];
  shape.padded_height = shape.height + pad[0] + pad[2];
  shape.padded_width = shape.width + pad[1] + pad[3];
  const auto strides = fragment.tensor(pair.relu.inputs[0]).strides();
  if (strides[1] == 1 && shape.width * shape.height > 1) shape.lanes = std::min(most_lanes, shape.channels);
  return shape;
}

template <class T>
Status build(Builder& builder, const Pair& pair, unsigned threads) {
  const FragmentView& fragment = builder.fragment();
  Arrangement arrangement(builder, {0, 1, 2, 3});
  const auto place =
      TN_TRY(arrangement.parameter(pair.conv.inputs[1], sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32));
  const auto in = [&](uint32_t tensor) { return Image(builder.place(tensor), fragment.tensor(tensor)); };
  const auto out = [&](uint32_t tensor) {
    return Image(builder.output_place(tensor), fragment.tensor(tensor));
  };
  typename DepthwiseStep<T>::Operands operands{.weights = place};
  if (pair.backward) {
    operands.relu_in = out(pair.relu.outputs[0]);
    operands.relu_out = in(pair.relu.inputs[1]);
    operands.result = in(pair.conv.inputs[0]);
  } else {
    const auto at = static_cast<uint32_t>(&pair.relu - fragment.nodes().data());
    operands.relu_in = in(pair.relu.inputs[0]);
    if (wanted_outside(fragment, pair.relu.outputs[0], {at, at + 2}))
      operands.relu_out = out(pair.relu.outputs[0]);
    operands.result = out(pair.conv.outputs[0]);
  }
  builder.add(std::make_unique<DepthwiseStep<T>>(builder, shape_of(fragment, pair), pair.backward, operands,
                                                 threads));
  return {};
}

}  // namespace

std::string why_no_depthwise(const FragmentView& fragment, uint32_t at) {
  const auto nodes = fragment.nodes();
  const tn_node& conv = nodes[at];
  const bool backward = conv.op == TN_OP_conv2d_grad_data;
  if (!backward && conv.op != TN_OP_conv2d) return text(author::op_name(conv.op), " takes no relu in");
  const uint32_t beside = backward ? at + 1 : at - 1;
  if (beside >= nodes.size() || nodes[beside].op != (backward ? TN_OP_relu_grad : TN_OP_relu))
    return "there is no relu beside it";
  const tn_node& relu = nodes[beside];
  if (backward ? relu.inputs[0] != conv.outputs[0] : relu.outputs[0] != conv.inputs[0])
    return "the relu beside it is another's";
  const TensorView weights = fragment.tensor(conv.inputs[1]), image = fragment.tensor(relu.inputs[0]);
  const int64_t groups = author::attribute_i64(conv, "groups").value_or(1);
  if (groups != weights.dims()[0] || weights.dims()[1] != 1)
    return text("it is not depthwise: ", weights.dims()[0], " filters of ", weights.dims()[1],
                " channels in ", groups, groups == 1 ? " group" : " groups");
  if (image.elements() == 0 || fragment.tensor(conv.outputs[0]).elements() == 0)
    return "there are no elements";
  if (backward && !author::same_dims(fragment.tensor(relu.inputs[1]), image))
    return "the relu's output is broadcast";
  if (backward && wanted_outside(fragment, conv.outputs[0], {at, at + 2}))
    return "the gradient before relu's is wanted, too";
  return "";
}

Nodes conv_nodes(const FragmentView& fragment, uint32_t at) {
  if (!why_no_depthwise(fragment, at).empty()) return product_nodes(fragment, at);
  return fragment.nodes()[at].op == TN_OP_conv2d ? Nodes{at - 1, at + 1} : Nodes{at, at + 2};
}

Status build_conv_nodes(Builder& builder, uint32_t first, uint32_t end, unsigned threads) {
  const auto nodes = builder.fragment().nodes();
  const bool before = nodes[first].op == TN_OP_relu;
  if (!before && (end - first != 2 || nodes[first + 1].op != TN_OP_relu_grad))
    return build_conv(builder, first, end, threads);
  const Pair pair{nodes[before ? first + 1 : first], nodes[before ? first : first + 1], !before};
  const bool wide = builder.fragment().tensor(pair.conv.inputs[1]).dtype() == TN_DTYPE_f64;
  return wide ? build<double>(builder, pair, threads) : build<float>(builder, pair, threads);
}

}  // namespace tenon::cpu
