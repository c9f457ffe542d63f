// SPDX-License-Identifier: Apache-2.0
// optimizer_test.cpp: a group of optimizer nodes in one step gives, bit for bit, what its nodes give one by one.
//
// Invariant: the group runs in place through its aliases, the single nodes do not; both start from the same numbers.
#include "tensors.hpp"

#include <map>
#include <memory>

using namespace cpu_test;

namespace {

// One parameter's node: operands by position, absent ones with a null tensor.
struct Update {
  uint32_t op;
  std::vector<std::shared_ptr<Tensor>> inputs;
  std::vector<int> renews;  // for each output the input it renews, or -1 for one left out
  int master = -1;          // an input, where there is one
  bool nesterov = false;
};

struct Scalars {
  std::shared_ptr<Tensor> rate, step, found_inf, inverse_scale;
};

std::shared_ptr<Tensor> scalar(Number value) {
  auto out = std::make_shared<Tensor>(TN_DTYPE_f32, Dims{});
  out->set({}, value);
  return out;
}

std::shared_ptr<Tensor> random_tensor(uint32_t dtype, const Dims& dims, const Dims& strides, Random& random,
                                      bool positive = false) {
  auto out = std::make_shared<Tensor>(dtype, dims, strides);
  for_each(dims, [&](const Dims& at) {
    const Number x = random_number(dtype, random, false);
    out->set(at, positive ? std::fabs(x) : x);
  });
  return out;
}

Update random_update(Random& random, const Scalars& scalars, bool guarded) {
  static const std::vector<Dims> shapes = {{}, {1}, {0}, {63}, {64, 3}, {513}, {4'000}, {70'001}, {300, 257}};
  const std::vector<uint32_t> ops = {TN_OP_sgd, TN_OP_momentum, TN_OP_adam, TN_OP_adamw};
  const std::vector<uint32_t> types = {TN_DTYPE_f16, TN_DTYPE_bf16, TN_DTYPE_f32, TN_DTYPE_f64};
  Update out{.op = ops[random() % ops.size()], .nesterov = random() % 2 == 0};
  const Dims dims = shapes[random() % shapes.size()];
  const Dims strides = dims.size() == 2 && random() % 2 == 0 ? Dims{1, dims[0]} : Dims{};
  const uint32_t dtype = types[random() % types.size()];
  const uint32_t state = is_half(dtype) ? static_cast<uint32_t>(TN_DTYPE_f32) : dtype;
  const bool master = random() % 2 == 0, adam = out.op == TN_OP_adam || out.op == TN_OP_adamw;
  const int states = adam ? 2 : out.op == TN_OP_momentum ? 1 : 0;
  out.inputs = {random_tensor(dtype, dims, strides, random), random_tensor(dtype, dims, {}, random)};
  out.renews = {0};
  for (int s = 0; s < states; ++s) {
    out.renews.push_back(static_cast<int>(out.inputs.size()));
    out.inputs.push_back(random_tensor(state, dims, {}, random, s == 1));
  }
  out.inputs.push_back(scalars.rate);
  if (adam) out.inputs.push_back(scalars.step);
  if (master) out.master = static_cast<int>(out.inputs.size());
  out.renews.push_back(out.master);
  out.inputs.push_back(master ? random_tensor(state, dims, {}, random) : nullptr);
  out.inputs.push_back(guarded ? scalars.found_inf : nullptr);
  out.inputs.push_back(guarded && random() % 2 == 0 ? scalars.inverse_scale : nullptr);
  if (out.op == TN_OP_sgd) out.renews.push_back(random() % 2 == 0 ? 1 : -1);
  return out;
}

// A fragment under construction, with the memory that each binding is to have.
struct Group {
  FragmentBuilder builder{"group"};
  std::vector<std::shared_ptr<Tensor>> inputs;
  std::vector<uint32_t> index;
  std::map<const Tensor*, uint32_t> made;                           // those that a node of the group makes
  std::vector<std::pair<size_t, std::shared_ptr<Tensor>>> outputs;  // the input that each renews, or SIZE_MAX

  size_t find(const std::shared_ptr<Tensor>& tensor) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == tensor) return i;
    }
    inputs.push_back(tensor);
    index.push_back(builder.input(tensor->dtype, tensor->dims, tensor->strides));
    return inputs.size() - 1;
  }
  uint32_t input(const std::shared_ptr<Tensor>& tensor) {
    if (tensor == nullptr) return TN_ABSENT;
    const auto inside = made.find(tensor.get());
    return inside != made.end() ? inside->second : index[find(tensor)];
  }
  uint32_t output(const std::shared_ptr<Tensor>& renewed, bool in_place) {
    const size_t from = find(renewed);
    if (in_place) builder.alias(static_cast<uint32_t>(from), static_cast<uint32_t>(outputs.size()));
    outputs.emplace_back(in_place ? from : SIZE_MAX, std::make_shared<Tensor>(*renewed));
    return builder.output(renewed->dtype, renewed->dims, renewed->strides);
  }

  void add(const Update& update, bool in_place) {
    std::vector<uint32_t> in, out;
    for (const auto& tensor : update.inputs) in.push_back(input(tensor));
    for (const int from : update.renews)
      out.push_back(from < 0 ? TN_ABSENT : output(update.inputs[static_cast<size_t>(from)], in_place));
    auto& node = builder.node(update.op, in, out).real("weight_decay", 0.125);
    if (update.op == TN_OP_momentum) node.real("momentum", 0.9).integer("nesterov", update.nesterov ? 1 : 0);
    if (update.op == TN_OP_adam || update.op == TN_OP_adamw)
      node.real("beta1", 0.9).real("beta2", 0.99).real("epsilon", 1e-6);
  }

  // What the outputs hold after a run; inputs keep their bytes here.
  std::vector<std::vector<std::byte>> run(Bench& bench, bool in_place) {
    const tn_support support = supports(bench.device, builder.fragment());
    CHECK(support.verdict == TN_SUPPORT_NATIVE);
    if (in_place) {
      for (size_t i = 0; i < outputs.size(); ++i) CHECK(tenon::author::honours(support, i));
    }
    const Kernel kernel = compile(bench.device, builder.fragment());
    CHECK(std::string(info(kernel).engine) == "update");
    std::vector<Memory> memories;
    std::vector<tn_span> bindings;
    const auto bind = [&](const Tensor& tensor) {
      memories.push_back(allocate(bench.device, std::max<size_t>(tensor.bytes.size(), 1)));
      bindings.push_back(span(memories.back(), 0, tensor.bytes.size()));
      copy(bench.stream, bindings.back(), host_span(tensor.bytes.data(), tensor.bytes.size()));
    };
    for (const auto& tensor : inputs) bind(*tensor);
    for (const auto& [from, tensor] : outputs) {
      if (from == SIZE_MAX)
        bind(*tensor);
      else
        bindings.push_back(bindings[from]);
    }
    const uint64_t bytes = info(kernel).workspace_bytes;
    const Memory workspace = allocate(bench.device, std::max<uint64_t>(bytes, 1));
    const tn_span room = span(workspace, 0, bytes);
    launch(kernel, bench.stream, bindings, &room);
    std::vector<std::vector<std::byte>> out;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const tn_span& binding = bindings[inputs.size() + i];
      out.emplace_back(binding.bytes);
      copy(bench.stream, host_span(out.back().data(), binding.bytes), binding);
    }
    drain(bench.stream);
    return out;
  }
};

using Results = std::vector<std::vector<std::byte>>;

Results run_apart(Bench& bench, const std::vector<Update>& updates) {
  Results out;
  for (const Update& update : updates) {
    Group one;
    one.add(update, false);
    for (auto& bytes : one.run(bench, false)) out.push_back(std::move(bytes));
  }
  return out;
}

// The gradients divided by the scale by a node of their own, into memory.
std::vector<Update> unscaled_apart(Bench& bench, const std::vector<Update>& updates,
                                   const std::shared_ptr<Tensor>& scale) {
  std::vector<Update> out = updates;
  for (Update& update : out) {
    const Tensor gradient = *update.inputs[1];
    FragmentBuilder f;
    const uint32_t s = f.input(TN_DTYPE_f32, {}), g = f.input(gradient.dtype, gradient.dims);
    const uint32_t found = f.output(TN_DTYPE_f32, {}), u = f.output(gradient.dtype, gradient.dims);
    f.node(TN_OP_check_finite_and_unscale, {s, g}, {found, u});
    Tensor flag(TN_DTYPE_f32, {});
    auto unscaled = std::make_shared<Tensor>(gradient.dtype, gradient.dims);
    bench.run(compile(bench.device, f.fragment()), {scale.get(), &gradient}, {&flag, unscaled.get()});
    update.inputs[1] = unscaled;
  }
  return out;
}

// One step: all gradients checked and divided, then every update, in place.
void add_guarded(Group& group, const std::vector<Update>& updates, const Scalars& scalars,
                 const std::shared_ptr<Tensor>& scale) {
  std::vector<uint32_t> in = {group.input(scale)}, out = {group.builder.tensor(TN_DTYPE_f32, {})};
  for (const Update& update : updates) {
    in.push_back(group.input(update.inputs[1]));
    out.push_back(group.builder.tensor(update.inputs[1]->dtype, update.inputs[1]->dims));
    group.made[update.inputs[1].get()] = out.back();
  }
  group.made[scalars.found_inf.get()] = out[0];
  group.builder.node(TN_OP_check_finite_and_unscale, in, out);
  for (const Update& update : updates) group.add(update, true);
}

// An update whose gradient has no memory of its own, and whose weight is its master rounded, as training leaves them.
Update settled_update(Random& random, const Scalars& scalars) {
  Update out = random_update(random, scalars, true);
  if (out.op == TN_OP_sgd) out.renews.back() = -1;
  if (out.master < 0) return out;
  Tensor& weight = *out.inputs[0];
  const Tensor& master = *out.inputs[static_cast<size_t>(out.master)];
  for_each(weight.dims, [&](const Dims& at) { weight.set(at, rounded(master.at(at), weight.dtype)); });
  return out;
}

Scalars some_scalars() {
  return {.rate = scalar(0.0625), .step = scalar(7), .found_inf = scalar(0), .inverse_scale = scalar(0.75)};
}

}  // namespace

TEST_CASE("optimizer: a group of mixed optimizers, dtypes and sizes equals its nodes, bit for bit") {
  const auto rounds = tenon::test::full_numbers_or<uint64_t>("groups", 4, 60);
  Random random(tenon::test::seed());
  Bench bench;
  for (uint64_t round = 0; round < rounds; ++round) {
    const Scalars scalars = some_scalars();
    std::vector<Update> updates;
    for (int i = 0; i < 20; ++i) updates.push_back(random_update(random, scalars, random() % 2 == 0));
    Group fused;
    for (const Update& update : updates) fused.add(update, true);
    CHECK(fused.run(bench, true) == run_apart(bench, updates));
  }
}

TEST_CASE("optimizer: dividing gradients on the way in equals dividing them in memory, for any scale") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const Number value : {65536.0L, 3.0L, 0.1L, 0x1p-130L, 1.0L}) {
    const Scalars scalars = some_scalars();
    const auto scale = scalar(rounded(value, TN_DTYPE_f32));
    std::vector<Update> updates;
    while (updates.size() < 16) updates.push_back(settled_update(random, scalars));
    Group step;
    add_guarded(step, updates, scalars, scale);
    CHECK(step.run(bench, true) == run_apart(bench, unscaled_apart(bench, updates, scale)));
  }
}

TEST_CASE("optimizer: a step in which one gradient is not finite changes nothing") {
  Random random(tenon::test::seed());
  Bench bench;
  const Number inf = std::numeric_limits<Number>::infinity(), nan = std::numeric_limits<Number>::quiet_NaN();
  for (const Number bad : {inf, -inf, nan}) {
    const Scalars scalars = some_scalars();
    std::vector<Update> updates;
    while (updates.size() < 12) updates.push_back(settled_update(random, scalars));
    const auto large = [](const Update& update) { return update.inputs[1]->count() > 500; };
    while (!large(updates.back())) updates.push_back(settled_update(random, scalars));
    Tensor& gradient = *updates.back().inputs[1];
    Dims end = gradient.dims;
    for (int64_t& at : end) --at;
    gradient.set(end, bad);
    Group step;
    add_guarded(step, updates, scalars, scalar(1024));
    const Results after = step.run(bench, true);
    for (size_t i = 0; i < after.size(); ++i) CHECK(after[i] == step.inputs[step.outputs[i].first]->bytes);
    gradient.set(end, 1);
    CHECK(step.run(bench, true) != after);
  }
}

TEST_CASE("optimizer: an input that another node reads at the same time is not written in place") {
  Bench bench;
  FragmentBuilder f("shared");
  const uint32_t w = f.input(TN_DTYPE_f32, {8}), g = f.input(TN_DTYPE_f32, {8}),
                 lr = f.input(TN_DTYPE_f32, {});
  const uint32_t a = f.output(TN_DTYPE_f32, {8}), b = f.output(TN_DTYPE_f32, {8});
  f.node(TN_OP_sgd, {w, g, lr}, {a}).real("weight_decay", 0);
  f.node(TN_OP_sgd, {w, g, lr}, {b}).real("weight_decay", 0);
  f.alias(0, 0);
  f.alias(1, 1);
  CHECK(supports(bench.device, f.fragment()).alias_mask == 0);
}

TEST_CASE("optimizer: what one update makes, another of the same step may read") {
  Bench bench;
  FragmentBuilder f("twice");
  const uint32_t w = f.input(TN_DTYPE_f32, {4}), g = f.input(TN_DTYPE_f32, {4}),
                 lr = f.input(TN_DTYPE_f32, {});
  const uint32_t once = f.tensor(TN_DTYPE_f32, {4}), twice = f.output(TN_DTYPE_f32, {4});
  f.node(TN_OP_sgd, {w, g, lr}, {once}).real("weight_decay", 0);
  f.node(TN_OP_sgd, {once, g, lr}, {twice}).real("weight_decay", 0);
  Tensor weight(TN_DTYPE_f32, {4}), gradient(TN_DTYPE_f32, {4}), rate(TN_DTYPE_f32, {}),
      out(TN_DTYPE_f32, {4});
  for (int64_t i = 0; i < 4; ++i) {
    weight.set({i}, static_cast<Number>(i));
    gradient.set({i}, 2);
  }
  rate.set({}, 0.25L);
  bench.run(compile(bench.device, f.fragment()), {&weight, &gradient, &rate}, {&out});
  for (int64_t i = 0; i < 4; ++i) CHECK(out.at({i}) == static_cast<Number>(i) - 1);
}
