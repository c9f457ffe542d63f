// SPDX-License-Identifier: Apache-2.0
// trace.cpp: pulling elements through the nodes of a group.
#include "trace.hpp"

#include "literal.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::attribute_dtype;
using author::attribute_f64;
using author::attribute_i64;
using author::attribute_i64s;

namespace {

constexpr size_t most_values = 2048;

class Tracer {
 public:
  Tracer(const FragmentView& fragment, const Schedule& schedule, const Group& group,
         std::span<const Cut> cuts)
      : fragment_(fragment), schedule_(schedule), group_(group), out_{.space = space_of(cuts)} {}

  Result<Trace> run() {
    for (const uint32_t n : group_.reductions)
      out_.folded.push_back(pull(fragment_.nodes()[n].inputs[0], out_.space.whole()));
    out_.folded_values = group_.reductions.empty() ? 0 : out_.values.size();
    const bool found = std::ranges::any_of(
        group_.reductions, [&](uint32_t n) { return fragment_.nodes()[n].op == TN_OP_argmax; });
    if (found) out_.element = out_.space.reduced_element();
    known_.clear();  // what is folded exists inside the loop alone
    for (const uint32_t tensor : group_.stores) trace_store(tensor);
    TN_TRY(check_size());
    return std::move(out_);
  }

  Result<RowTrace> run_rows() {
    for (size_t i = 0, slot = 0; i < group_.stages.size(); ++i) {
      open_stage();
      for (; slot < group_.stages[i]; ++slot) {
        out_.folded.push_back(pull(fragment_.nodes()[group_.reductions[slot]].inputs[0], out_.space.whole()));
        stages_.back().slots.push_back(static_cast<uint32_t>(slot));
      }
      close_stage();
    }
    for (const bool whole : {true, false}) {
      open_stage();
      for (const uint32_t tensor : group_.stores) {
        if (has_dims_of_rows(tensor) == whole) trace_store(tensor);
      }
      for (const uint32_t n : group_.columns) {
        if (whole) columns_.push_back(pull(fragment_.nodes()[n].inputs[0], out_.space.whole()));
      }
      close_stage();
    }
    TN_TRY(check_size());
    if (crosses_rows_) return Status(TN_UNSUPPORTED, "moves elements from one row to another");
    if (!columns_.empty()) out_.element = out_.space.reduced_element();
    return RowTrace{{std::move(out_)}, std::move(stages_), std::move(columns_)};
  }

  const std::optional<Cut>& wish() const noexcept { return out_.space.wish(); }

 private:
  // What a stage makes is gone when the next one begins.
  void open_stage() {
    known_.clear();
    const size_t first = out_.values.size();
    stages_.push_back({.first = first, .by_row = first});
  }
  void close_stage() { stages_.back().last = out_.values.size(); }
  bool has_dims_of_rows(uint32_t tensor) const {
    const tn_node& node = fragment_.nodes()[group_.reductions.front()];
    return author::same_dims(fragment_.tensor(node.inputs[0]), fragment_.tensor(tensor));
  }

  void trace_store(uint32_t tensor) {
    const Index index = stored_index(tensor);
    const uint32_t value = pull(tensor, index);
    out_.stores.push_back({.value = value, .tensor = tensor, .sum = dot(index, strides(tensor))});
  }

  Status check_size() const {
    if (out_.values.size() <= most_values) return {};
    return Status(TN_UNSUPPORTED,
                  author::text("takes over ", most_values,
                               " values for one element, most of them for elements that several branches "
                               "move differently: cut it at a concat, pad or reshape"));
  }

  using Key = std::tuple<uint32_t, Index, std::vector<Condition>>;

  Space space_of(std::span<const Cut> cuts) const {
    if (group_.reductions.empty()) {
      const TensorView first = fragment_.tensor(group_.stores.front());
      return Space(first.dims(), std::vector<bool>(first.rank()), cuts);
    }
    const tn_node& node = fragment_.nodes()[group_.reductions.front()];
    return Space(fragment_.tensor(node.inputs[0]).dims(), folded_dims(fragment_, node), cuts);
  }

  Index stored_index(uint32_t tensor) const {
    if (group_.reductions.empty() || (group_.keeps_rows() && has_dims_of_rows(tensor)))
      return out_.space.whole();
    const size_t kept = out_.space.kept(false).size();
    return out_.space.kept(fragment_.tensor(tensor).rank() != kept);
  }

  std::vector<int64_t> strides(uint32_t tensor) const {
    const TensorView view = fragment_.tensor(tensor);
    const bool own = schedule_.homes[tensor].kind == Home::Kind::workspace || view.is_constant();
    const auto given = view.strides();
    return own ? dense_strides(view.dims()) : Dims(given.begin(), given.begin() + view.rank());
  }

  uint32_t append(Value value) {
    out_.values.push_back(std::move(value));
    return static_cast<uint32_t>(out_.values.size() - 1);
  }
  uint32_t number(uint32_t dtype, uint64_t bits) {
    return append({.kind = Value::Kind::number, .dtype = dtype, .bits = bits});
  }

  // Whether the tensor's elements are in memory when this group runs.
  bool in_memory(uint32_t tensor) const {
    const Home& home = schedule_.homes[tensor];
    const uint32_t n = schedule_.producers[tensor];
    if (n == TN_ABSENT) return true;
    if (home.kind == Home::Kind::none || !is_reduction(fragment_.nodes()[n].op)) return false;
    return std::ranges::find(group_.reductions, n) == group_.reductions.end();
  }

  // `conditions_` are in force while it runs.
  uint32_t pull(uint32_t tensor, const Index& index) {
    if (out_.values.size() > most_values) return 0;
    const Key key{tensor, index, conditions_};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const uint32_t made =
        in_memory(tensor) ? load(tensor, index) : pull_node(schedule_.producers[tensor], index);
    known_.emplace(key, made);
    return made;
  }

  uint32_t load(uint32_t tensor, const Index& index) { return load_at(tensor, dot(index, strides(tensor))); }

  uint32_t load_at(uint32_t tensor, Affine sum) {
    const TensorView view = fragment_.tensor(tensor);
    if (const auto bits = repeated_bits(view)) return number(view.dtype(), *bits);
    return append({.kind = Value::Kind::load,
                   .dtype = view.dtype(),
                   .tensor = tensor,
                   .sum = std::move(sum),
                   .conditions = conditions_});
  }

  uint32_t pull_node(uint32_t n, const Index& index) {
    const tn_node& node = fragment_.nodes()[n];
    if (is_reduction(node.op)) {
      crosses_rows_ = crosses_rows_ || index != stored_index(node.outputs[0]);
      return reduced(n);
    }
    switch (node.op) {
      case TN_OP_identity:
      case TN_OP_convert_layout:
      case TN_OP_broadcast_to:
        return pull(node.inputs[0], projected(index, node.inputs[0]));
      case TN_OP_reshape:
        return reshape(node, index);
      case TN_OP_transpose:
        return transpose(node, index);
      case TN_OP_slice:
        return slice(node, index);
      case TN_OP_pad:
        return pad(node, index);
      case TN_OP_concat:
        return concat(node, index);
      case TN_OP_constant: {
        const uint32_t dtype = fragment_.tensor(node.outputs[0]).dtype();
        return number(dtype, bits_of(dtype, *attribute_f64(node, "value")));
      }
      case TN_OP_one_hot:
        return one_hot(node, index);
      case TN_OP_embedding:
        return embedding(node, index);
      default:
        return compute(n, index);
    }
  }

  uint32_t reduced(uint32_t n) {
    const auto slot = std::ranges::find(group_.reductions, n) - group_.reductions.begin();
    return append({.kind = Value::Kind::reduced,
                   .dtype = fragment_.tensor(fragment_.nodes()[n].outputs[0]).dtype(),
                   .node = n,
                   .slot = static_cast<uint32_t>(slot)});
  }

  // numpy's broadcasting: trailing dims meet, a dim of 1 stays at its one element.
  Index projected(const Index& index, uint32_t tensor) const {
    const TensorView view = fragment_.tensor(tensor);
    Index out(index.end() - view.rank(), index.end());
    for (size_t i = 0; i < out.size(); ++i) {
      if (view.dims()[i] == 1) out[i] = {};
    }
    return out;
  }

  uint32_t compute(uint32_t n, const Index& index) {
    const tn_node& node = fragment_.nodes()[n];
    const TensorView made = fragment_.tensor(node.outputs[0]);
    // Of integers every number is finite: nothing is read.
    if (node.op == TN_OP_is_finite && !author::is_float(fragment_.tensor(node.inputs[0]).dtype()))
      return number(TN_DTYPE_bool, 1);
    Value value{.kind = Value::Kind::compute, .dtype = made.dtype(), .node = n};
    for (uint32_t i = 0; i < node.input_count; ++i)
      value.arguments.push_back(pull(node.inputs[i], projected(index, node.inputs[i])));
    if (author::op_row(node.op).family == "RANDOM" && node.op != TN_OP_advance) {
      value.arguments.push_back(append({.kind = Value::Kind::element,
                                        .dtype = TN_DTYPE_u64,
                                        .sum = dot(index, dense_strides(made.dims()))}));
    }
    return append(std::move(value));
  }

  uint32_t reshape(const tn_node& node, const Index& index) {
    const TensorView from = fragment_.tensor(node.inputs[0]), to = fragment_.tensor(node.outputs[0]);
    const Affine element = dot(index, dense_strides(to.dims()));
    if (in_memory(node.inputs[0]) && (from.is_dense() || from.is_constant()))
      return load_at(node.inputs[0], element);
    return pull(node.inputs[0], out_.space.delinearised(element, from.dims()));
  }

  uint32_t transpose(const tn_node& node, const Index& index) {
    const auto order = *attribute_i64s(node, "order");
    Index from(index.size());
    for (size_t i = 0; i < order.size(); ++i) from[static_cast<size_t>(order[i])] = index[i];
    return pull(node.inputs[0], from);
  }

  uint32_t slice(const tn_node& node, const Index& index) {
    const auto begin = *attribute_i64s(node, "begin"), step = *attribute_i64s(node, "step");
    Index from(index.size());
    for (size_t i = 0; i < index.size(); ++i) {
      from[i].constant = begin[i];
      from[i].add(index[i], step[i]);
    }
    return pull(node.inputs[0], from);
  }

  // The element of `tensor` at `index` where `wanted` holds, else `other`.
  uint32_t guarded(uint32_t tensor, const Index& index, std::vector<Condition> wanted, uint32_t other) {
    if (wanted.empty()) return pull(tensor, index);
    const std::vector<Condition> before = conditions_;
    conditions_.insert(conditions_.end(), wanted.begin(), wanted.end());
    const uint32_t inside = pull(tensor, index);
    conditions_ = before;
    return append({.kind = Value::Kind::select,
                   .dtype = fragment_.tensor(tensor).dtype(),
                   .conditions = std::move(wanted),
                   .arguments = {inside, other}});
  }

  uint32_t pad(const tn_node& node, const Index& index) {
    const TensorView from = fragment_.tensor(node.inputs[0]);
    const auto before = *attribute_i64s(node, "before"), after = *attribute_i64s(node, "after");
    Index inner = index;
    std::vector<Condition> wanted;
    for (size_t i = 0; i < index.size(); ++i) {
      inner[i].constant -= before[i];
      if (before[i] != 0 || after[i] != 0) wanted.push_back({.sum = inner[i], .extent = from.dims()[i]});
    }
    const uint32_t other = number(from.dtype(), bits_of(from.dtype(), *attribute_f64(node, "value")));
    if (from.elements() == 0) return other;
    return guarded(node.inputs[0], inner, std::move(wanted), other);
  }

  uint32_t concat(const tn_node& node, const Index& index) {
    const auto rank = static_cast<int64_t>(index.size());
    const int64_t given = *attribute_i64(node, "axis");
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    uint32_t chosen = TN_ABSENT;
    int64_t begin = 0;
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const TensorView part = fragment_.tensor(node.inputs[i]);
      const int64_t extent = part.dims()[axis];
      if (part.elements() == 0) continue;
      Index inner = index;
      inner[axis].constant -= begin;
      begin += extent;
      std::vector<Condition> wanted;
      if (extent != fragment_.tensor(node.outputs[0]).dims()[axis])
        wanted.push_back({.sum = inner[axis], .extent = extent});
      if (chosen == TN_ABSENT) chosen = number(part.dtype(), 0);
      chosen = guarded(node.inputs[i], inner, std::move(wanted), chosen);
    }
    return chosen;
  }

  uint32_t one_hot(const tn_node& node, const Index& index) {
    const uint32_t which = pull(node.inputs[0], Index(index.begin(), index.end() - 1));
    return append({.kind = Value::Kind::one_hot,
                   .dtype = fragment_.tensor(node.outputs[0]).dtype(),
                   .sum = index.back(),
                   .arguments = {which}});
  }

  uint32_t embedding(const tn_node& node, const Index& index) {
    const TensorView table = fragment_.tensor(node.inputs[1]);
    const uint32_t row = pull(node.inputs[0], Index(index.begin(), index.end() - 1));
    const std::vector<int64_t> steps = strides(node.inputs[1]);
    return append({.kind = Value::Kind::look_up,
                   .dtype = table.dtype(),
                   .tensor = node.inputs[1],
                   .step = steps[0],
                   .rows = table.dims()[0],
                   .sum = dot({index.back()}, std::span(steps).subspan(1)),
                   .conditions = conditions_,
                   .arguments = {row}});
  }

  const FragmentView& fragment_;
  const Schedule& schedule_;
  const Group& group_;
  Trace out_;
  std::vector<Condition> conditions_{};
  std::map<Key, uint32_t> known_{};
  std::vector<RowTrace::Stage> stages_{};
  std::vector<uint32_t> columns_{};
  bool crosses_rows_ = false;  // a row needs what another one folds
};

// A space whose loops are cut where a reshape needs it knows sums only. Each cut leaves smaller loops, so this ends.
template <class Run>
auto trace_with_cuts(const FragmentView& fragment, const Schedule& schedule, const Group& group, Run&& run) {
  std::vector<Cut> cuts;
  while (true) {
    Tracer tracer(fragment, schedule, group, cuts);
    auto made = run(tracer);
    if (!made.ok() || !tracer.wish() || cuts.size() == 32) return made;
    cuts.push_back(*tracer.wish());
  }
}

}  // namespace

std::vector<Affine*> Trace::sums() {
  std::vector<Affine*> out;
  for (Value& value : values) {
    out.push_back(&value.sum);
    for (Condition& condition : value.conditions) out.push_back(&condition.sum);
  }
  for (Store& one : stores) out.push_back(&one.sum);
  if (!element.terms.empty()) out.push_back(&element);
  return out;
}

void RowTrace::part_stages() {
  const auto varies = [&](const Affine& sum) {
    return std::ranges::any_of(space.loops(true), [&](uint32_t v) { return space.depends(sum, v); });
  };
  std::vector<bool> by_row(values.size()), stored(values.size());
  std::vector<uint32_t> place(values.size());
  for (const Store& one : stores) stored[one.value] = true;  // for each element, though all be equal
  for (Stage& stage : stages) {
    for (size_t i = stage.first; i < stage.last; ++i) {
      const Value& value = values[i];
      by_row[i] = !stored[i] && !varies(value.sum) &&
                  std::ranges::none_of(value.conditions, [&](const Condition& c) { return varies(c.sum); }) &&
                  std::ranges::all_of(value.arguments, [&](uint32_t a) { return by_row[a]; });
      stage.by_row += by_row[i] ? 1 : 0;
    }
    uint32_t next[2] = {static_cast<uint32_t>(stage.first), static_cast<uint32_t>(stage.by_row)};
    for (size_t i = stage.first; i < stage.last; ++i) place[i] = next[by_row[i] ? 0 : 1]++;
    std::vector<Value> parted(stage.last - stage.first);
    for (size_t i = stage.first; i < stage.last; ++i) {
      for (uint32_t& argument : values[i].arguments) argument = place[argument];
      parted[place[i] - stage.first] = std::move(values[i]);
    }
    std::ranges::move(parted, values.begin() + static_cast<std::ptrdiff_t>(stage.first));
  }
  for (uint32_t& value : folded) value = place[value];
  for (uint32_t& value : columns) value = place[value];
  for (Store& one : stores) one.value = place[one.value];
}

Result<RowTrace> trace_rows(const FragmentView& fragment, const Schedule& schedule, const Group& group) {
  return trace_with_cuts(fragment, schedule, group, [](Tracer& tracer) { return tracer.run_rows(); });
}

Result<Trace> trace(const FragmentView& fragment, const Schedule& schedule, const Group& group) {
  return trace_with_cuts(fragment, schedule, group, [](Tracer& tracer) { return tracer.run(); });
}

}  // namespace tenon::cuda
