// SPDX-License-Identifier: Apache-2.0
// The bound of a whole fragment: wide enough for every honest device, too narrow for a wrong one.
#include "conformance/fragments/reckon.hpp"

#include "conformance/fragments/draw_group.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tenon::conform;

namespace {

// What a device hands from node to node.
using Keep = double (*)(uint32_t dtype, double value);
double rounded_to_type(uint32_t dtype, double value) { return rounded(format_of(dtype), value); }
double unrounded(uint32_t, double value) { return value; }
double in_eight_bits(uint32_t, double value) { return rounded(format_of(TN_DTYPE_bf16), value); }

void keep_all(Tensor& tensor, Keep keep) {
  if (!tenon::author::is_float(tensor.dtype)) return;
  for (Scalar& one : tensor.at) one.real = keep(tensor.dtype, one.real);
}

// A device whose ops are perfect: it keeps inner values as `keep` says, and rounds its outputs.
std::vector<Tensor> device(const Group& group, const Reckoning& reckoned, Keep keep) {
  std::vector<Tensor> at(group.values.size());
  for (uint32_t value = 0; value < group.values.size(); ++value) {
    if (group.is_input(value) || group.values[value].constant) at[value] = reckoned.value(value).tensor;
  }
  for (size_t n = 0; n < group.nodes.size(); ++n) {
    const Trial trial = trial_of(group, n);
    Job job = empty_job(trial);
    for (const uint32_t value : group.nodes[n].in)
      job.in.push_back(value == TN_ABSENT ? Tensor{} : at[value]);
    meaning_of(*trial.row).compute(job);
    for (size_t i = 0; i < job.out.size(); ++i) {
      at[group.nodes[n].out[i]] = job.out[i].tensor;
      keep_all(at[group.nodes[n].out[i]], keep);
    }
  }
  for (const uint32_t output : group.outputs) keep_all(at[output], rounded_to_type);
  return at;
}

std::string verdict(const Group& group, Keep keep) {
  Reckoning reckoned(group);
  reckoned.all();
  const std::vector<Tensor> found = device(group, reckoned, keep);
  for (const uint32_t output : group.outputs) {
    const Fared fared = compare(reckoned.value(output), reckoned.value(output), found[output]);
    if (!fared.story.empty()) return fared.story;
  }
  return {};
}

// %0 + %1 → %2, op(%2, %0) → %3
Group two(const char* second, uint32_t dtype, std::vector<int64_t> dims = {64}) {
  Group out;
  const Operand like{.dtype = dtype, .dims = std::move(dims), .values = Values::tame};
  const uint32_t a = out.add_input(like), b = out.add_input(like), c = out.add(like), d = out.add(like);
  out.nodes.push_back({.row = find_row("add"), .subject = dtype, .in = {a, b}, .out = {c}});
  out.nodes.push_back({.row = find_row(second), .subject = dtype, .in = {c, a}, .out = {d}});
  out.outputs = {d};
  out.value_seed = 5;
  return out;
}

const Reckoned& last_of(Reckoning& reckoned, const Group& group) {
  reckoned.all();
  return reckoned.value(group.outputs[0]);
}

}  // namespace

TEST_CASE("reckon: a device that rounds between nodes and one that does not are both right") {
  constexpr GroupForm forms[] = {
      {.most_nodes = 12, .broadcast = true, .several = true},
      {.most_nodes = 12, .mixed = true, .several = true},
      {.most_nodes = 12, .broadcast = true, .reductions = true, .several = true},
      {.most_nodes = 32, .mixed = true, .broadcast = true, .constants = true, .reductions = true}};
  Random random(31);
  for (const GroupForm& form : forms) {
    for (int i = 0; i < 80; ++i) {
      Choices choices(random);
      const Group group = draw_group(form, 120, choices);
      CAPTURE(told(group));
      CAPTURE(group.value_seed);
      REQUIRE(verdict(group, rounded_to_type) == "");
      REQUIRE(verdict(group, unrounded) == "");
    }
  }
}

TEST_CASE("reckon: an inexact input may move a result to where numbers lie farther apart") {
  for (const auto& pair : {std::pair{"log", TN_DTYPE_bf16}, {"silu", TN_DTYPE_f16}}) {
    const char* const op = pair.first;
    Group group = two(op, pair.second, {4096});
    group.nodes[1].in.pop_back();
    for (group.value_seed = 0; group.value_seed < 30; ++group.value_seed) {
      CAPTURE(op);
      CAPTURE(group.value_seed);
      REQUIRE(verdict(group, rounded_to_type) == "");
      REQUIRE(verdict(group, unrounded) == "");
    }
  }
}

TEST_CASE("reckon: eight bits between nodes of f32 are found") {
  for (const char* op : {"mul", "sub", "add", "div", "pow"}) {
    CAPTURE(op);
    CHECK(verdict(two(op, TN_DTYPE_f32), in_eight_bits) != "");
    CHECK(verdict(two(op, TN_DTYPE_bf16), in_eight_bits) == "");
  }
}

TEST_CASE("reckon: a cancelled sum may be off by what its terms were rounded") {
  const Group group = two("sub", TN_DTYPE_f32);
  Reckoning reckoned(group);
  const Reckoned& difference = last_of(reckoned, group);
  for (size_t i = 0; i < difference.error.size(); ++i) {
    const double sum = reckoned.value(2).tensor.at[i].real, left = difference.tensor.at[i].real;
    const double roundings = ulp(format_of(TN_DTYPE_f32), sum) / 2 + ulp(format_of(TN_DTYPE_f32), left) / 2;
    CHECK(difference.error[i] <= 1.01 * roundings);
    CHECK(difference.error[i] >= 0.99 * ulp(format_of(TN_DTYPE_f32), left) / 2);
  }
}

TEST_CASE("reckon: exact ops on exact numbers leave no room") {
  Group group = two("max", TN_DTYPE_f32);
  group.nodes[0].row = find_row("min");
  Reckoning reckoned(group);
  CHECK(last_of(reckoned, group).exact);
  Tensor other = reckoned.value(3).tensor;
  other.at[7].real = std::nextafter(other.at[7].real, 9.0);
  CHECK(compare(reckoned.value(3), reckoned.value(3), other).story.find("element 7") != std::string::npos);
}

TEST_CASE("reckon: whether inexact numbers are equal is nobody's to tell") {
  Group group = two("sub", TN_DTYPE_f32);
  const uint32_t answer = group.add({.dtype = TN_DTYPE_bool, .dims = {64}});
  group.nodes.push_back({.row = find_row("equal"), .subject = TN_DTYPE_f32, .in = {3, 1}, .out = {answer}});
  group.outputs = {answer};
  Reckoning reckoned(group);
  const Reckoned& equal = last_of(reckoned, group);
  size_t untold = 0;
  for (const double error : equal.error) untold += std::isinf(error) ? 1 : 0;
  CHECK(untold > 32);  // (a + b) - a and b are equal but for a rounding
}

TEST_CASE("reckon: what may leave a half's range is nobody's to tell, and neither is what comes of it") {
  Group group;
  const uint32_t x = group.add_input({.dtype = TN_DTYPE_f16, .dims = {200}, .values = Values::any});
  const uint32_t y = group.add({.dtype = TN_DTYPE_f16, .dims = {200}});
  const uint32_t z = group.add({.dtype = TN_DTYPE_f16, .dims = {200}});
  group.nodes.push_back({.row = find_row("square"), .subject = TN_DTYPE_f16, .in = {x}, .out = {y}});
  group.nodes.push_back({.row = find_row("sqrt"), .subject = TN_DTYPE_f16, .in = {y}, .out = {z}});
  group.outputs = {z};
  Reckoning reckoned(group);
  const Reckoned& root = last_of(reckoned, group);
  int large = 0;
  for (size_t i = 0; i < root.error.size(); ++i) {
    if (!(std::fabs(root.tensor.at[i].real) > 256) || std::isinf(root.tensor.at[i].real)) continue;
    ++large;
    CHECK(std::isinf(root.error[i]));
  }
  CHECK(large > 0);
}

TEST_CASE("reckon: a reduction adds up the errors of what it reduces") {
  Group group = two("mul", TN_DTYPE_f32, {8, 64});
  const uint32_t total = group.add({.dtype = TN_DTYPE_f32, .dims = {8}});
  group.nodes.push_back({.row = find_row("sum"),
                         .subject = TN_DTYPE_f32,
                         .in = {3},
                         .out = {total},
                         .attributes = {{.name = "axes", .kind = TN_ATTRIBUTE_I64S, .integers = {1}},
                                        {.name = "keepdims", .kind = TN_ATTRIBUTE_I64}}});
  group.outputs = {total};
  Reckoning reckoned(group);
  const Reckoned& sum = last_of(reckoned, group);
  for (size_t row = 0; row < 8; ++row) {
    double terms = 0;
    for (size_t i = 0; i < 64; ++i) terms += reckoned.value(3).error[row * 64 + i];
    CHECK(sum.error[row] >= terms);
    CHECK(sum.error[row] < 1e-3);
  }
  Tensor lost = sum.tensor;
  lost.at[3].real -= reckoned.value(3).tensor.at[3 * 64 + 9].real;  // a term is missing
  CHECK(compare(sum, sum, lost).story.find("element 3") != std::string::npos);
}

TEST_CASE("reckon: the greatest of near numbers may be another one") {
  Group group = two("mul", TN_DTYPE_f32, {4, 16});
  const uint32_t place = group.add({.dtype = TN_DTYPE_i64, .dims = {4}});
  group.nodes.push_back({.row = find_row("argmax"),
                         .subject = TN_DTYPE_f32,
                         .in = {3},
                         .out = {place},
                         .attributes = {{.name = "axes", .kind = TN_ATTRIBUTE_I64S, .integers = {1}},
                                        {.name = "keepdims", .kind = TN_ATTRIBUTE_I64}}});
  group.outputs = {place};
  Reckoning inexact(group);
  for (const double error : last_of(inexact, group).error) CHECK(std::isinf(error));
  group.nodes[2].in = {0};
  group.outputs.push_back(3);
  Reckoning exact(group);
  CHECK(last_of(exact, group).exact);
}

TEST_CASE("reckon: a vendor's tolerance widens its op, and what needs it is counted") {
  const Group group = two("mul", TN_DTYPE_f32);
  Judging judging;
  judging.slack["mul.f32"] = {.factor = 1000, .ulps = 0};
  Reckoning usual(group), wide(group, &judging);
  usual.all();
  wide.all();
  Tensor found = usual.value(3).tensor;
  keep_all(found, rounded_to_type);
  found.at[4].real *= 1 + 0x1p-18;
  CHECK(compare(usual.value(3), usual.value(3), found).story.find("element 4") != std::string::npos);
  const Fared fared = compare(usual.value(3), wide.value(3), found);
  CHECK(fared.story.empty());
  CHECK(fared.eased == 1);
}
