// SPDX-License-Identifier: Apache-2.0
// program.cpp: the prelude, what the fragment's kernels share, and its kernels.
#include "program.hpp"

#include "kernels.hpp"
#include "literal.hpp"
#include "prelude.hpp"

namespace tenon::cuda {

namespace {

void write_constants(const Frame& frame, Source& out) {
  const auto tensors = static_cast<uint32_t>(frame.fragment.tensors().size());
  for (uint32_t t = 0; t < tensors; ++t) {
    const TensorView tensor = frame.fragment.tensor(t);
    if (!tensor.is_constant() || tensor.elements() == 0 || repeated_bits(tensor)) continue;
    out.plain(constant_array(author::text("constant", t), tensor));
  }
}

}  // namespace

Result<Program> write_program(const FragmentView& fragment, const Target& target) {
  TN_TRY(check_fragment(fragment));
  Schedule schedule = make_schedule(fragment);
  const Frame frame{fragment, schedule};
  Source out;
  out.plain(std::string(prelude_source()));
  out.line();
  out.line("namespace tn {");
  out.line();
  out.line("struct Addresses { void* at[", fragment.binding_count() + 1, "]; };");
  write_constants(frame, out);
  Program program;
  uint32_t number = 0;
  for (const Group& group : schedule.groups) {
    Trace traced = TN_TRY(trace(fragment, schedule, group));
    out.line();
    if (group.reductions.empty())
      write_elementwise(frame, traced, target, number, out, program.steps);
    else
      write_reduction(frame, schedule, group, traced, target, number, out, program.steps);
    ++number;
  }
  out.line();
  out.line("}  // namespace tn");
  program.source = out.text();
  program.workspace_bytes = schedule.workspace_bytes;
  return program;
}

}  // namespace tenon::cuda
