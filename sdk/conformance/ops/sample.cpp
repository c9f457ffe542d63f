// SPDX-License-Identifier: Apache-2.0
// sample.cpp: looking for something that the plugin runs.
#include "conformance/ops/sample.hpp"

#include "conformance/ops/compare.hpp"

#include <cmath>

namespace tenon::conform {

namespace {

// A dense trial over `elements`, with the simplest attributes.
Trial plain(const Row& row, uint32_t dtype, int64_t elements) {
  Choices simplest(std::vector<uint64_t>{});
  Trial out = draw_trial(row, dtype, Form::dense, 1, simplest);
  for (Operand& operand : out.inputs) operand.dims = {elements};
  for (Operand& operand : out.outputs) operand.dims = {elements};
  for (size_t i = 1; i < out.inputs.size(); ++i) out.inputs[i].is_first = out.inputs[i].repeats_first = true;
  return out;
}

bool is_sample(const Row& row, Family family) {
  const bool plain_types =
      row.dtypes == DtypeRule::FLOAT || row.dtypes == DtypeRule::NUMBER || row.dtypes == DtypeRule::ANY;
  return row.family == family && (family == Family::UNARY ? row.dtypes != DtypeRule::CAST : plain_types);
}

// Whether other numbers give other results; a difference of one tensor with itself gives none.
bool tells_numbers_apart(Trial trial) {
  trial.value_seed = 1;
  const std::vector<Scalar> one = solve(trial).out[0].tensor.at;
  trial.value_seed = 2;
  const std::vector<Scalar> other = solve(trial).out[0].tensor.at;
  size_t apart = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const bool same = one[i].real == other[i].real || (std::isnan(one[i].real) && std::isnan(other[i].real));
    apart += !same || one[i].whole != other[i].whole;
  }
  return 2 * apart > one.size();
}

}  // namespace

Result<Sample> Sample::find(Context& t, const Device& device, int64_t elements) {
  TN_TRY(needs_kernels(t, device));
  std::string reason;
  for (const Family family : {Family::UNARY, Family::BINARY}) {
    for (const Row& row : op_rows) {
      if (!is_sample(row, family)) continue;
      for (const uint32_t dtype : subjects(row)) {
        Sample out;
        out.trial_ = plain(row, dtype, elements);
        if (family == Family::BINARY && !tells_numbers_apart(plain(row, dtype, 32))) continue;
        const tn_support said = TN_TRY(supports(t, device, OneNode(out.trial_).fragment()));
        if (said.verdict != TN_SUPPORT_NO) return out;
        reason = said.reason;
      }
    }
  }
  return t.unsupported("kernel.elementwise", "the plugin runs no elementwise node by itself: " + reason);
}

Result<Sample> Sample::resized(Context& t, const Device& device, int64_t elements) const {
  Sample out;
  out.trial_ = plain(*trial_.row, trial_.subject, elements);
  const tn_support said = TN_TRY(supports(t, device, OneNode(out.trial_).fragment()));
  if (said.verdict != TN_SUPPORT_NO) return out;
  return t.unsupported("kernel.elementwise",
                       words("the plugin runs no ", told(out.trial_), ": ", said.reason));
}

Bytes Sample::input(uint64_t seed) const {
  Trial asked = trial_;
  asked.value_seed = seed;
  const Job job = solve(asked);
  Bytes out(input_bytes());
  const uint64_t size = element_bytes(trial_.inputs[0].dtype);
  for (uint64_t i = 0; i < job.in[0].at.size(); ++i)
    encode(trial_.inputs[0].dtype, job.in[0].at[i], out.data() + i * size);
  return out;
}

bool Sample::expect(Context& t, uint64_t seed, std::span<const std::byte> found,
                    const std::string& where) const {
  Trial asked = trial_;
  asked.value_seed = seed;
  const Job job = solve(asked);
  const Operand& result = trial_.outputs[0];
  Tensor got{.dtype = result.dtype, .dims = result.dims, .at = {}};
  for (uint64_t i = 0; i < found.size(); i += element_bytes(result.dtype))
    got.at.push_back(decode(result.dtype, found.data() + i));
  const auto wrong = compare(*trial_.row, trial_.subject, job.out[0], got);
  return t.check(!wrong, where, ": ", told(trial_), ": ", wrong.value_or(""));
}

Result<Bench> Bench::make(Context& t, const Device& device, const Sample& sample) {
  Bench out;
  out.kernel = TN_TRY(compile(t, device, OneNode(sample.trial()).fragment()));
  out.info = TN_TRY(out.kernel.info());
  out.input = TN_TRY(device.alloc(sample.input_bytes()));
  out.output = TN_TRY(device.alloc(sample.output_bytes()));
  out.workspace = TN_TRY(workspace_of(device, out.info));
  return out;
}

Status Bench::launch(const Stream& stream, std::span<const tn_span> bindings) const {
  const tn_span span = workspace.span();
  return kernel.launch(stream, bindings, info.workspace_bytes != 0 ? &span : nullptr);
}

}  // namespace tenon::conform
