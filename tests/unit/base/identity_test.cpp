// SPDX-License-Identifier: Apache-2.0
// An identity changes with all that matters and with nothing else.
#include <tenon/fragment.hpp>

#include "base/text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>

using namespace tenon;

namespace {

// One fragment with a knob for everything an identity must cover.
struct Knobs {
  std::string name = "a";
  Op op = Op::add;
  DType dtype = f32;
  std::vector<int64_t> dims = {4, 4};
  std::vector<int64_t> strides{};
  uint64_t alignment = 0;
  std::array<float, 1> constant = {1};
  double scale = 1;
  bool swapped_inputs = false, swapped_bindings = false, alias = false, second_output = false;
};

Identity identity(const Knobs& knobs) {
  FragmentBuilder f(knobs.name);
  const TensorSpec spec{knobs.dtype, knobs.dims, knobs.strides, knobs.alignment};
  auto a = f.input(spec), b = f.input(spec);
  if (knobs.swapped_bindings) std::swap(a, b);
  const auto c = f.constant({f32, {1}}, std::as_bytes(std::span(knobs.constant)));
  const TensorSpec dense{knobs.dtype, knobs.dims};
  const auto t = knobs.swapped_inputs ? f.node(knobs.op, {b, a}, dense) : f.node(knobs.op, {a, b}, dense);
  const auto u = f.node(Op::scale, {t}, dense, {{"scale", knobs.scale}});
  f.output(f.node(Op::add, {u, c}, dense));
  if (knobs.second_output) f.output(u);
  if (knobs.alias) f.alias(0, 0);
  auto fragment = f.build();
  REQUIRE(fragment.ok());
  return fragment->identity();
}

}  // namespace

TEST_CASE("identity: two equal fragments have one, whatever they are called") {
  CHECK(identity({}) == identity({}));
  CHECK(identity({}) == identity({.name = "other"}));
}

TEST_CASE("identity: strides that say dense are no strides") {
  CHECK(identity({}) == identity({.strides = {4, 1}}));
  CHECK(identity({.dims = {1, 4}}) == identity({.dims = {1, 4}, .strides = {77, 1}}));
}

TEST_CASE("identity: defaults written out and left out are one fragment") {
  const auto build = [](std::vector<Attribute> attributes) {
    FragmentBuilder f;
    f.output(f.node(Op::softmax, {f.input({f32, {4}})}, {f32, {4}}, std::move(attributes)));
    return f.build()->identity();
  };
  CHECK(build({}) == build({{"axis", -1}}));
  CHECK(build({}) != build({{"axis", 0}}));
}

TEST_CASE("identity: whatever matters changes it, each in its own way") {
  const std::map<std::string, Knobs> variants = {
      {"base", {}},
      {"op", {.op = Op::sub}},
      {"dtype", {.dtype = f16}},
      {"dims", {.dims = {2, 8}}},
      {"rank", {.dims = {16}}},
      {"strides", {.strides = {1, 4}}},
      {"broadcast", {.strides = {0, 1}}},
      {"alignment", {.alignment = 64}},
      {"constant", {.constant = {2}}},
      {"attribute", {.scale = 2}},
      {"operand order", {.swapped_inputs = true}},
      {"alias", {.alias = true}},
      {"outputs", {.second_output = true}},
  };
  std::map<Identity, std::string> seen;
  for (const auto& variant : variants) {
    const auto made = seen.emplace(identity(variant.second), variant.first);
    CAPTURE(variant.first);
    CAPTURE(made.first->second);
    CHECK(made.second);
  }
}

TEST_CASE("identity: it is the same in every process and on every machine") {
  FragmentBuilder f("pinned");
  f.output(f.node(Op::relu, {f.input({f32, {2, 3}})}, {f32, {2, 3}}));
  // Computed apart from this library, from the order that identity.cpp states.
  CHECK(base::hex(f.build()->identity()) ==
        "0c88c3cc742bb49228ac68f5f9b7159d1ed4a07f0c77e3c17004022a4c690edd");
}
