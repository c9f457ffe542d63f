// SPDX-License-Identifier: Apache-2.0
// ask.hpp: puts a trial to the plugin and judges the answer; and the cases of one op and dtype made of that.
//
// Invariant: a trial ends as agreed, as refused with the plugin's reason, or as failed with a story; it leaves nothing
// behind on the device.
#pragma once

#include "conformance/case.hpp"
#include "conformance/judging.hpp"
#include "conformance/ops/draw.hpp"
#include "conformance/ops/kernel.hpp"

namespace tenon::conform {

struct Answer {
  enum class Kind { agreed, refused, failed };
  Kind kind = Kind::agreed;
  std::string story{};   // of a failure; the plugin's reason of a refusal
  std::string remark{};  // worth a warning, although it agreed
  Eased eased{};         // what only the vendor's tolerance let pass
};

// Asks, compiles, launches twice, compares. Borders and gaps must stay untouched, inputs unchanged; two runs that
// differ in their bits are a remark, or a failure where the vendor declares that none do. [case's thread; blocks]
Answer ask(Context& t, const Device& device, const Trial& trial);

// The case of the op and dtype that t.wanted() names. Draws trials, shrinks the first that fails. [case's thread; may fail]
Status run_op_case(Context& t, Form form);
// "op.add.f32.strided": what a vendor calls the case's subject in capabilities.toml.
std::string op_tag(const Case& wanted, Form form);

}  // namespace tenon::conform
