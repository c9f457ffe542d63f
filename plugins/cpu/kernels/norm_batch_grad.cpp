// SPDX-License-Identifier: Apache-2.0
// norm_batch_grad.cpp: batch_norm_grad, _grad_stats and _grad_apply: Σdy and Σdy·(x − mean) of a channel, and
// dx = slope·(dy − level − (x − mean)·tilt). Behind a relu dy is what its gradient lets through, of what relu was given, made again of
// x, or of y.
//
// Invariant: sums are kept in the kernel's type over at most 64 additions per lane, and in f64 beyond.
#include "joined.hpp"
#include "norm.hpp"
#include "norm_channels.hpp"
#include "norm_formulas.hpp"
#include "norm_loops.hpp"

namespace tenon::cpu {
namespace {

struct Places {
  Place scale, mean, inverse, sum, product, count;  // inputs
  Place out_sum, out_product;                       // Σdy and Σdy·x̂
  Place slope, level, tilt;  // coefficients; beside the mean, which is repeated in `centre`
  Place centre;
};

// What makes that again which relu was given: (x − centre)·slope + level.
struct Given {
  Place scale, bias, mean, inverse;  // inputs; none where nothing is made again
  Place centre, slope, level;        // coefficients, those of the gradient where they are the same
};

// The greatest number that is 0 in the type.
template <class T>
T greatest_zero(uint32_t dtype) noexcept {
  return dtype == TN_DTYPE_bf16 ? T(0x1p-134) : dtype == TN_DTYPE_f16 ? T(0x1p-25) : T(0);
}

template <class T>
class BatchNormGrad final : public ChannelStep {
 public:
  // `again`: gives the apply what `in` gave the fold, and stored; or empty. `least`: beyond it what relu was given is greater than 0.
  BatchNormGrad(Builder& builder, const Channels& shape, uint32_t op, Chain in, Chain again, Chain out,
                const Places& places, const Given& given, T least)
      : ChannelStep(builder, shape, op != TN_OP_batch_norm_grad_apply, !out.empty(), 3 * sizeof(T),
                    sizeof(T)),
        op_(op),
        in_(std::move(in)),
        again_(std::move(again)),
        out_(std::move(out)),
        places_(places),
        given_(given),
        least_(least) {
    generate();
  }

 private:
  // Of pixels, whose coefficients lie side by side as elements do.
  void generate() {
    using N = Joined::Number;
    if (!shape().pixels) return;
    constexpr Beside each = Beside::each, changed = Beside::changed;
    const auto least = static_cast<float>(least_);
    const auto fold = [&](std::initializer_list<Beside> beside) {
      return Joined(in_, !again_.empty(), nullptr, beside, [&](auto of, auto with) {
        const N g =
            makes_again() ? norm::let_through<N>(of[0], of[1], with[3], with[4], with[5], least) : of[0];
        norm::dots(with[0], with[1], g, of[1], with[2]);
        return N{};
      });
    };
    folding_ =
        makes_again() ? fold({changed, changed, each, each, each, each}) : fold({changed, changed, each});
    if (out_.empty()) return;
    const auto apply = [&](std::initializer_list<Beside> beside) {
      return Joined(applied(), true, &out_, beside, [&](auto of, auto with) {
        const N g =
            makes_again() ? norm::let_through<N>(of[0], of[1], with[4], with[5], with[6], least) : of[0];
        return norm::gradient<N>(g, of[1], with[0], with[1], with[2], with[3]);
      });
    };
    applying_ =
        makes_again() ? apply({each, each, each, each, each, each, each}) : apply({each, each, each, each});
  }

  struct Operands {
    const T *g, *x;
  };
  // Room for what relu's gradient lets through.
  struct Tile {
    alignas(64) T of[Chain::slot_bytes / sizeof(T)];
  };
  bool makes_again() const noexcept { return given_.mean.kind != Place::Kind::none; }
  // What the apply reads.
  const Chain& applied() const { return again_.empty() ? in_ : again_; }
  Operands read_to_fold(const Run& run, uint64_t at, uint32_t n, Chain::Scratch& scratch) const {
    return operands(in_.read(run, at, n, scratch, !again_.empty()));
  }
  Operands read_to_apply(const Run& run, uint64_t at, uint32_t n, Chain::Scratch& scratch) const {
    return operands(applied().read(run, at, n, scratch, true));
  }
  // n elements of one channel, and n from `position` in a period on.
  const T* let_through(const Run& run, const Operands& of, uint64_t channel, uint32_t n, T* to) const {
    if (!makes_again()) return of.g;
    loops_.let_through_run(to, of.g, of.x, at(run, given_.centre)[channel], at(run, given_.slope)[channel],
                           at(run, given_.level)[channel], least_, n);
    return to;
  }
  const T* let_through_each(const Run& run, const Operands& of, uint64_t position, uint32_t n, T* to) const {
    if (!makes_again()) return of.g;
    loops_.let_through_each(to, of.g, of.x, at(run, given_.centre) + position,
                            at(run, given_.slope) + position, at(run, given_.level) + position, least_, n);
    return to;
  }
  static Operands operands(const Chain::Tiles& tiles) {
    return {static_cast<const T*>(tiles.of(0)), static_cast<const T*>(tiles.of(1))};
  }
  T* at(const Run& run, const Place& place) const { return reinterpret_cast<T*>(run.at(place)); }
  double input(const Run& run, const Place& place, uint64_t i) const {
    return static_cast<double>(at(run, place)[i]);
  }
  void output(const Run& run, const Place& place, uint64_t i, double value) const {
    if (place.kind != Place::Kind::none) at(run, place)[i] = static_cast<T>(value);
  }

  void fold_plane(const Run& run, uint64_t from, uint32_t n, uint64_t channel, ChannelSums& sums,
                  uint64_t) const override {
    Chain::Scratch scratch;
    Tile tile;
    const Operands operands = read_to_fold(run, from, n, scratch);
    const Dots more = loops_.dots(let_through(run, operands, channel, n, tile.of), operands.x,
                                  at(run, places_.mean)[channel], n);
    sums.a += more.sum;
    sums.b += more.product;
  }

  void fold_periods(const Run& run, uint64_t first, uint64_t end, void* state, double* sum,
                    double* product) const override {
    constexpr uint64_t rows = 64;
    const uint64_t period = shape().period;
    T* const block_sum = static_cast<T*>(state);
    T* const block_product = block_sum + period;
    while (first < end) {
      std::fill_n(block_sum, 2 * period, T(0));
      for (const uint64_t block_end = std::min(first + rows, end); first < block_end; ++first)
        fold_period(run, first * period, block_sum, block_product);
      loops_.add_each(sum, block_sum, period);
      loops_.add_each(product, block_product, period);
    }
  }

  void fold_period(const Run& run, uint64_t from, T* sum, T* product) const {
    Chain::Scratch scratch;
    Tile tile;
    const uint64_t length = std::min(shape().period, shape().elements() - from);
    if (folding_)
      return folding_.run(run, from, length,
                          {sum, product, at(run, places_.centre), at(run, given_.centre),
                           at(run, given_.slope), at(run, given_.level)});
    for (uint64_t done = 0; done < length; done += shape().tile) {
      const auto n = static_cast<uint32_t>(std::min(shape().tile, length - done));
      const Operands operands = read_to_fold(run, from + done, n, scratch);
      loops_.dots_each(sum + done, product + done, let_through_each(run, operands, done, n, tile.of),
                       operands.x, at(run, places_.centre) + done, n);
    }
  }

  void join_each(double* sum, double* product, const double* more_sum, const double* more_product, double,
                 double, uint64_t n) const override {
    in_doubles_.add_each(sum, more_sum, n);
    in_doubles_.add_each(product, more_product, n);
  }

  void start(const Run& run) const override {
    for (uint64_t c = 0; c < shape().channels; ++c) {
      if (shape().pixels) spread(at(run, places_.centre), c, at(run, places_.mean)[c]);
      if (!makes_again()) continue;
      spread(at(run, given_.centre), c, at(run, given_.mean)[c]);
      spread(at(run, given_.slope), c,
             static_cast<T>(input(run, given_.scale, c) * input(run, given_.inverse, c)));
      spread(at(run, given_.level), c, at(run, given_.bias)[c]);
    }
  }

  void finish(const Run& run, uint64_t channel, const ChannelSums& sums) const override {
    const double inverse = input(run, places_.inverse, channel);
    double sum = sums.a, product = sums.b * inverse, count = static_cast<double>(shape().count());
    if (op_ == TN_OP_batch_norm_grad_apply) {
      sum = input(run, places_.sum, channel);
      product = input(run, places_.product, channel);
      count = input(run, places_.count, 0);
    }
    output(run, places_.out_sum, channel, sum);
    output(run, places_.out_product, channel, product);
    if (op_ == TN_OP_batch_norm_grad_stats) return;
    spread(at(run, places_.slope), channel, static_cast<T>(input(run, places_.scale, channel) * inverse));
    spread(at(run, places_.level), channel, static_cast<T>(sum / count));
    spread(at(run, places_.tilt), channel, static_cast<T>(inverse * (product / count)));
  }

  void apply_planes(const Run& run, uint64_t from, uint64_t planes, uint32_t n,
                    uint64_t channel) const override {
    Chain::Scratch in, out;
    Tile tile;
    const auto all = static_cast<uint32_t>(planes * n);
    const Operands operands = read_to_apply(run, from, all, in);
    T* const dx = static_cast<T*>(out_.target(run, from, out));
    const T *mean = at(run, places_.mean) + channel, *slope = at(run, places_.slope) + channel,
            *level = at(run, places_.level) + channel, *tilt = at(run, places_.tilt) + channel;
    for (uint64_t i = 0; i < planes; ++i) {
      const Operands plane{operands.g + i * n, operands.x + i * n};
      loops_.gradient_run(dx + i * n, let_through(run, plane, channel + i, n, tile.of), plane.x, mean[i],
                          slope[i], level[i], tilt[i], n);
    }
    out_.write(run, from, all, out);
  }

  void apply_pixels(const Run& run, uint64_t from, uint32_t n, uint64_t position) const override {
    if (applying_)
      return applying_.run(run, from, n,
                           {at(run, places_.centre) + position, at(run, places_.slope) + position,
                            at(run, places_.level) + position, at(run, places_.tilt) + position,
                            at(run, given_.centre) + position, at(run, given_.slope) + position,
                            at(run, given_.level) + position});
    Chain::Scratch in, out;
    Tile tile;
    const Operands operands = read_to_apply(run, from, n, in);
    loops_.gradient_each(static_cast<T*>(out_.target(run, from, out)),
                         let_through_each(run, operands, position, n, tile.of), operands.x,
                         at(run, places_.centre) + position, at(run, places_.slope) + position,
                         at(run, places_.level) + position, at(run, places_.tilt) + position, n);
    out_.write(run, from, n, out);
  }

  const NormLoops<T>& loops_ = norm_loops<T>();
  const NormLoops<double>& in_doubles_ = norm_loops<double>();
  uint32_t op_;
  Chain in_, again_, out_;
  Joined folding_, applying_;
  Places places_;
  Given given_;
  T least_;
};

// Where inputs 2 … and the outputs beside dx go, by op.
struct Roles {
  std::vector<Place*> inputs, outputs;
};
Roles roles_of(uint32_t op, Places& places) {
  if (op == TN_OP_batch_norm_grad_stats)
    return {{&places.mean, &places.inverse}, {&places.out_sum, &places.out_product}};
  if (op == TN_OP_batch_norm_grad)
    return {{&places.scale, &places.mean, &places.inverse}, {&places.out_product, &places.out_sum}};
  return {{&places.scale, &places.mean, &places.inverse, &places.sum, &places.product, &places.count}, {}};
}

// What the apply that is made again reads, and room for its coefficients.
template <class T>
Result<Given> given_of(Builder& builder, Arrangement& arrangement, const tn_node& apply, const Places& places,
                       uint64_t bytes) {
  constexpr uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  Given out;
  Place* const inputs[] = {&out.scale, &out.bias, &out.mean, &out.inverse};
  for (uint32_t i = 0; i < 4; ++i) *inputs[i] = TN_TRY(arrangement.parameter(apply.inputs[1 + i], dtype));
  const bool same_slope = out.scale == places.scale && out.inverse == places.inverse;
  out.centre = out.mean == places.mean ? places.centre : builder.scratch(bytes);
  out.slope = same_slope ? places.slope : builder.scratch(bytes);
  out.level = builder.scratch(bytes);
  return out;
}

template <class T>
Status build(Builder& builder, const KernelGroup& group) {
  const tn_node& node = group.node;
  const uint32_t dtype = sizeof(T) == 8 ? TN_DTYPE_f64 : TN_DTYPE_f32;
  const TensorView x = builder.fragment().tensor(node.inputs[1]);
  const bool stats = node.op == TN_OP_batch_norm_grad_stats;
  const Channels shape(x, Chain(class_of(dtype)).tile());
  Arrangement arrangement(builder, shape.order(x.rank()));
  FusedNodes fused(builder, arrangement, group);
  const uint32_t relu_grad = group.again ? group.again->relu_grad : group.kernel;
  const uint32_t operands[] = {builder.fragment().nodes()[relu_grad].inputs[0], node.inputs[1]};
  Chain in = TN_TRY(fused.read(operands));
  Chain again(class_of(dtype));
  if (node.op == TN_OP_batch_norm_grad) again = TN_TRY(fused.read_again(operands));
  Chain out = stats ? Chain(class_of(dtype)) : TN_TRY(fused.write(node.outputs[0]));
  Places places;
  const Roles roles = roles_of(node.op, places);
  for (size_t i = 0; i < roles.inputs.size(); ++i)
    *roles.inputs[i] = TN_TRY(arrangement.parameter(node.inputs[2 + i], dtype));
  for (size_t i = 0; i < roles.outputs.size(); ++i)
    *roles.outputs[i] = arrangement.statistic(node.outputs[i + (stats ? 0 : 1)], dtype);
  const uint64_t bytes = shape.coefficients() * sizeof(T);
  for (Place* place : {&places.centre, &places.slope, &places.level, &places.tilt})
    *place = builder.scratch(bytes);
  Given given;
  if (group.again) {
    const tn_node& apply = builder.fragment().nodes()[group.again->apply];
    given = TN_TRY(given_of<T>(builder, arrangement, apply, places, bytes));
  }
  builder.add(std::make_unique<BatchNormGrad<T>>(builder, shape, node.op, std::move(in), std::move(again),
                                                 std::move(out), places, given, greatest_zero<T>(x.dtype())));
  return arrangement.finish();
}

}  // namespace

Status build_batch_norm_grad(Builder& builder, const KernelGroup& group) {
  const bool wide = kernel_class(builder.fragment(), group.node) == Reg::f64;
  return wide ? build<double>(builder, group) : build<float>(builder, group);
}

}  // namespace tenon::cpu
