// SPDX-License-Identifier: Apache-2.0
// ask_group.hpp: puts a fragment of several nodes to the plugin, whole and node by node, and holds both against the
// reference; runs the cases that draw such fragments.
//
// Invariant: a fragment ends as agreed, as refused with the plugin's reason, as untold (nobody can tell any element of it),
// or as failed with a story; it leaves nothing behind on the device.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/judging.hpp"
#include "conformance/ops/choices.hpp"
#include "conformance/ops/kernel.hpp"

#include <functional>

namespace tenon::conform {

// What a kernel says of itself, and what speaks for it.
struct Proof {
  uint32_t verdict = TN_SUPPORT_NO;
  uint64_t workspace = 0;  // bytes it asked for
  uint64_t inner = 0;      // bytes that the inner values would take
  std::string engine{};
  // Nothing stands where the inner values could be: see docs/conformance.md.
  bool shown() const noexcept { return verdict != TN_SUPPORT_EMULATED && inner > 0 && workspace < inner; }
};

struct GroupAnswer {
  enum class Kind { agreed, refused, untold, failed };
  Kind kind = Kind::agreed;
  std::string story{};   // of a failure; the plugin's reason of a refusal
  std::string remark{};  // worth a warning, although it agreed
  uint64_t eased = 0;    // elements that only the vendor's tolerances let pass
  bool alone = false;    // it ran node by node, too
  Proof proof{};
};

// Asks twice, compiles, launches twice in guarded memory with a guarded, poisoned workspace, compares; then the same node
// by node, where the plugin runs each by itself. [case's thread; blocks]
GroupAnswer ask(Context& t, const Device& device, const Group& group);

// A group from choices; nothing where they come to none.
using DrawGroup = std::function<std::optional<Group>(Choices& choices, uint64_t budget)>;

// What a run of fragments came to.
struct Tally {
  int agreed = 0, refused = 0;
  uint64_t eased = 0;
  std::string reason{}, remark{};

  void count(const GroupAnswer& answer);
  // Why none agreed.
  std::string lack() const {
    return refused > 0 ? reason : "none of the fragments drawn says anything that can be told";
  }
};

// Draws groups, `times` as many as usual, and asks; the first that fails is made as small as it goes, and told.
// [case's thread; may fail]
Result<Tally> run_groups(Context& t, const Device& device, const DrawGroup& draw, int times = 1);
// Remarks, refusals and tolerances of a run, as warnings. [case's thread]
void tell(Context& t, const Tally& tally);

// An op and a type that a case is about.
struct Subject {
  const Row* row;
  uint32_t dtype;
};

// A case of level 2 that is one such run; `tag` is what the vendor calls its subject. Where nothing agreed, and one of
// `parts` is refused alone, too, that is what the plugin lacks: "op.matmul.f32". [case's thread; may fail]
Status run_group_case(Context& t, const std::string& tag, const DrawGroup& draw, int times = 1,
                      const std::vector<Subject>& parts = {});

// The simplest group found that still fails, by `fails`, which is asked at most `attempts` times.
// [any-thread; blocks as `fails` does]
Group simplest(const std::vector<uint64_t>& failing, uint64_t budget, const DrawGroup& draw,
               const std::function<bool(const Group&)>& fails, unsigned attempts);

}  // namespace tenon::conform
