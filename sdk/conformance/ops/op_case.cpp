// SPDX-License-Identifier: Apache-2.0
// op_case.cpp: many trials of one op and dtype, and the smallest that fails.
#include "conformance/ops/ask.hpp"

#include <algorithm>
#include <iomanip>

namespace tenon::conform {

namespace {

constexpr unsigned shrink_attempts = 150;

// How many trials, and about how many elements each has: most are small, every eighth is large enough for several threads
// and for more than one tile. Where some forms are refused, up to four times as many are drawn, so that the others are not
// tried less.
struct Effort {
  int trials;
  uint64_t small, large;
};
Effort effort_of(const Context& t) { return t.quick() ? Effort{8, 600, 40'000} : Effort{40, 4'000, 200'000}; }

// The trial that a list of choices makes, with the case's own settings.
struct Maker {
  const Row& row;
  uint32_t dtype;
  Form form;
  uint64_t budget;
  Trial operator()(Choices& choices) const { return draw_trial(row, dtype, form, budget, choices); }
};

std::string smallest(Context& t, const Device& device, const Maker& make, std::vector<uint64_t> failing,
                     std::string story) {
  const auto fails = [&](const std::vector<uint64_t>& list) {
    Choices choices(list);
    const Answer again = ask(t, device, make(choices));
    if (again.kind != Answer::Kind::failed) return false;
    story = again.story;
    return true;
  };
  Choices least(shrink(std::move(failing), fails, shrink_attempts));
  const Trial trial = make(least);
  return words(told(trial), ", numbers of seed ", trial.value_seed,
               trial.specials ? " with NaN and infinities" : "", ": ", story);
}

std::string told(const Eased& eased) {
  return words(eased.elements, eased.elements == 1 ? " element needs" : " elements need",
               " the tolerance that the vendor declares: the farthest is off by ", std::setprecision(4),
               eased.ulps, " ULP, ", eased.usual_ulps, " are usual");
}

const char* suffix(Form form) {
  switch (form) {
    case Form::dense:
      return "";
    case Form::strided:
      return ".strided";
    case Form::in_place:
      return ".in_place";
  }
  return "";
}

}  // namespace

std::string op_tag(const Case& wanted, Form form) {
  return words("op.", wanted.op, ".", wanted.dtype, suffix(form));
}

// A question costs little: many are asked before an op counts as refused.
constexpr int refusals_at_least = 64;

Status run_op_case(Context& t, Form form) {
  const Case& wanted = *t.wanted();
  const Row& row = *find_row(std::string_view(wanted.op));
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const Effort effort = effort_of(t);
  int agreed = 0, refused = 0;
  std::string reason, remark;
  Eased eased;
  const auto enough = [&](int drawn) {
    return agreed == 0 ? drawn >= std::max(4 * effort.trials, refusals_at_least)
                       : agreed >= effort.trials || drawn >= 4 * effort.trials;
  };
  for (int i = 0; !enough(i); ++i) {
    const Maker make{row, find_dtype(wanted.dtype), form, i % 8 == 7 ? effort.large : effort.small};
    Choices choices(t.random());
    const Answer answer = ask(t, device, make(choices));
    if (answer.kind == Answer::Kind::failed) {
      return t.require(false, smallest(t, device, make, choices.made(), answer.story));
    }
    if (answer.kind == Answer::Kind::refused && refused++ == 0) reason = answer.story;
    if (answer.kind == Answer::Kind::agreed) ++agreed;
    if (remark.empty()) remark = answer.remark;
    if (answer.eased.ulps > eased.ulps) eased = {eased.elements, answer.eased.ulps, answer.eased.usual_ulps};
    eased.elements += answer.eased.elements;
    t.check(true);
  }
  if (!remark.empty()) t.warn(remark);
  if (eased.elements > 0) t.ease(told(eased));
  if (agreed > 0 && refused > 0)
    t.warn(words("refuses ", refused, " of ", agreed + refused, " forms: ", reason));
  return t.needs(agreed > 0, op_tag(wanted, form), reason);
}

}  // namespace tenon::conform
