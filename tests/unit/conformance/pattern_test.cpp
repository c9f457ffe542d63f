// SPDX-License-Identifier: Apache-2.0
// Fragments made from published fusions: legal, matching, and with every choice that a pattern leaves.
#include "conformance/fragments/pattern.hpp"

#include "conformance/fragments/reckon.hpp"

#include <tenon/author/op_rules.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon::conform;

namespace {

constexpr uint32_t in0 = TN_PATTERN_INPUT, in1 = TN_PATTERN_INPUT + 1, in2 = TN_PATTERN_INPUT + 2;
constexpr uint32_t matmul[] = {TN_OP_matmul}, add[] = {TN_OP_add}, softmax[] = {TN_OP_softmax};
constexpr uint32_t norm[] = {TN_OP_layer_norm, TN_OP_rms_norm}, acts[] = {TN_OP_relu, TN_OP_tanh};

struct Step {
  const uint32_t* ops;
  uint32_t op_count;
  std::vector<uint32_t> operands;
  uint32_t flags = 0;
};

// The steps as the ABI has them.
struct Raw {
  std::vector<Step> kept;
  std::vector<tn_pattern_step> steps{};
  tn_pattern pattern{};

  explicit Raw(std::vector<Step> given) : kept(std::move(given)) {
    for (const Step& s : kept)
      steps.push_back(
          {s.ops, s.op_count, static_cast<uint32_t>(s.operands.size()), s.operands.data(), s.flags, 0});
    pattern = {"fusion", steps.data(), static_cast<uint32_t>(steps.size()), 0};
  }
  Raw(const Raw&) = delete;
  Pattern read() const { return *read_pattern(pattern); }
};

const Raw& epilogue() {
  static const Raw raw({{matmul, 1, {in0, in1}},
                        {add, 1, {0, in2}, TN_PATTERN_OPTIONAL},
                        {acts, 2, {1}, TN_PATTERN_OPTIONAL}});
  return raw;
}
const Raw& add_norm() {
  static const Raw raw({{add, 1, {in0, in1}, TN_PATTERN_OUTPUT}, {norm, 2, {0}}});
  return raw;
}

std::string breach(const Group& group) {
  const WholeGroup whole(group);
  const tenon::Status said = tenon::author::check_rules(tenon::author::FragmentView(whole.fragment()));
  return said.ok() ? "" : std::string(said.message());
}

std::vector<Group> matches(const Pattern& pattern, uint32_t dtype, int rounds, bool strided = false) {
  Random random(41);
  std::vector<Group> out;
  for (int i = 0; i < rounds; ++i) {
    Choices choices(random);
    if (auto group = draw_match(pattern, dtype, strided, 300, choices)) out.push_back(*std::move(group));
  }
  return out;
}

std::string ops_of(const Group& group) {
  std::string out;
  for (const GroupNode& node : group.nodes) out += std::string(node.row->name) + " ";
  return out;
}

}  // namespace

TEST_CASE("pattern: every fragment keeps the rules of ops.def, dense and strided") {
  for (const Raw* raw : {&epilogue(), &add_norm()}) {
    for (const uint32_t dtype : {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f64}) {
      for (const bool strided : {false, true}) {
        const std::vector<Group> found = matches(raw->read(), dtype, 60, strided);
        CHECK(found.size() > 20);
        for (const Group& group : found) {
          CAPTURE(told(group));
          REQUIRE(breach(group).empty());
          Reckoning reckoned(group);
          reckoned.all();
          REQUIRE(reckoned.value(group.outputs.back()).tensor.dtype ==
                  group.operand(group.outputs.back()).dtype);
        }
      }
    }
  }
}

TEST_CASE(
    "pattern: each op of a step, each step that may be missing and each order of an addition is drawn") {
  std::set<std::string> kinds;
  bool straight = false, turned = false;
  for (const Group& group : matches(epilogue().read(), TN_DTYPE_f32, 200)) {
    kinds.insert(ops_of(group));
    if (group.nodes[1].row->op != TN_OP_add) continue;
    const auto& in = group.nodes[1].in;
    straight = straight || in[0] == group.nodes[0].out[0];
    turned = turned || in[1] == group.nodes[0].out[0];
  }
  CHECK(kinds == std::set<std::string>{"matmul add ", "matmul relu ", "matmul tanh ", "matmul add relu ",
                                       "matmul add tanh "});
  CHECK(straight);
  CHECK(turned);
}

TEST_CASE("pattern: values stay inside, except the last and those that may be used outside") {
  bool inside = false, outside = false;
  for (const Group& group : matches(add_norm().read(), TN_DTYPE_f32, 100)) {
    const uint32_t sum = group.nodes[0].out[0];
    inside = inside || group.is_inner(sum);
    outside = outside || group.is_output(sum);
    REQUIRE(group.is_output(group.nodes[1].out[0]));
  }
  CHECK(inside);
  CHECK(outside);
  for (const Group& group : matches(epilogue().read(), TN_DTYPE_f32, 100)) {
    for (size_t n = 0; n + 1 < group.nodes.size(); ++n) REQUIRE(group.is_inner(group.nodes[n].out[0]));
  }
}

TEST_CASE("pattern: one free input is one value, wherever it is read") {
  const Raw raw({{acts, 2, {in0}}, {add, 1, {0, in0}}});
  const std::vector<Group> found = matches(raw.read(), TN_DTYPE_f32, 60);
  CHECK(found.size() > 10);
  for (const Group& group : found) {
    CAPTURE(told(group));
    const auto& in = group.nodes[1].in;
    REQUIRE((in[0] == group.nodes[0].in[0] || in[1] == group.nodes[0].in[0]));
    REQUIRE(group.inputs.size() == 1);
  }
}

TEST_CASE("pattern: two steps that decide shapes fit each other") {
  const Raw raw({{matmul, 1, {in0, in1}}, {softmax, 1, {0}}, {matmul, 1, {1, in2}}});
  const std::vector<Group> found = matches(raw.read(), TN_DTYPE_f32, 100);
  CHECK(found.size() > 10);
  for (const Group& group : found) {
    CAPTURE(told(group));
    REQUIRE(breach(group).empty());
    REQUIRE(ops_of(group) == "matmul softmax matmul ");
  }
}

TEST_CASE("pattern: one that is none is refused with its step") {
  const auto refusal = [](std::vector<Step> steps) {
    const Raw raw(std::move(steps));
    const auto read = read_pattern(raw.pattern);
    REQUIRE(!read.ok());
    CHECK(read.code() == TN_INVALID);
    return std::string(read.message());
  };
  static const uint32_t unknown[] = {60000};
  CHECK(refusal({{unknown, 1, {in0}}}).find("step 0: op 60000") != std::string::npos);
  CHECK(refusal({{add, 1, {in0, 1}}, {add, 1, {0, in1}}}).find("step 0: operand 1") != std::string::npos);
  CHECK(refusal({{add, 0, {in0}}}).find("no op") != std::string::npos);
  CHECK(refusal({{add, 1, {}, TN_PATTERN_OPTIONAL}}).find("no operand stands for it") != std::string::npos);
}

TEST_CASE("pattern: every op stands among neighbours, in every type") {
  Random random(42);
  for (const Row& row : op_rows) {
    const bool left_out = !is_single(row) || row.family == Family::OPTIMIZER ||
                          row.family == Family::SCALING || row.op == TN_OP_convert_layout;
    if (left_out || row.shape == ShapeRule::BROADCAST) continue;
    for (const uint32_t dtype : subjects(row)) {
      int found = 0;
      for (int i = 0; i < 40; ++i) {
        Choices choices(random);
        const Pattern pattern = among_neighbours(row, dtype, nullptr, choices);
        const auto group = draw_match(pattern, dtype, choices.chance(3), 60, choices);
        if (!group) continue;
        ++found;
        CAPTURE(told(*group));
        REQUIRE(breach(*group).empty());
        REQUIRE(group->nodes.size() >= 2);
      }
      CAPTURE(row.name);
      CAPTURE(tenon::author::dtype_name(dtype));
      CHECK(found >= 4);
    }
  }
}
