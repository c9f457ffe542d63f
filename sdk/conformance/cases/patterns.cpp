// SPDX-License-Identifier: Apache-2.0
// patterns.cpp: level 2, fragments that match what the plugin publishes.
//
// Invariant: a pattern is read as data; which there are, nobody knows before the plugin is asked.
#include "conformance/case.hpp"
#include "conformance/fragments/ask_group.hpp"
#include "conformance/fragments/pattern.hpp"

namespace tenon::conform {

namespace {

constexpr int tries = 200;  // draws until a fragment comes of a pattern

// What the plugin publishes; leaves the case as unsupported ("kernel.patterns") where that is nothing.
Result<std::vector<Pattern>> published(Context& t, const Device& device) {
  TN_TRY(needs_kernels(t, device));
  const tn_kernel_api& api = device.api().kernel;
  TN_TRY(t.needs(api.patterns != nullptr, "kernel.patterns", "the plugin publishes no fusions"));
  tn_pattern_list list{};
  TN_TRY(t.call("kernel.patterns", [&](tn_error* e) { return api.patterns(device.handle(), &list, e); }));
  TN_TRY(t.needs(list.count > 0, "kernel.patterns", "the list of fusions is empty"));
  std::vector<Pattern> out;
  for (uint64_t i = 0; i < list.count; ++i) {
    auto read = read_pattern(list.items[i]);
    if (!read.ok()) return Status(TN_INTERNAL, std::string(read.message()));
    out.push_back(*std::move(read));
  }
  return out;
}

// Draws until a fragment comes of it.
std::optional<Group> some_match(const Pattern& pattern, uint32_t dtype, bool strided, uint64_t budget,
                                Choices& choices) {
  for (int i = 0; i < tries; ++i) {
    if (auto group = draw_match(pattern, dtype, strided, budget, choices)) return group;
  }
  return {};
}

// Every pattern in turn, each with the effort of a case.
Status matches_agree(Context& t, uint32_t dtype, bool strided) {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Pattern> patterns = TN_TRY(published(t, device));
  const std::string type(author::dtype_name(dtype));
  Tally all;
  for (const Pattern& pattern : patterns) {
    const auto ran = run_groups(t, device, [&](Choices& choices, uint64_t budget) {
      return draw_match(pattern, dtype, strided, budget, choices);
    });
    if (!ran.ok()) return Status(TN_INTERNAL, words("pattern '", pattern.name, "': ", ran.message()));
    all.agreed += ran->agreed;
    all.refused += ran->refused;
    all.eased += ran->eased;
    if (all.reason.empty()) all.reason = ran->reason;
    if (all.remark.empty()) all.remark = ran->remark;
    if (ran->agreed == 0) t.warn(words("pattern '", pattern.name, "' in ", type, ": ", ran->lack()));
  }
  tell(t, all);
  return t.needs(all.agreed > 0, words("pattern.", type, strided ? ".strided" : ""), all.lack());
}

}  // namespace

CONFORM_CASE(2, "pattern: matches in f32 give what their ops give", .deadlines = 4) {
  return matches_agree(t, TN_DTYPE_f32, false);
}
CONFORM_CASE(2, "pattern: matches in bf16 give what their ops give", .deadlines = 4) {
  return matches_agree(t, TN_DTYPE_bf16, false);
}
CONFORM_CASE(2, "pattern: matches in f16 give what their ops give", .deadlines = 4) {
  return matches_agree(t, TN_DTYPE_f16, false);
}
CONFORM_CASE(2, "pattern: matches in f64 give what their ops give", .deadlines = 4) {
  return matches_agree(t, TN_DTYPE_f64, false);
}
CONFORM_CASE(2, "pattern: matches with strides give what their ops give", .deadlines = 4) {
  return matches_agree(t, TN_DTYPE_f32, true);
}

// One that is small or large, dense or strided: a plugin may want channels that lie side by side, or sizes worth it.
std::optional<Group> any_match(const Pattern& pattern, int draw, Choices& choices) {
  static constexpr uint32_t types[] = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64};
  const bool strided = draw / 4 % 2 == 1, large = draw / 8 % 2 == 1;
  return draw_match(pattern, types[draw % 4], strided, large ? 20'000 : 2'000, choices);
}

// What a core asks about because it was published, and in vain.
CONFORM_CASE(2, "pattern: every published fusion is taken in some type") {
  const Device& device = *TN_TRY(t.device());
  for (const Pattern& pattern : TN_TRY(published(t, device))) {
    bool taken = false;
    int asked = 0;
    std::string last;
    for (int draw = 0; draw < 1600 && asked < 400 && !taken; ++draw) {
      Choices choices(t.random());
      const auto group = any_match(pattern, draw, choices);
      if (!group) continue;
      const tn_support said = TN_TRY(supports(t, device, WholeGroup(*group).fragment()));
      taken = said.verdict != TN_SUPPORT_NO;
      last = words(told(*group), ": ", said.reason);
      ++asked;
    }
    if (asked == 0) t.warn(words("pattern '", pattern.name, "': no fragment matches it"));
    t.check(taken || asked == 0, "pattern '", pattern.name, "' is published, and each of ", asked,
            " fragments of it was refused; the last, ", last);
  }
  return {};
}

// A plugin may fuse what few draws hit: one kind of groups of a convolution, one way of broadcasting a bias.
constexpr int most_draws = 240;

CONFORM_CASE(2, "pattern: every published fusion keeps its inner values out of memory") {
  const Device& device = *TN_TRY(t.device());
  const std::vector<Pattern> patterns = TN_TRY(published(t, device));
  for (const Pattern& pattern : patterns) {
    bool shown = false, asked = false;
    std::string last = "no fragment matches it";
    for (int i = 0; i < most_draws && !shown; ++i) {
      Choices choices(t.random());
      const auto group = some_match(pattern, TN_DTYPE_f32, false, 20'000, choices);
      if (!group || group->inner_bytes() < 1024) continue;
      const WholeGroup whole(*group);
      const tn_support said = TN_TRY(supports(t, device, whole.fragment()));
      if (said.verdict == TN_SUPPORT_NO) {
        last = words("supports refuses it: ", said.reason);
        continue;
      }
      asked = true;
      const Kernel kernel = TN_TRY(compile(t, device, whole.fragment()));
      const tn_kernel_info info = TN_TRY(kernel.info());
      const Proof proof{
          .verdict = said.verdict, .workspace = info.workspace_bytes, .inner = group->inner_bytes()};
      shown = proof.shown();
      last = words(told(*group), " has ", proof.inner, " bytes of inner values and asks for a workspace of ",
                   proof.workspace, said.reason[0] != '\0' ? ": " : "", said.reason);
    }
    TN_TRY(t.require(shown || !asked, "pattern '", pattern.name,
                     "' is published, and no fragment of it shows a fusion: ", last));
    if (!asked) t.warn(words("pattern '", pattern.name, "': ", last));
  }
  return {};
}

}  // namespace tenon::conform
