// SPDX-License-Identifier: Apache-2.0
// pool.cpp: the greatest and the mean of windows, and their gradients, in loops of our own.
//
// Work is cut into lines: elements of the result that differ in the dim that lies nearest in memory alone (columns, or
// channels when these are last), so that a tap of a window is one run of elements for a whole line.
// Invariant: a gradient is summed in the order of its windows by one thread for each image and channel; halves are summed
// in f32 and rounded once.
#include "builder.hpp"
#include "half.hpp"
#include "reduce.hpp"
#include "tiles.hpp"

#include <algorithm>
#include <limits>

namespace tenon::cpu {
namespace {

struct Plane {
  Place place;
  std::array<int64_t, 4> dims{}, strides{};

  Plane(const Place& where, TensorView tensor) : place(where) {
    const auto steps = tensor.strides();
    std::copy_n(tensor.dims().begin(), 4, dims.begin());
    std::copy_n(steps.begin(), 4, strides.begin());
  }
  int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const noexcept {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
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
  // The taps [first, end) of window p in direction d that see one of `places`.
  std::pair<int64_t, int64_t> taps(size_t d, int64_t p, int64_t places) const noexcept {
    const int64_t start = p * stride[d] - before[d];
    const int64_t end = std::clamp<int64_t>(places - start, 0, kernel[d]);
    return {std::min(std::max<int64_t>(0, -start), end), end};
  }
};

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Sum<T> load(const T& from) noexcept {
  if constexpr (std::is_same_v<T, double>)
    return from;
  else
    return widen(from);
}
template <class T>
T narrow(Sum<T> x) noexcept {
  if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else if constexpr (std::is_same_v<T, BF16>)
    return to_bf16(x);
  else
    return x;
}

// The first greatest; a NaN is greater than all, and the first one stays.
template <class X>
bool beats(X x, X best) noexcept {
  return x > best || (x != x && best == best);
}

// max_pool and avg_pool.
template <class T, bool greatest>
class ForwardStep final : public Step {
 public:
  ForwardStep(const Window& window, const Plane& x, const Plane& y) : window_(window), x_(x), y_(y) {}
  std::string engine() const override { return "pool"; }

  Status run(const Run& run) const override {
    const uint64_t lines =
        static_cast<uint64_t>(y_.dims[0] * y_.dims[2] * (by_channel() ? y_.dims[3] : y_.dims[1]));
    const auto work = static_cast<uint64_t>(length() * window_.kernel[0] * window_.kernel[1]);
    run.team.run(lines, std::max<uint64_t>(1, parallel_grain / work), [&](uint64_t line, uint64_t end) {
      for (; line < end; ++line) compute(run, static_cast<int64_t>(line));
    });
    return {};
  }

 private:
  static constexpr int64_t tile = 256;
  struct Tile {
    Sum<T> value[tile];
    int32_t count[tile];
  };

  bool by_channel() const noexcept { return x_.strides[1] < x_.strides[3]; }
  int64_t length() const noexcept { return by_channel() ? y_.dims[1] : y_.dims[3]; }

  void compute(const Run& run, int64_t line) const {
    const int64_t others = by_channel() ? y_.dims[3] : y_.dims[1];
    const int64_t other = line % others, p = line / others % y_.dims[2], n = line / others / y_.dims[2];
    for (int64_t first = 0; first < length(); first += tile) {
      const int64_t end = std::min(length(), first + tile);
      if (by_channel())
        channels(run, n, p, other, first, end);
      else
        columns(run, n, p, other, first, end);
    }
  }

  // One window for channels [first, end).
  void channels(const Run& run, int64_t n, int64_t p, int64_t q, int64_t first, int64_t end) const {
    Tile sums;
    start(sums, end - first);
    const auto [r, r_end] = window_.taps(0, p, x_.dims[2]);
    const auto [s, s_end] = window_.taps(1, q, x_.dims[3]);
    for (int64_t i = r; i < r_end; ++i) {
      for (int64_t j = s; j < s_end; ++j)
        fold(run, sums, 0, end - first, place(n, first, p, q, i, j), x_.strides[1]);
    }
    finish(run, sums, end - first, y_.at(n, first, p, q), y_.strides[1]);
  }

  // The windows [first, end) of one row of one channel.
  void columns(const Run& run, int64_t n, int64_t p, int64_t c, int64_t first, int64_t end) const {
    Tile sums;
    start(sums, end - first);
    const auto [r, r_end] = window_.taps(0, p, x_.dims[2]);
    for (int64_t i = r; i < r_end; ++i) {
      for (int64_t j = 0; j < window_.kernel[1]; ++j) {
        const auto [q, q_end] = windows(j, first, end);
        if (q < q_end)
          fold(run, sums, q - first, q_end - q, place(n, c, p, q, i, j), window_.stride[1] * x_.strides[3]);
      }
    }
    finish(run, sums, end - first, y_.at(n, c, p, first), y_.strides[3]);
  }

  // Of the windows [first, end) of a row, those whose tap j lies inside the image.
  std::pair<int64_t, int64_t> windows(int64_t j, int64_t first, int64_t end) const noexcept {
    const int64_t stride = window_.stride[1], ahead = window_.before[1] - j, room = x_.dims[3] - 1 + ahead;
    const int64_t low = ahead > 0 ? (ahead + stride - 1) / stride : 0,
                  high = room < 0 ? 0 : room / stride + 1;
    return {std::max(first, low), std::min(end, high)};
  }

  int64_t place(int64_t n, int64_t c, int64_t p, int64_t q, int64_t i, int64_t j) const noexcept {
    return x_.at(n, c, p * window_.stride[0] - window_.before[0] + i,
                 q * window_.stride[1] - window_.before[1] + j);
  }

  void start(Tile& sums, int64_t n) const noexcept {
    std::fill_n(sums.value, n, greatest ? -std::numeric_limits<Sum<T>>::infinity() : Sum<T>(0));
    std::fill_n(sums.count, n, 0);
  }

  void fold(const Run& run, Tile& sums, int64_t at, int64_t n, int64_t from, int64_t step) const noexcept {
    const T* const x = reinterpret_cast<const T*>(run.at(x_.place)) + from;
    Sum<T>* const value = sums.value + at;
    if constexpr (greatest) {
      for (int64_t i = 0; i < n; ++i) {
        const Sum<T> one = load(x[i * step]);
        value[i] = beats(one, value[i]) ? one : value[i];
      }
    } else {
      int32_t* const count = sums.count + at;
      for (int64_t i = 0; i < n; ++i) value[i] += load(x[i * step]);
      for (int64_t i = 0; i < n; ++i) ++count[i];
    }
  }

  void finish(const Run& run, const Tile& sums, int64_t n, int64_t to, int64_t step) const noexcept {
    T* const y = reinterpret_cast<T*>(run.at(y_.place)) + to;
    const auto whole = static_cast<Sum<T>>(window_.kernel[0] * window_.kernel[1]);
    for (int64_t i = 0; i < n; ++i) {
      const Sum<T> share = window_.count_pad ? whole : static_cast<Sum<T>>(sums.count[i]);
      y[i * step] = narrow<T>(greatest ? sums.value[i] : sums.value[i] / share);
    }
  }

  Window window_;
  Plane x_, y_;
};

// max_pool_grad and avg_pool_grad, into sums of full width.
template <class T, bool greatest>
class BackwardStep final : public Step {
 public:
  // Where `greatest` is false, x is dx: its dims are all that is wanted.
  BackwardStep(const Window& window, const Plane& dy, const Plane& x, const Plane& dx)
      : window_(window), dy_(dy), x_(x), dx_(dx) {}
  std::string engine() const override { return "pool"; }

  Status run(const Run& run) const override {
    const auto planes = static_cast<uint64_t>(dx_.dims[0] * dx_.dims[1]);
    const auto work = static_cast<uint64_t>(
        dx_.dims[2] * dx_.dims[3] + dy_.dims[2] * dy_.dims[3] * window_.kernel[0] * window_.kernel[1]);
    run.team.run(planes, std::max<uint64_t>(1, parallel_grain / work), [&](uint64_t plane, uint64_t end) {
      for (; plane < end; ++plane) {
        const auto at = static_cast<int64_t>(plane);
        fill(run, at / dx_.dims[1], at % dx_.dims[1]);
      }
    });
    return {};
  }

 private:
  void fill(const Run& run, int64_t n, int64_t c) const noexcept {
    auto* const dx = reinterpret_cast<Sum<T>*>(run.at(dx_.place));
    for (int64_t h = 0; h < dx_.dims[2]; ++h) {
      for (int64_t w = 0; w < dx_.dims[3]; ++w) dx[dx_.at(n, c, h, w)] = 0;
    }
    const T* const dy = reinterpret_cast<const T*>(run.at(dy_.place));
    for (int64_t p = 0; p < dy_.dims[2]; ++p) {
      for (int64_t q = 0; q < dy_.dims[3]; ++q) give(run, n, c, p, q, load(dy[dy_.at(n, c, p, q)]));
    }
  }

  // Gives what came back to window (p, q) to the places that it saw.
  void give(const Run& run, int64_t n, int64_t c, int64_t p, int64_t q, Sum<T> dy) const noexcept {
    auto* const dx = reinterpret_cast<Sum<T>*>(run.at(dx_.place));
    const auto [r, r_end] = window_.taps(0, p, dx_.dims[2]);
    const auto [s, s_end] = window_.taps(1, q, dx_.dims[3]);
    if (r == r_end || s == s_end) return;  // a window of padding alone
    const int64_t h = p * window_.stride[0] - window_.before[0],
                  w = q * window_.stride[1] - window_.before[1];
    if constexpr (greatest) {
      const T* const x = reinterpret_cast<const T*>(run.at(x_.place));
      int64_t row = h + r, column = w + s;
      Sum<T> best = load(x[x_.at(n, c, row, column)]);
      for (int64_t i = r; i < r_end; ++i) {
        for (int64_t j = s; j < s_end; ++j) {
          const Sum<T> one = load(x[x_.at(n, c, h + i, w + j)]);
          if (!beats(one, best)) continue;
          best = one;
          row = h + i;
          column = w + j;
        }
      }
      dx[dx_.at(n, c, row, column)] += dy;
    } else {
      const int64_t seen =
          window_.count_pad ? window_.kernel[0] * window_.kernel[1] : (r_end - r) * (s_end - s);
      const Sum<T> part = dy / static_cast<Sum<T>>(seen);
      for (int64_t i = r; i < r_end; ++i) {
        for (int64_t j = s; j < s_end; ++j) dx[dx_.at(n, c, h + i, w + j)] += part;
      }
    }
  }

  Window window_;
  Plane dy_, x_, dx_;
};

template <class T, bool greatest>
Status build(Builder& builder, const tn_node& node, bool gradient) {
  const FragmentView& fragment = builder.fragment();
  const auto input = [&](uint32_t i) {
    return Plane(builder.place(node.inputs[i]), fragment.tensor(node.inputs[i]));
  };
  const TensorView made = fragment.tensor(node.outputs[0]);
  const Place result = builder.output_place(node.outputs[0]);
  if (made.elements() == 0) return {};
  Plane to(result, made);
  if (!gradient) {
    builder.add(std::make_unique<ForwardStep<T, greatest>>(Window(node), input(0), to));
    return {};
  }
  const bool direct = std::is_same_v<T, Sum<T>>;
  if (!direct) {
    to.place = builder.scratch(made.elements() * sizeof(Sum<T>));
    to.strides = {to.dims[1] * to.dims[2] * to.dims[3], to.dims[2] * to.dims[3], to.dims[3], 1};
  }
  const Plane x = greatest ? input(1) : to;
  builder.add(std::make_unique<BackwardStep<T, greatest>>(Window(node), input(0), x, to));
  if (direct) return {};
  builder.add(TN_TRY(copy_step(to.place, View::dense(TN_DTYPE_f32, made.elements()), result, View(made))));
  return {};
}

template <class T>
Status build_as(Builder& builder, const tn_node& node) {
  const bool gradient = node.op == TN_OP_max_pool_grad || node.op == TN_OP_avg_pool_grad;
  return node.op == TN_OP_max_pool || node.op == TN_OP_max_pool_grad
             ? build<T, true>(builder, node, gradient)
             : build<T, false>(builder, node, gradient);
}

}  // namespace

Status build_pool(Builder& builder, const tn_node& node, unsigned) {
  if (node.op == TN_OP_global_pool) {
    const Axes image{.kept = {0, 1}, .reduced = {2, 3}, .kept_count = 2, .reduced_count = 2};
    return build_fold(builder, node, TN_OP_mean, image);
  }
  switch (builder.fragment().tensor(node.outputs[0]).dtype()) {
    case TN_DTYPE_f16:
      return build_as<F16>(builder, node);
    case TN_DTYPE_bf16:
      return build_as<BF16>(builder, node);
    case TN_DTYPE_f32:
      return build_as<float>(builder, node);
    default:
      return build_as<double>(builder, node);
  }
}

}  // namespace tenon::cpu
