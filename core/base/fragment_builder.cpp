// SPDX-License-Identifier: Apache-2.0
// fragment_builder.cpp: collects a fragment and checks each piece as it comes.
//
// Invariant: the first mistake is kept and told by `build`; after it every call still gives usable values, so that the
// caller's chain does not break in a second place. Nodes come after what they use, so their order is one they can run in.
#include "base/fragment_state.hpp"
#include "base/schema.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace tenon {

struct FragmentBuilder::Draft {
  base::Parts parts;
  std::vector<bool> computed{};  // per tensor: the output of a node
  Status mistake{};

  // "fragment 'add3': node 1 (add): …"
  void note(const std::string& where, const std::string& text) {
    if (!mistake.ok()) return;
    const std::string fragment = parts.name.empty() ? "fragment" : "fragment " + base::quoted(parts.name, 64);
    mistake = Status(TN_INVALID, fragment + ": " + where + (where.empty() ? "" : ": ") + text);
  }

  uint32_t add_tensor(TensorSpec spec, const std::string& where, bool is_computed) {
    const Status fits = base::check_spec(spec);
    if (!fits.ok()) note(where, std::string(fits.message()));
    if (fits.ok()) base::drop_dense_strides(spec);
    parts.tensors.push_back({std::move(spec)});
    computed.push_back(is_computed);
    return static_cast<uint32_t>(parts.tensors.size() - 1);
  }

  std::string next_node(Op op) const {
    return "node " + std::to_string(parts.nodes.size()) + " (" + std::string(name(op)) + ")";
  }

  void check_output(uint32_t index, const std::string& where);
  std::vector<uint32_t> take_inputs(const base::OpSchema& schema, std::span<const Value> values,
                                    const std::string& where);
  void check_output_count(const base::OpSchema& schema, const std::vector<TensorSpec>& outputs,
                          const std::string& where);
  std::vector<uint32_t> add_outputs(std::vector<TensorSpec> outputs, const std::string& where);
  void check_alias(const tn_alias& alias);
  void check_whole();
};

namespace {

constexpr DType left_out{};  // TN_DTYPE_NONE as an output's type

std::string range_text(uint32_t least, uint32_t most, bool any) {
  if (any) return "at least " + std::to_string(least);
  return least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
}

bool has_repeated_places(const TensorSpec& spec) {
  for (size_t i = 0; i < spec.strides.size() && i < spec.dims.size(); ++i) {
    if (spec.strides[i] == 0 && spec.dims[i] > 1) return true;
  }
  return false;
}

}  // namespace

// Trailing optional inputs that are absent are left out, so that one meaning has one form.
std::vector<uint32_t> FragmentBuilder::Draft::take_inputs(const base::OpSchema& schema,
                                                          std::span<const Value> values,
                                                          const std::string& where) {
  while (values.size() > schema.inputs_min && values.back().index == TN_ABSENT)
    values = values.first(values.size() - 1);
  if (values.size() < schema.inputs_min || (!schema.many_inputs && values.size() > schema.inputs_max)) {
    note(where, "is given " + base::counted(values.size(), "input") + ", it takes " +
                    range_text(schema.inputs_min, schema.inputs_max, schema.many_inputs));
  }
  std::vector<uint32_t> indexes;
  for (const Value value : values) {
    const std::string input = "input " + std::to_string(indexes.size());
    const bool may_be_absent = indexes.size() >= schema.inputs_min;
    if (value.index == TN_ABSENT && !may_be_absent)
      note(where, input + " is no value: pass what input, constant or node gave");
    if (value.index != TN_ABSENT && value.index >= parts.tensors.size()) {
      note(where, input + " is value " + std::to_string(value.index) + ", this builder has " +
                      std::to_string(parts.tensors.size()) + ": it belongs to another builder");
    }
    indexes.push_back(value.index);
  }
  return indexes;
}

void FragmentBuilder::Draft::check_output_count(const base::OpSchema& schema,
                                                const std::vector<TensorSpec>& outputs,
                                                const std::string& where) {
  const size_t least = schema.outputs == 0 ? 0 : 1;
  if (outputs.size() >= least && (schema.many_outputs || outputs.size() <= schema.outputs)) return;
  note(where, "is given " + base::counted(outputs.size(), "output") + ", it has " +
                  range_text(static_cast<uint32_t>(least), schema.outputs, schema.many_outputs));
}

std::vector<uint32_t> FragmentBuilder::Draft::add_outputs(std::vector<TensorSpec> outputs,
                                                          const std::string& where) {
  std::vector<uint32_t> indexes;
  for (TensorSpec& spec : outputs) {
    const std::string which = where + ": output " + std::to_string(indexes.size());
    if (spec.dtype == left_out && spec.dims.empty()) {
      indexes.push_back(TN_ABSENT);
      continue;
    }
    if (has_repeated_places(spec)) note(which, "has stride 0: only inputs may be broadcast");
    indexes.push_back(add_tensor(std::move(spec), which, true));
  }
  return indexes;
}

void FragmentBuilder::Draft::check_output(uint32_t index, const std::string& where) {
  if (index >= parts.tensors.size()) {
    note(where, index == TN_ABSENT
                    ? "is no value: pass what node gave"
                    : "is value " + std::to_string(index) + ", which belongs to another builder");
  } else if (!computed[index]) {
    note(where, "is an input or a constant: pass it through Op::identity");
  } else if (std::count(parts.outputs.begin(), parts.outputs.end(), index) > 1) {
    note(where, "is an output already: each value is bound once");
  }
}

void FragmentBuilder::Draft::check_alias(const tn_alias& alias) {
  const std::string where =
      "alias of output " + std::to_string(alias.output) + " with input " + std::to_string(alias.input);
  if (alias.output >= parts.outputs.size() || alias.input >= parts.inputs.size()) {
    return note(where, "the fragment has " + base::counted(parts.outputs.size(), "output") + " and " +
                           base::counted(parts.inputs.size(), "input"));
  }
  const auto uses = [&](auto member) {
    return std::count_if(parts.aliases.begin(), parts.aliases.end(),
                         [&](const tn_alias& other) { return other.*member == alias.*member; });
  };
  if (uses(&tn_alias::output) > 1 || uses(&tn_alias::input) > 1)
    note(where, "one of them has an alias already");
  const TensorSpec& output = parts.tensors[parts.outputs[alias.output]].spec;
  const TensorSpec& input = parts.tensors[parts.inputs[alias.input]].spec;
  if (output.bytes() != input.bytes()) {
    note(where, "they take " + std::to_string(output.bytes()) + " and " + std::to_string(input.bytes()) +
                    " bytes: only equal sizes can share a span");
  }
}

void FragmentBuilder::Draft::check_whole() {
  if (parts.nodes.empty()) note("", "it has no node: add at least one");
  const auto without_output = [](const base::NodePart& node) { return node.outputs.empty(); };
  const bool has_effect = std::any_of(parts.nodes.begin(), parts.nodes.end(), without_output);
  if (parts.outputs.empty() && !has_effect) note("", "it has no output: mark one with output()");
  for (const tn_alias& alias : parts.aliases) check_alias(alias);
}

FragmentBuilder::FragmentBuilder(std::string name) : draft_(std::make_unique<Draft>()) {
  draft_->parts.name = std::move(name);
}
FragmentBuilder::FragmentBuilder(FragmentBuilder&&) noexcept = default;
FragmentBuilder& FragmentBuilder::operator=(FragmentBuilder&&) noexcept = default;
FragmentBuilder::~FragmentBuilder() = default;

FragmentBuilder::Value FragmentBuilder::input(TensorSpec spec) {
  const std::string where = "input " + std::to_string(draft_->parts.inputs.size());
  const uint32_t index = draft_->add_tensor(std::move(spec), where, false);
  draft_->parts.inputs.push_back(index);
  return {index};
}

FragmentBuilder::Value FragmentBuilder::constant(TensorSpec spec, std::span<const std::byte> bytes) {
  const std::string where = "value " + std::to_string(draft_->parts.tensors.size()) + " (constant)";
  const uint32_t index = draft_->add_tensor(std::move(spec), where, false);
  base::TensorPart& part = draft_->parts.tensors[index];
  if (!part.spec.strides.empty()) draft_->note(where, "has strides: constants are dense");
  if (part.spec.bytes() != bytes.size()) {
    draft_->note(where, "is given " + base::counted(bytes.size(), "byte") + ", its type and dims take " +
                            std::to_string(part.spec.bytes()));
  }
  part.constant = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {index};
}

FragmentBuilder::Value FragmentBuilder::node(Op op, std::initializer_list<Value> inputs, TensorSpec output,
                                             std::vector<Attribute> attributes) {
  std::vector<TensorSpec> outputs;
  outputs.push_back(std::move(output));
  return node(op, std::span(inputs.begin(), inputs.size()), std::move(outputs), std::move(attributes))
      .front();
}

std::vector<FragmentBuilder::Value> FragmentBuilder::node(Op op, std::span<const Value> inputs,
                                                          std::vector<TensorSpec> outputs,
                                                          std::vector<Attribute> attributes) {
  const std::string where = draft_->next_node(op);
  base::NodePart part{.op = op};
  if (const base::OpSchema* schema = base::schema_of(op)) {
    part.version = schema->version;
    part.inputs = draft_->take_inputs(*schema, inputs, where);
    draft_->check_output_count(*schema, outputs, where);
    auto complete = base::complete_attributes(*schema, std::move(attributes));
    if (!complete.ok()) draft_->note(where, std::string(complete.message()));
    if (complete.ok()) part.attributes = std::move(complete).take();
  } else {
    draft_->note(where, "op " + std::to_string(static_cast<uint32_t>(op)) + " is not in ops.def");
  }
  part.outputs = draft_->add_outputs(std::move(outputs), where);
  std::vector<Value> values;
  for (const uint32_t index : part.outputs) values.push_back({index});
  while (!part.outputs.empty() && part.outputs.back() == TN_ABSENT) part.outputs.pop_back();
  draft_->parts.nodes.push_back(std::move(part));
  return values;
}

void FragmentBuilder::output(Value value) {
  const std::string where = "output " + std::to_string(draft_->parts.outputs.size());
  draft_->parts.outputs.push_back(value.index);
  draft_->check_output(value.index, where);
}

void FragmentBuilder::alias(uint32_t output, uint32_t input) {
  draft_->parts.aliases.push_back({input, output});
}

Result<Fragment> FragmentBuilder::build() {
  if (!draft_->mistake.ok()) return Status(draft_->mistake.error());
  draft_->check_whole();
  // What is missing now may still come: unlike a wrong piece it is not remembered.
  if (!draft_->mistake.ok()) return std::exchange(draft_->mistake, {});
  return Fragment(std::make_shared<const Fragment::State>(draft_->parts));
}

}  // namespace tenon
