// SPDX-License-Identifier: Apache-2.0
// updates_test.cpp: many updates in few launches give, bit for bit, what they give one by one; a bad step changes nothing.
#include "updates.hpp"

#include "support/full.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <limits>

using namespace cuda_test;

namespace {

struct Bench {
  World world{};
  Device device = open_device();
  Stream stream = make_stream(device);

  std::vector<Bytes> run(Group& group, uint64_t shift = 0) {
    const Kernel kernel = compile(device, group.builder.fragment());
    return group.run(device, stream, kernel, shift);
  }
};

struct Scalars {
  Shared rate = scalar(0.0625F), step = scalar(7), found_inf = scalar(0), inverse_scale = scalar(0.75F);
};

// Of any kind, size and layout; `guarded` by a flag, and then perhaps with a factor for its gradient.
Update random_update(Random& random, const Scalars& scalars, bool guarded) {
  static const std::vector<Dims> shapes = {{}, {1}, {0}, {63}, {64, 3}, {513}, {4000}, {30, 257}};
  constexpr uint32_t ops[] = {TN_OP_sgd, TN_OP_momentum, TN_OP_adam, TN_OP_adamw};
  constexpr uint32_t types[] = {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};
  Update out{.op = ops[random() % 4], .inputs = {}, .renews = {0}, .nesterov = random() % 2 == 0};
  const Dims dims = shapes[random() % shapes.size()];
  const Dims turned = dims.size() == 2 && random() % 2 == 0 ? Dims{1, dims[0]} : Dims{};
  const uint32_t dtype = types[random() % 4], state = dtype == TN_DTYPE_f64 ? dtype : uint32_t{TN_DTYPE_f32};
  const auto form = tenon::author::optimizer_form(out.op);
  out.inputs = {random_tensor(dtype, dims, random, turned), random_tensor(types[random() % 4], dims, random)};
  for (uint32_t s = 0; s < form.states; ++s) {
    out.renews.push_back(static_cast<int>(out.inputs.size()));
    out.inputs.push_back(random_tensor(state, dims, random, {}, s == 1));
  }
  out.inputs.push_back(scalars.rate);
  if (form.stepped) out.inputs.push_back(scalars.step);
  const bool master = random() % 2 == 0;
  out.renews.push_back(master ? static_cast<int>(form.master()) : -1);
  out.inputs.push_back(master ? random_tensor(state, dims, random) : nullptr);
  out.inputs.push_back(guarded ? scalars.found_inf : nullptr);
  out.inputs.push_back(guarded && random() % 2 == 0 ? scalars.inverse_scale : nullptr);
  if (out.op == TN_OP_sgd) out.renews.push_back(random() % 2 == 0 ? 1 : -1);
  return out;
}

// As a step of training leaves it: the weight is its master rounded, and the gradient has no memory of its own.
Update settled_update(Random& random, const Scalars& scalars) {
  Update out = random_update(random, scalars, true);
  if (out.op == TN_OP_sgd) out.renews.back() = -1;
  const Shared& master = out.inputs[tenon::author::optimizer_form(out.op).master()];
  if (master == nullptr) return out;
  out.inputs[0] = tensor(out.inputs[0]->dtype, out.inputs[0]->dims);
  for (uint64_t i = 0; i < master->extent(); ++i) out.inputs[0]->set(i, static_cast<float>(master->at(i)));
  return out;
}

std::vector<Update> settled_updates(Random& random, const Scalars& scalars, size_t count) {
  std::vector<Update> out;
  while (out.size() < count) out.push_back(settled_update(random, scalars));
  return out;
}

// A gradient of more than one chunk, and the last of its elements.
std::pair<Shared, uint64_t> last_of_a_large_gradient(std::vector<Update>& updates, Random& random,
                                                     const Scalars& scalars) {
  while (updates.back().inputs[1]->extent() < 4000) updates.push_back(settled_update(random, scalars));
  return {updates.back().inputs[1], updates.back().inputs[1]->extent() - 1};
}

float float_of(const Bytes& bytes, size_t i = 0) {
  float out = 0;
  std::memcpy(&out, bytes.data() + i * sizeof out, sizeof out);
  return out;
}

// found_inf, scale, good, bad → scale, good, bad
void scale_loss(Group& group, const Shared& found, const Shared& scale, const Shared& good, const Shared& bad,
                bool in_place) {
  const std::vector<uint32_t> in = {group.input(found), group.input(scale), group.input(good),
                                    group.input(bad)};
  const std::vector<uint32_t> out = {group.output(scale, in_place), group.output(good, in_place),
                                     group.output(bad, in_place)};
  group.builder.node(TN_OP_update_loss_scaling, in, out)
      .integer("decr_every_n_nan_or_inf", 2)
      .integer("incr_every_n_steps", 3)
      .real("decr_ratio", 0.25)
      .real("incr_ratio", 4);
}

}  // namespace

TEST_CASE("updates: a group of mixed optimizers, dtypes, layouts and sizes equals its nodes, bit for bit") {
  CUDA_DRIVER("");
  Bench bench;
  Random random(tenon::test::seed());
  const auto rounds = tenon::test::full_or<size_t>("groups", 1, 12);
  for (size_t round = 0; round < rounds; ++round) {
    const Scalars scalars;
    Group fused;
    std::vector<Update> updates;
    for (int i = 0; i < 16; ++i) {
      updates.push_back(random_update(random, scalars, random() % 2 == 0));
      fused.add(updates.back(), true);
    }
    std::vector<Bytes> apart;
    for (const Update& update : updates) {
      Group one;
      one.add(update, false);
      for (Bytes& bytes : bench.run(one)) apart.push_back(std::move(bytes));
    }
    CHECK(bench.run(fused) == apart);
    CHECK(bench.run(fused, 1) == apart);  // at addresses that no wide access takes
  }
}

TEST_CASE("updates: dividing gradients on the way in equals dividing them in memory, for any scale") {
  CUDA_DRIVER("");
  Bench bench;
  Random random(tenon::test::seed());
  const Scalars scalars;
  const Shared scale = scalar(1);
  const std::vector<Update> updates = settled_updates(random, scalars, 10);
  Group step, divide, plain;
  step.unscale(updates, scale, scalars.found_inf);
  std::vector<Update> divided = updates;
  std::vector<uint32_t> in = {divide.input(scale)}, out = {divide.builder.tensor(TN_DTYPE_f32, {})};
  for (size_t i = 0; i < updates.size(); ++i) {
    step.add(updates[i], true);
    const Shared& g = updates[i].inputs[1];
    in.push_back(divide.input(g));
    out.push_back(divide.output(g, false));
    divided[i].inputs[1] = tensor(g->dtype, g->dims);
    plain.add(divided[i], false);
  }
  divide.builder.node(TN_OP_check_finite_and_unscale, in, out);
  const Kernel together = compile(bench.device, step.builder.fragment()),
               first = compile(bench.device, divide.builder.fragment()),
               second = compile(bench.device, plain.builder.fragment());
  CHECK(workspace_bytes(together) == 256);  // the flag alone
  for (const float value : {65536.0F, 3.0F, 0.1F, 0x1p-130F, 1.0F}) {
    scale->set(0, value);
    const std::vector<Bytes> quotients = divide.run(bench.device, bench.stream, first);
    for (size_t i = 0; i < updates.size(); ++i) divided[i].inputs[1]->bytes = quotients[i];
    CAPTURE(value);
    CHECK(step.run(bench.device, bench.stream, together) == plain.run(bench.device, bench.stream, second));
  }
}

TEST_CASE("updates: a step in which one gradient is not finite changes no byte") {
  CUDA_DRIVER("");
  Bench bench;
  Random random(tenon::test::seed());
  const Scalars scalars;
  std::vector<Update> updates = settled_updates(random, scalars, 10);
  const auto [gradient, last] = last_of_a_large_gradient(updates, random, scalars);
  // A NaN with bits of its own among the moments and the weights stays as it is.
  for (const Update& update : updates) {
    if (update.inputs[0]->dtype == TN_DTYPE_f16 && update.renews[0] == 0 && update.inputs[0]->extent() > 8 &&
        update.inputs[tenon::author::optimizer_form(update.op).master()] == nullptr)
      reinterpret_cast<uint16_t&>(update.inputs[0]->bytes[6]) = 0x7D55;
  }
  Group step;
  step.unscale(updates, scalar(1024), scalars.found_inf);
  for (const Update& update : updates) step.add(update, true);
  const Kernel kernel = compile(bench.device, step.builder.fragment());
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    for (const uint64_t shift : {0, 1}) {
      gradient->set(last, bad);
      const std::vector<Bytes> after = step.run(bench.device, bench.stream, kernel, shift);
      for (size_t i = 0; i < after.size(); ++i) CHECK(after[i] == step.before(i));
      gradient->set(last, 1);
      CHECK(step.run(bench.device, bench.stream, kernel, shift) != after);
    }
  }
}

TEST_CASE("updates: a gradient that is written keeps its bytes in a bad step") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared w = tensor(TN_DTYPE_f32, {100}), g = tensor(TN_DTYPE_f16, {100}), flag = scalar(1);
  reinterpret_cast<uint16_t&>(g->bytes[0]) = 0xFD55;
  Group group;
  group.add({.op = TN_OP_sgd, .inputs = {w, g, scalar(1), nullptr, flag, scalar(0.5F)}, .renews = {0, -1, 1}},
            false);
  CHECK(bench.run(group) == std::vector<Bytes>{w->bytes, g->bytes});
}

TEST_CASE("updates: 1,360 parameters are one step, past the 4,096 bytes that parameters once had") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared rate = scalar(0.5F), scale = scalar(2), found = scalar(0);
  std::vector<Update> updates;
  for (int i = 0; i < 1360; ++i) {
    updates.push_back({.op = TN_OP_sgd,
                       .inputs = {tensor(TN_DTYPE_f32, {1 + i % 19}), tensor(TN_DTYPE_bf16, {1 + i % 19}),
                                  rate, nullptr, found},
                       .renews = {0},
                       .decay = 0});
    for (uint64_t n = 0; n < updates.back().inputs[0]->extent(); ++n) {
      updates.back().inputs[0]->set(n, static_cast<float>(i));
      updates.back().inputs[1]->set(n, static_cast<float>(n));
    }
  }
  Group step;
  step.unscale(updates, scale, found);
  for (const Update& update : updates) step.add(update, true);
  const tn_support support = supports(bench.device, step.builder.fragment());
  CHECK(support.verdict == TN_SUPPORT_NATIVE);
  for (size_t i = 0; i < updates.size(); ++i) CHECK(tenon::author::honours(support, i));
  const std::vector<Bytes> after = bench.run(step);
  size_t wrong = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    for (size_t n = 0; n < after[i].size() / 4; ++n)
      wrong += float_of(after[i], n) == static_cast<float>(i) - static_cast<float>(n) / 4 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("updates: what one update makes, another of the same step may read") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared w = tensor(TN_DTYPE_f32, {4}), g = tensor(TN_DTYPE_f32, {4}), rate = scalar(0.25F);
  for (uint64_t i = 0; i < 4; ++i) {
    w->set(i, static_cast<float>(i));
    g->set(i, 2);
  }
  Group twice;
  const uint32_t once = twice.builder.tensor(TN_DTYPE_f32, {4});
  twice.builder.node(TN_OP_sgd, {twice.input(w), twice.input(g), twice.input(rate)}, {once})
      .real("weight_decay", 0);
  twice.builder.node(TN_OP_sgd, {once, twice.input(g), twice.input(rate)}, {twice.output(w, false)})
      .real("weight_decay", 0);
  const std::vector<Bytes> after = bench.run(twice);
  for (size_t i = 0; i < 4; ++i) CHECK(float_of(after[0], i) == static_cast<float>(i) - 1);
}

TEST_CASE("updates: an output that is bound twice, and one that is an input, are copies") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared w = scalar(3), g = scalar(1), rate = scalar(0.5F);
  FragmentBuilder f;
  const uint32_t in[] = {f.input(TN_DTYPE_f32, {}), f.input(TN_DTYPE_f32, {}), f.input(TN_DTYPE_f32, {})};
  f.node(TN_OP_sgd, {in[0], in[1], in[2]}, {f.output(TN_DTYPE_f32, {})}).real("weight_decay", 0);
  tn_fragment fragment = f.fragment();
  const uint32_t outputs[] = {fragment.outputs[0], fragment.outputs[0], in[0]};
  fragment.outputs = outputs;
  fragment.output_count = 3;
  const Kernel kernel = compile(bench.device, fragment);
  const Memory memory = allocate(bench.device, 4096);
  std::vector<tn_span> bindings;
  for (uint64_t i = 0; i < 6; ++i) bindings.push_back(span(memory, 256 * i, 4));
  const Shared given[] = {w, g, rate};
  for (size_t i = 0; i < 3; ++i) copy(bench.stream, bindings[i], host_span(given[i]->bytes.data(), 4));
  launch(kernel, bench.stream, bindings, {});
  const float wanted[] = {2.5F, 2.5F, 3};
  for (size_t i = 0; i < 3; ++i) {
    const auto got = download(bench.stream, bindings[3 + i]);
    CHECK(*reinterpret_cast<const float*>(got.data()) == wanted[i]);
  }
}

TEST_CASE("updates: scalars that are part of the fragment are as good as bound ones") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared w = scalar(3), g = scalar(1);
  Group group;
  const float half = 0.5F;
  const uint32_t rate = group.builder.constant(
      TN_DTYPE_f32, {},
      Bytes(reinterpret_cast<const std::byte*>(&half), reinterpret_cast<const std::byte*>(&half) + 4));
  group.builder.node(TN_OP_sgd, {group.input(w), group.input(g), rate}, {group.output(w, false)})
      .real("weight_decay", 0);
  CHECK(float_of(bench.run(group)[0]) == 2.5F);
}

TEST_CASE("updates: bad steps shrink the scale, good ones let it grow, each forgets the other") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared found = scalar(0), scale = scalar(64), good = scalar(0), bad = scalar(0);
  Group group;
  scale_loss(group, found, scale, good, bad, true);
  const Kernel kernel = compile(bench.device, group.builder.fragment());
  struct {
    float found, scale, good, bad;
  } const steps[] = {{0, 64, 1, 0},  {0, 64, 2, 0},   {0, 256, 0, 0}, {1, 256, 0, 1}, {0, 256, 1, 0},
                     {1, 256, 0, 1}, {NAN, 64, 0, 0}, {1, 64, 0, 1},  {1, 16, 0, 0}};
  for (const auto& step : steps) {
    found->set(0, step.found);
    const std::vector<Bytes> after = group.run(bench.device, bench.stream, kernel);
    CHECK(float_of(after[0]) == step.scale);
    CHECK(float_of(after[1]) == step.good);
    CHECK(float_of(after[2]) == step.bad);
    scale->bytes = after[0], good->bytes = after[1], bad->bytes = after[2];
  }
  scale->set(0, 0x1p127F), good->set(0, 2), found->set(0, 0);
  CHECK(float_of(group.run(bench.device, bench.stream, kernel)[0]) ==
        0x1p127F);  // four times that is infinite
  scale->set(0, 2), bad->set(0, 1), found->set(0, 1);
  CHECK(float_of(group.run(bench.device, bench.stream, kernel)[0]) == 1);
}

TEST_CASE("updates: a scale that moves in place is the old one for the gradients of its step") {
  CUDA_DRIVER("");
  Bench bench;
  const Shared w = tensor(TN_DTYPE_f32, {300}), g = tensor(TN_DTYPE_f32, {300}), rate = scalar(1),
               found = scalar(0), scale = scalar(2), good = scalar(2), bad = scalar(0);
  for (uint64_t i = 0; i < 300; ++i) g->set(i, static_cast<float>(i));
  Group step;
  const std::vector<Update> updates = {
      {.op = TN_OP_sgd, .inputs = {w, g, rate, nullptr, found}, .renews = {0}, .decay = 0}};
  step.unscale(updates, scale, found);
  step.add(updates[0], true);
  scale_loss(step, found, scale, good, bad, true);
  const std::vector<Bytes> after = bench.run(step);
  for (size_t i = 0; i < 300; ++i) CHECK(float_of(after[0], i) == -static_cast<float>(i) / 2);
  CHECK(float_of(after[1]) == 8);
}

TEST_CASE("updates: one value that is not finite is found wherever it stands, in every type") {
  CUDA_DRIVER("");
  Bench bench;
  for (const uint32_t dtype : {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64}) {
    const Shared scale = scalar(1), a = tensor(dtype, {4099}), b = tensor(dtype, {5});
    Group group;
    const uint32_t in[] = {group.input(scale), group.input(a), group.input(b)},
                   found = group.output(scale, false);
    group.builder.node(TN_OP_check_finite_and_unscale, {in[0], in[1], in[2]},
                       {found, group.output(a, false), group.output(b, false)});
    const Kernel kernel = compile(bench.device, group.builder.fragment());
    const auto raised = [&] { return float_of(group.run(bench.device, bench.stream, kernel)[0]); };
    CAPTURE(tenon::author::dtype_name(dtype));
    CHECK(raised() == 0);
    for (const uint64_t at : {0, 1, 255, 2048, 4095, 4096, 4098}) {
      a->set(at, INFINITY);
      CAPTURE(at);
      CHECK(raised() == 1);
      a->set(at, 1);
    }
    b->set(4, NAN);
    CHECK(raised() == 1);
    b->set(4, dtype == TN_DTYPE_f16 ? 65504 : 0x1.FEp127F);
    CHECK(raised() == 0);
  }
}
