// SPDX-License-Identifier: Apache-2.0
// program.cpp: compiling a node, and running it again and again.
#include "conformance/gradients/program.hpp"

namespace tenon::conform {

Result<std::unique_ptr<Program>> Program::make(Context& t, const Device& device, const Stream& stream,
                                               const Trial& trial) {
  const OneNode node(trial);
  const tn_support said = TN_TRY(supports(t, device, node.fragment()));
  if (said.verdict == TN_SUPPORT_NO) return Status(TN_UNSUPPORTED, words(trial.row->name, ": ", said.reason));
  auto made = compile(t, device, node.fragment());
  if (!made.ok())
    return Status(TN_INTERNAL, words(told(trial), ": kernel.supports says yes: ", made.message()));
  std::unique_ptr<Program> out(new Program(t, stream, trial));
  out->kernel_ = *std::move(made);
  out->workspace_ = TN_TRY(Workspace::make(device, stream, TN_TRY(out->kernel_.info())));
  for (const Operand& operand : trial.inputs) {
    if (!operand.absent) out->inputs_.push_back(TN_TRY(buffer_of(device, stream, operand)));
  }
  for (const Operand& operand : trial.outputs) {
    if (!operand.absent) out->outputs_.push_back(TN_TRY(buffer_of(device, stream, operand)));
  }
  return out;
}

Result<std::vector<Tensor>> Program::run(const std::vector<Tensor>& inputs) {
  std::vector<tn_span> bindings;
  auto next = inputs_.begin();
  for (size_t i = 0; i < trial_.inputs.size(); ++i) {
    if (trial_.inputs[i].absent) continue;
    Buffer& buffer = *next++;
    TN_TRY(upload(stream_, buffer.memory.span(), image_of(*buffer.operand, buffer.at, inputs[i])));
    bindings.push_back(buffer.memory.span());
  }
  for (const Buffer& buffer : outputs_) bindings.push_back(buffer.memory.span());
  TN_TRY(kernel_.launch(stream_, bindings, workspace_.span()));
  TN_TRY(stream_.finish());
  TN_TRY(workspace_.check(t_, stream_));
  std::vector<Tensor> out;
  auto from = outputs_.begin();
  for (const Operand& operand : trial_.outputs) {
    if (operand.absent) {
      out.emplace_back();
      continue;
    }
    const Buffer& buffer = *from++;
    out.push_back(tensor_of(buffer, TN_TRY(buffer.memory.read(t_, stream_, told(operand)))));
  }
  return out;
}

}  // namespace tenon::conform
