// SPDX-License-Identifier: Apache-2.0
// index_test.cpp: loops: merging them, dividing sums of them, cutting them where a reshape needs it.
#include "kernels/index.hpp"

#include <doctest/doctest.h>

using namespace tenon::cuda;

namespace {
Space space(const Dims& dims, const std::vector<Cut>& cuts = {}) {
  return Space(dims, std::vector<bool>(dims.size()), cuts);
}
}  // namespace

TEST_CASE("index: loops that every sum walks as one become one") {
  Space s = space({2, 3, 4});
  Affine dense = dot(s.whole(), dense_strides(Dims{2, 3, 4}));
  s.simplify(dense, {&dense});
  REQUIRE(s.loops(false).size() == 1);
  CHECK(s.variables()[s.loops(false)[0]].extent == 24);
  CHECK(dense.factor(s.loops(false)[0]) == 1);
}

TEST_CASE("index: a gap, or another order, keeps loops apart") {
  Space s = space({2, 3, 4});
  Affine gaps = dot(s.whole(), Dims{15, 5, 1}), dense = dot(s.whole(), dense_strides(Dims{2, 3, 4}));
  s.simplify(dense, {&gaps, &dense});
  CHECK(s.loops(false).size() == 2);  // the outer two walk as one in both
}

TEST_CASE("index: the shortest step is innermost") {
  Space s = space({8, 5});
  Affine turned = dot(s.whole(), Dims{1, 8});
  s.simplify(turned, {&turned});
  REQUIRE(s.loops(false).size() == 1);
  CHECK(turned.factor(s.loops(false)[0]) == 1);
}

TEST_CASE("index: folded loops never merge with kept ones") {
  const Dims dims{4, 6};
  Space s(dims, {false, true}, {});
  Affine dense = dot(s.whole(), dense_strides(dims));
  s.simplify(dense, {&dense});
  CHECK(s.loops(false).size() == 1);
  CHECK(s.loops(true).size() == 1);
}

TEST_CASE("index: a reshape across nesting dims wishes for a cut, and with it knows sums only") {
  Space uncut = space({24});
  uncut.delinearised(uncut.whole()[0], Dims{6, 4});
  REQUIRE(uncut.wish());
  CHECK(uncut.wish()->dim == 0);
  CHECK(uncut.wish()->inner == 4);

  Space cut = space({24}, {*uncut.wish()});
  const Index index = cut.delinearised(cut.whole()[0], Dims{6, 4});
  CHECK(!cut.wish());
  CHECK(cut.variables().size() == 2);
  CHECK(index[0].terms.size() == 1);
  CHECK(index[1].terms.size() == 1);
}

TEST_CASE("index: a reshape across dims that do not nest is divided at run time") {
  Space s = space({14, 15});
  const Affine element = dot(s.whole(), dense_strides(Dims{14, 15}));
  const Index index = s.delinearised(element, Dims{10, 21});
  for (const Affine& sum : index) {
    REQUIRE(sum.terms.size() == 1);
    CHECK(s.is_derived(sum.terms[0].variable));
    CHECK(s.depends_indirectly(sum, 0));
    CHECK(s.depends_indirectly(sum, 1));
  }
}

TEST_CASE("index: what is divided at run time is never negative, though the sum around it may be") {
  Space s = space({5, 4});
  Affine padded = dot(s.whole(), Dims{6, 1});
  padded.constant = -7;  // one row and one column before the first element
  const Index index = s.delinearised(padded, Dims{4, 3});
  for (const Variable& variable : s.variables()) {
    if (variable.from) CHECK(s.least(*variable.from) >= 0);
  }
  CHECK(index[0].constant == -3);  // ⌊-7 / 3⌋; the derived part adds what is left over
}

TEST_CASE("index: sums know their range") {
  const Space s = space({3, 5});
  Affine sum = dot(s.whole(), Dims{10, 1});
  sum.constant = -2;
  CHECK(s.least(sum) == -2);
  CHECK(s.most(sum) == 22);
}
