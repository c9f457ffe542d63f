// SPDX-License-Identifier: Apache-2.0
// updates.cpp: optimizers and loss scaling, one parameter and many.
#include "fragments.hpp"

#include <tenon/author/op_update.hpp>

namespace tenon::cuda::test {

using author::FragmentBuilder;
using Dims = std::vector<int64_t>;

namespace {

// What all parameters of a step share.
struct Step {
  uint32_t rate = TN_ABSENT, step = TN_ABSENT, found_inf = TN_ABSENT, inverse_scale = TN_ABSENT;

  explicit Step(FragmentBuilder& f) : rate(f.input(TN_DTYPE_f32, {})), step(f.input(TN_DTYPE_f32, {})) {}
};

struct Parameter {
  uint32_t weight, gradient, state;
  bool master;
};

// The update of one parameter, in place.
void update(FragmentBuilder& f, uint32_t op, const Parameter& types, const Dims& dims, const Step& step,
            uint32_t gradient) {
  const auto form = author::optimizer_form(op);
  std::vector<uint32_t> in = {f.input(types.weight, dims), gradient}, out = {f.output(types.weight, dims)};
  for (uint32_t s = 0; s < form.states; ++s) {
    in.push_back(f.input(types.state, dims));
    out.push_back(f.output(types.state, dims));
  }
  in.push_back(step.rate);
  if (form.stepped) in.push_back(step.step);
  in.push_back(types.master ? f.input(types.state, dims) : TN_ABSENT);
  out.push_back(types.master ? f.output(types.state, dims) : TN_ABSENT);
  in.push_back(step.found_inf);
  in.push_back(step.inverse_scale);
  if (op == TN_OP_sgd) out.push_back(TN_ABSENT);
  auto& node = f.node(op, in, out).real("weight_decay", 0.01);
  if (op == TN_OP_momentum) node.real("momentum", 0.9).integer("nesterov", types.master ? 1 : 0);
  if (form.stepped) node.real("beta1", 0.9).real("beta2", 0.999).real("epsilon", 1e-8);
}

void alone(FragmentBuilder& f, uint32_t op, const Parameter& types) {
  Step step(f);
  step.found_inf = f.input(TN_DTYPE_f32, {});
  step.inverse_scale = f.input(TN_DTYPE_f32, {});
  update(f, op, types, {1 << 22}, step, f.input(types.gradient, {1 << 22}));
}

// A step of mixed precision: all gradients looked at and divided by the loss scale, then every parameter.
void many(FragmentBuilder& f, uint32_t op, const Parameter& types, size_t count) {
  static const Dims shapes[] = {{64, 3, 7, 7}, {64}, {256, 64, 1, 1}, {1000, 2048}, {1000}, {33}};
  Step step(f);
  std::vector<uint32_t> scaled = {f.input(TN_DTYPE_f32, {})}, plain = {f.tensor(TN_DTYPE_f32, {})};
  for (size_t i = 0; i < count; ++i) {
    const Dims& dims = shapes[i % std::size(shapes)];
    scaled.push_back(f.input(types.gradient, dims));
    plain.push_back(f.tensor(types.gradient, dims));
  }
  f.node(TN_OP_check_finite_and_unscale, scaled, plain);
  step.found_inf = plain[0];
  for (size_t i = 0; i < count; ++i) update(f, op, types, shapes[i % std::size(shapes)], step, plain[i + 1]);
}

// Many kinds of parameters in one launch.
void of_all_kinds(FragmentBuilder& f) {
  constexpr Parameter all[] = {{TN_DTYPE_f32, TN_DTYPE_f32, TN_DTYPE_f32, false},
                               {TN_DTYPE_bf16, TN_DTYPE_bf16, TN_DTYPE_f32, true},
                               {TN_DTYPE_f32, TN_DTYPE_f16, TN_DTYPE_f32, true},
                               {TN_DTYPE_f16, TN_DTYPE_f32, TN_DTYPE_f32, false}};
  const Step step(f);
  for (const uint32_t op : {TN_OP_sgd, TN_OP_momentum, TN_OP_adam}) {
    for (const Parameter& one : all) update(f, op, one, {100003}, step, f.input(one.gradient, {100003}));
  }
}

void unscale(FragmentBuilder& f, uint32_t dtype) {
  const uint32_t scale = f.input(TN_DTYPE_f32, {}), found = f.output(TN_DTYPE_f32, {});
  f.node(TN_OP_check_finite_and_unscale, {scale, f.input(dtype, {1 << 22}), f.input(dtype, {1003})},
         {found, f.output(dtype, {1 << 22}), f.output(dtype, {1003})});
}

void scale_loss(FragmentBuilder& f) {
  const uint32_t t = TN_DTYPE_f32;
  f.node(TN_OP_update_loss_scaling, {f.input(t, {}), f.input(t, {}), f.input(t, {}), f.input(t, {})},
         {f.output(t, {}), f.output(t, {}), f.output(t, {})})
      .integer("decr_every_n_nan_or_inf", 2)
      .integer("incr_every_n_steps", 1000)
      .real("decr_ratio", 0.5)
      .real("incr_ratio", 2);
}

void in_another_order(FragmentBuilder& f) {
  const uint32_t t = TN_DTYPE_f32;
  f.node(TN_OP_sgd, {f.input(t, {64, 48}, {1, 64}), f.input(t, {64, 48}), f.input(t, {})},
         {f.output(t, {64, 48}, {1, 64})})
      .real("weight_decay", 0.5);
}

}  // namespace

void add_updates(std::vector<Example>& out) {
  constexpr Parameter plain{TN_DTYPE_f32, TN_DTYPE_f32, TN_DTYPE_f32, false},
      bf16{TN_DTYPE_bf16, TN_DTYPE_bf16, TN_DTYPE_f32, true},
      mixed{TN_DTYPE_f32, TN_DTYPE_f16, TN_DTYPE_f32, false},
      wide{TN_DTYPE_f64, TN_DTYPE_f64, TN_DTYPE_f64, true};
  static constexpr std::pair<const char*, Parameter> all[] = {
      {"f32", plain}, {"bf16_master", bf16}, {"f32_of_f16", mixed}, {"f64_master", wide}};
  for (const uint32_t op : {TN_OP_sgd, TN_OP_momentum, TN_OP_adam, TN_OP_adamw}) {
    for (const auto& [name, types] : all)
      out.push_back(
          {std::string(author::op_name(op)) + "_" + name, [op, &types](auto& f) { alone(f, op, types); }});
  }
  for (const auto& [name, types] : all)
    out.push_back({std::string("updates_") + name, [&types](auto& f) { many(f, TN_OP_adamw, types, 161); }});
  out.push_back({"updates_most", [](auto& f) {
                   many(f, TN_OP_sgd, {TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f32, false}, 1360);
                 }});
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64})
    out.push_back(
        {"unscale_" + std::string(author::dtype_name(dtype)), [dtype](auto& f) { unscale(f, dtype); }});
  out.push_back({"updates_of_all_kinds", of_all_kinds});
  out.push_back({"loss_scaling", scale_loss});
  out.push_back({"sgd_in_another_order", in_another_order});
}

}  // namespace tenon::cuda::test
