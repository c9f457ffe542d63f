// SPDX-License-Identifier: Apache-2.0
// Every mistake in a fragment is told once, with node, op, value and what to do.
#include <tenon/fragment.hpp>

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>

using namespace tenon;

namespace {

// The message of the fragment that `make` builds wrongly, from an input x of 4 floats.
std::string mistake(const std::function<void(FragmentBuilder&, FragmentBuilder::Value)>& make) {
  FragmentBuilder f("wrong");
  make(f, f.input({f32, {4}}));
  const auto fragment = f.build();
  CHECK(fragment.code() == TN_INVALID);
  return std::string(fragment.message());
}

// The message of a fragment that negates a tensor of this kind.
std::string mistake_in(TensorSpec spec) {
  return mistake([&](FragmentBuilder& f, FragmentBuilder::Value) {
    f.output(f.node(Op::neg, {f.input(spec)}, {f32, {4}}));
  });
}

bool says(const std::string& text, const char* words) {
  const bool found = text.find(words) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("fragment mistakes: the message names fragment, node and op") {
  const std::string text = mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
    const auto y = f.node(Op::relu, {x}, {f32, {4}});
    f.output(f.node(Op::add, {y}, {f32, {4}}));
  });
  CHECK(text == "fragment 'wrong': node 1 (add): is given 1 input, it takes 2");
}

TEST_CASE("fragment mistakes: numbers of inputs and outputs") {
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::neg, {x, x}, {f32, {4}}));
             }),
             "node 0 (neg): is given 2 inputs, it takes 1"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value) {
               f.output(f.node(Op::concat, {}, {f32, {4}}, {{"axis", 0}}));
             }),
             "takes at least 1"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               const std::array inputs = {x};
               f.node(Op::neg, inputs, {{f32, {4}}, {f32, {4}}});
             }),
             "is given 2 outputs, it has 1"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               const std::array inputs = {x};
               f.node(Op::neg, inputs, {});
             }),
             "is given 0 outputs, it has 1"));
}

TEST_CASE("fragment mistakes: unknown ops") {
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(static_cast<Op>(9999), {x}, {f32, {4}}));
             }),
             "op 9999 is not in ops.def"));
}

TEST_CASE("fragment mistakes: attributes get the nearest name") {
  const auto softmax = [](std::vector<Attribute> attributes) {
    return mistake([&](FragmentBuilder& f, FragmentBuilder::Value x) {
      f.output(f.node(Op::softmax, {x}, {f32, {4}}, std::move(attributes)));
    });
  };
  CHECK(says(softmax({{"axes", 0}}),
             "node 0 (softmax): has no attribute 'axes' (did you mean 'axis'?); it takes axis"));
  CHECK(says(softmax({{"axis", "last"}}), "attribute 'axis' is given as string, it is of type int"));
  CHECK(says(softmax({{"axis", 0}, {"axis", 1}}), "attribute 'axis' is given 2 times"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::sum, {x}, {f32, {}}));
             }),
             "attribute 'axes' (ints) is missing and has no default"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::neg, {x}, {f32, {4}}, {{"axis", 0}}));
             }),
             "it takes none"));
}

TEST_CASE("fragment mistakes: values that dangle") {
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::add, {x, {}}, {f32, {4}}));
             }),
             "node 0 (add): input 1 is no value"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::add, {x, {77}}, {f32, {4}}));
             }),
             "input 1 is value 77, this builder has 1"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value) { f.output({}); }),
             "output 0: is no value"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value) { f.output({5}); }),
             "belongs to another builder"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) { f.output(x); }),
             "pass it through Op::identity"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               const auto y = f.node(Op::neg, {x}, {f32, {4}});
               f.output(y), f.output(y);
             }),
             "output 1: is an output already"));
}

TEST_CASE("fragment mistakes: nothing to compute, nothing to show") {
  CHECK(says(mistake([](FragmentBuilder&, FragmentBuilder::Value) {}), "has no node"));
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.node(Op::neg, {x}, {f32, {4}});
             }),
             "has no output"));
}

TEST_CASE("fragment mistakes: tensors that cannot be") {
  CHECK(says(mistake_in({static_cast<DType>(77), {4}}), "input 1: element type 77 is not in dtypes.def"));
  CHECK(says(mistake_in({DType::i4_, {4}}), "i4 is reserved"));
  CHECK(says(mistake_in({f32, {4, -3}}), "dim 1 is -3"));
  CHECK(says(mistake_in({f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}), "rank 9 is above the limit of 8"));
  CHECK(says(mistake_in({.dtype = f32, .dims = {4}, .strides = {-1}}), "stride 0 is -1"));
  CHECK(says(mistake_in({.dtype = f32, .dims = {4, 4}, .strides = {1}}), "1 strides for 2 dims"));
  CHECK(says(mistake_in({.dtype = f32, .dims = {4}, .alignment = 48}), "alignment 48 is no power of two"));
}

TEST_CASE("fragment mistakes: sizes past 2^63 are found without wrapping around") {
  constexpr int64_t big = int64_t{1} << 40;
  CHECK(says(mistake_in({f32, {big, big}}), "more than 2^63 - 1 bytes"));
  CHECK(says(mistake_in({f32, {INT64_MAX}}), "more than 2^63 - 1 bytes"));
  CHECK(says(mistake_in({f32, {INT64_MAX, INT64_MAX, INT64_MAX}}), "more than 2^63 - 1 bytes"));
  CHECK(says(mistake_in({.dtype = f32, .dims = {2, 2}, .strides = {INT64_MAX, INT64_MAX}}),
             "more than 2^63 - 1 bytes"));
}

TEST_CASE("fragment mistakes: outputs are not broadcast") {
  CHECK(says(mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
               f.output(f.node(Op::neg, {x}, {.dtype = f32, .dims = {4}, .strides = {0}}));
             }),
             "output 0: has stride 0"));
}

TEST_CASE("fragment mistakes: constants have as many bytes as their type says, densely") {
  const std::array<float, 3> values = {1, 2, 3};
  const auto with = [&](TensorSpec spec) {
    return mistake([&](FragmentBuilder& f, FragmentBuilder::Value) {
      f.output(f.node(Op::neg, {f.constant(spec, std::as_bytes(std::span(values)))}, {f32, {4}}));
    });
  };
  CHECK(says(with({f32, {4}}), "value 1 (constant): is given 12 bytes, its type and dims take 16"));
  CHECK(says(with({.dtype = f32, .dims = {2}, .strides = {2}}), "constants are dense"));
}

TEST_CASE("fragment mistakes: aliases") {
  const auto alias = [](uint32_t output, uint32_t input, bool twice = false) {
    return mistake([=](FragmentBuilder& f, FragmentBuilder::Value x) {
      const auto y = f.input({f64, {4}});
      f.output(f.node(Op::neg, {x}, {f32, {4}}));
      f.output(f.node(Op::neg, {y}, {f64, {4}}));
      f.alias(output, input);
      if (twice) f.alias(output, input);
    });
  };
  CHECK(says(alias(2, 0), "alias of output 2 with input 0: the fragment has 2 outputs and 2 inputs"));
  CHECK(says(alias(0, 1), "they take 16 and 32 bytes"));
  CHECK(says(alias(0, 0, true), "has an alias already"));
}

TEST_CASE("fragment mistakes: the first one is told, the rest does not break") {
  const std::string text = mistake([](FragmentBuilder& f, FragmentBuilder::Value x) {
    const auto y = f.node(Op::add, {x}, {f32, {-1}});
    const auto z = f.node(Op::softmax, {y, y, y}, {f32, {4}}, {{"bogus", 1}});
    f.output(z), f.alias(9, 9);
  });
  CHECK(says(text, "node 0 (add): is given 1 input"));
}
