// SPDX-License-Identifier: Apache-2.0
// Groups that the kit draws: legal, telling, repeatable, and cut down to what fails.
#include "conformance/fragments/draw_group.hpp"

#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/reckon.hpp"
#include "conformance/fragments/vocabulary.hpp"

#include <tenon/author/op_rules.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tenon::conform;

namespace {

constexpr GroupForm everything{.least_nodes = 2,
                               .most_nodes = 32,
                               .mixed = true,
                               .broadcast = true,
                               .constants = true,
                               .reductions = true,
                               .several = true,
                               .strided = true,
                               .in_place = true};
constexpr GroupForm forms[] = {{},
                               {.integers = true},
                               {.broadcast = true, .strided = true},
                               {.least_nodes = 3, .reductions = true, .several = true},
                               {.in_place = true},
                               everything};

template <class F>
void each_group(int rounds, const F& f) {
  Random random(21);
  for (const GroupForm& form : forms) {
    for (int i = 0; i < rounds; ++i) {
      Choices choices(random);
      f(form, draw_group(form, 200, choices));
    }
  }
}

std::string breach(const Group& group) {
  const WholeGroup whole(group);
  const tenon::Status said = tenon::author::check_rules(tenon::author::FragmentView(whole.fragment()));
  return said.ok() ? "" : std::string(said.message());
}

bool has(const Group& group, uint32_t op) {
  return std::any_of(group.nodes.begin(), group.nodes.end(),
                     [&](const GroupNode& n) { return n.row->op == op; });
}

uint64_t most_elements(const Group& group) {
  uint64_t out = 0;
  for (const GroupNode& node : group.nodes)
    out = std::max(out, element_count(group.operand(node.out[0]).dims));
  return out;
}

}  // namespace

TEST_CASE("group: every one that is drawn keeps the rules of ops.def") {
  each_group(60, [](const GroupForm& form, const Group& group) {
    CAPTURE(told(group));
    REQUIRE(breach(group).empty());
    REQUIRE(group.nodes.size() >= 2);
    REQUIRE(group.nodes.size() <= form.most_nodes);
    REQUIRE(!group.outputs.empty());
    for (uint32_t value = 0; value < group.values.size(); ++value)
      REQUIRE((group.is_read(value) || group.is_output(value)));
  });
}

TEST_CASE("group: most of what is drawn can be told") {
  uint64_t told = 0, all = 0;
  each_group(30, [&](const GroupForm&, const Group& group) {
    Reckoning reckoned(group);
    reckoned.all();
    for (const uint32_t output : group.outputs) {
      for (const double error : reckoned.value(output).error) {
        told += std::isfinite(error) ? 1 : 0;
        ++all;
      }
    }
  });
  CHECK(static_cast<double>(told) > 0.7 * static_cast<double>(all));
}

TEST_CASE("group: what was asked for is there") {
  Random random(22);
  int reductions = 0, casts = 0, constants = 0, several = 0, pairs = 0, narrow = 0;
  for (int i = 0; i < 40; ++i) {
    Choices choices(random);
    const Group group = draw_group(everything, 200, choices);
    reductions += std::any_of(group.nodes.begin(), group.nodes.end(),
                              [](const GroupNode& n) { return n.row->family == Family::REDUCTION; });
    casts += has(group, TN_OP_cast);
    constants +=
        std::any_of(group.values.begin(), group.values.end(), [](const GroupValue& v) { return v.constant; });
    several +=
        std::any_of(group.outputs.begin(), group.outputs.end(), [&](uint32_t v) { return group.is_read(v); });
    pairs += !group.aliases.empty();
    narrow += std::any_of(group.inputs.begin(), group.inputs.end(), [&](uint32_t v) {
      return element_count(group.operand(v).dims) < most_elements(group);
    });
  }
  for (const int count : {reductions, casts, constants, several, pairs, narrow}) CHECK(count >= 5);
}

TEST_CASE("group: an op that is asked for is among the nodes, whatever its type") {
  Random random(23);
  for (const Row* row : elementwise_rows()) {
    for (const uint32_t dtype : subjects(*row)) {
      Choices choices(random);
      const Group group = draw_group_with(*row, dtype, {.most_nodes = 5, .several = true}, 50, choices);
      CAPTURE(told(group));
      REQUIRE(breach(group).empty());
      REQUIRE(std::any_of(group.nodes.begin(), group.nodes.end(),
                          [&](const GroupNode& n) { return n.row == row && n.subject == dtype; }));
    }
  }
}

TEST_CASE("group: a plugin of two ops is asked about groups of these two") {
  Vocabulary known;
  known.add(*find_row("add"), TN_DTYPE_f32);
  known.add(*find_row("sum"), TN_DTYPE_f32);
  Random random(24);
  for (int i = 0; i < 40; ++i) {
    Choices choices(random);
    const Group group =
        draw_group({.most_nodes = 8, .broadcast = true, .reductions = true, .known = &known}, 100, choices);
    CAPTURE(told(group));
    for (const GroupNode& node : group.nodes) REQUIRE(known.has(*node.row, node.subject));
  }
}

TEST_CASE("group: equal choices make equal groups, the simplest the smallest") {
  Random random(25);
  Choices drawn(random);
  const Group group = draw_group(everything, 200, drawn);
  Choices replayed(drawn.made());
  CHECK(told(draw_group(everything, 200, replayed)) == told(group));
  Choices none(std::vector<uint64_t>{});
  const Group least = draw_group(everything, 200, none);
  CHECK(least.nodes.size() == 2);
  CHECK(most_elements(least) == 1);
}

TEST_CASE("group: an identity follows what a group is made of, not its numbers' places") {
  Random random(26);
  Choices choices(random);
  Group group = draw_group({.most_nodes = 6}, 200, choices);
  const auto identity = [](const Group& g) {
    const WholeGroup whole(g);
    return std::vector<uint8_t>(std::begin(whole.fragment().identity), std::end(whole.fragment().identity));
  };
  const auto before = identity(group);
  CHECK(before == identity(group));
  group.values[group.inputs[0]].operand.skew += 1;
  CHECK(before == identity(group));
  group.nodes.back().row = group.nodes.back().row == find_row("neg") ? find_row("abs") : find_row("neg");
  CHECK(before != identity(group));
}

TEST_CASE("group: a cut leaves a legal group with fewer nodes") {
  each_group(15, [](const GroupForm&, const Group& group) {
    for (uint32_t at = 0; at < group.nodes.size(); ++at) {
      const auto less = cut(group, {Cut::Kind::node, at});
      if (!less) continue;
      CAPTURE(told(group));
      CAPTURE(told(*less));
      REQUIRE(less->nodes.size() < group.nodes.size());
      REQUIRE(breach(*less).empty());
    }
    for (uint32_t at = 0; at < group.nodes.size(); ++at) {
      const auto less = cut(group, {Cut::Kind::result, at});
      if (!less) continue;
      CAPTURE(told(group));
      CAPTURE(told(*less));
      REQUIRE(breach(*less).empty());
      for (const uint32_t value : group.nodes[at].out) REQUIRE(less->is_output(value));
    }
  });
}

TEST_CASE("group: shrinking comes to the fewest nodes and the smallest shapes that still fail") {
  const DrawGroup draw = [](Choices& choices, uint64_t budget) {
    return std::optional(draw_group(
        {.least_nodes = 8, .most_nodes = 32, .broadcast = true, .reductions = true}, budget, choices));
  };
  const auto fails = [](const Group& group) {
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](const GroupNode& n) {
      return n.row->op == TN_OP_sum && element_count(group.operand(n.in[0]).dims) >= 3;
    });
  };
  Random random(27);
  int found = 0;
  for (int i = 0; i < 60 && found < 5; ++i) {
    Choices choices(random);
    const auto group = draw(choices, 300);
    if (!fails(*group)) continue;
    ++found;
    const Group least = simplest(choices.made(), 300, draw, fails, 300);
    CAPTURE(told(*group));
    CAPTURE(told(least));
    REQUIRE(fails(least));
    CHECK(least.nodes.size() <= 2);
    CHECK(element_count(least.operand(least.nodes.back().in[0]).dims) <= 16);
  }
  CHECK(found == 5);
}
