// SPDX-License-Identifier: Apache-2.0
// aliases_test.cpp: in-place pairs: which are honoured, and that what is overwritten is never read as read-only.
#include "written.hpp"

using namespace kernels_test;

TEST_CASE("alias: an input whose place an output takes is read like any memory, others past it") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {1 << 12});
  f.alias(1, 0);
  const Program program = written(f);
  for (const char* name : {"step0_wide", "step0_any"}) {
    const std::string text = entry(program, name);
    CAPTURE(name);
    CHECK(holds(text, "false>(static_cast<const f32*>(p.at[1])"));
    CHECK(!holds(text, "true>(static_cast<const f32*>(p.at[1])"));
    CHECK(holds(text, "true>(static_cast<const f32*>(p.at[0])"));
  }
  CHECK(honoured(FragmentView(f.fragment())) == 1);
}

TEST_CASE("alias: all loads of a tile stand before its first store") {
  FragmentBuilder f;
  add(f, TN_DTYPE_f32, {1 << 22});
  f.alias(0, 0);
  const std::string wide = entry(written(f), "step0_wide");
  CHECK(wide.rfind("load<") < wide.find("store<"));
}

TEST_CASE("alias: a pair is not honoured where an element is read that another thread writes") {
  FragmentBuilder turned;
  turned.node(TN_OP_transpose, {turned.input(TN_DTYPE_f32, {8, 8})}, {turned.output(TN_DTYPE_f32, {8, 8})})
      .integers("order", {1, 0});
  turned.alias(0, 0);
  CHECK(honoured(FragmentView(turned.fragment())) == 0);

  FragmentBuilder spread;  // x is read once more, for rows that others write
  const uint32_t x = spread.input(TN_DTYPE_f32, {4}), y = spread.input(TN_DTYPE_f32, {3, 4});
  spread.node(TN_OP_neg, {x}, {spread.output(TN_DTYPE_f32, {4})});
  spread.node(TN_OP_add, {x, y}, {spread.output(TN_DTYPE_f32, {3, 4})});
  spread.alias(0, 0);
  spread.alias(1, 1);
  CHECK(honoured(FragmentView(spread.fragment())) == 2);

  FragmentBuilder centred;  // x − mean(x): the mean reads what the difference overwrites
  const uint32_t z = centred.input(TN_DTYPE_f32, {8}), mean = centred.tensor(TN_DTYPE_f32, {1});
  centred.node(TN_OP_mean, {z}, {mean}).integers("axes", {0}).integer("keepdims", 1);
  centred.node(TN_OP_sub, {z, mean}, {centred.output(TN_DTYPE_f32, {8})});
  centred.alias(0, 0);
  CHECK(honoured(FragmentView(centred.fragment())) == 0);
}

TEST_CASE("alias: a pair is not honoured where the two lie differently") {
  FragmentBuilder f;
  f.node(TN_OP_neg, {f.input(TN_DTYPE_f32, {4, 4}, {1, 4})}, {f.output(TN_DTYPE_f32, {4, 4})});
  f.alias(0, 0);
  CHECK(honoured(FragmentView(f.fragment())) == 0);
}
