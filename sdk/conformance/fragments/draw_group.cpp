// SPDX-License-Identifier: Apache-2.0
// draw_group.cpp: a group grown node by node, and beside it the same group over a few numbers, which decides what grows.
#include "conformance/fragments/draw_group.hpp"

#include "conformance/fragments/reckon.hpp"
#include "conformance/fragments/vocabulary.hpp"
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::conform {

namespace {

constexpr int64_t probe_elements = 24;
constexpr double probe_largest = 1024;  // far inside of what a half holds
constexpr size_t stride = 7;  // so that ops that are alike in the table are not tried one after another
constexpr size_t replacements = 12;  // ops tried in one node's place, of those that the plugin knows

template <class Fits>
std::vector<const Row*> rows_that(Fits&& fits) {
  std::vector<const Row*> out;
  for (const Row& row : op_rows) {
    if (fits(row)) out.push_back(&row);
  }
  return out;
}

const std::vector<const Row*>& reduction_rows() {
  static const auto rows = rows_that([](const Row& row) { return row.family == Family::REDUCTION; });
  return rows;
}

// Whether most of a value's elements are moderate numbers that can be told.
bool tells(const Reckoned& reckoned) {
  size_t good = 0;
  const Tensor& tensor = reckoned.tensor;
  for (size_t i = 0; i < tensor.at.size(); ++i) {
    const double error = reckoned.error[i];
    if (!author::is_float(tensor.dtype)) {
      good += std::isfinite(error) ? 1 : 0;
      continue;
    }
    const double size = std::fabs(tensor.at[i].real);
    good += size <= probe_largest && error <= 0.125 * std::max(size, 0.125) ? 1 : 0;
  }
  return 4 * good >= 3 * tensor.at.size();
}

class GroupDraw {
 public:
  GroupDraw(const GroupForm& form, uint64_t budget, Choices& choices)
      : form_(form), choices_(choices), reckoning_(probe_) {
    draw_dims(budget);
    draw_palette();
    group_.value_seed = probe_.value_seed = choices_.below(UINT64_MAX);
  }

  Group run(const Row* must, uint32_t subject) {
    const uint64_t count = form_.least_nodes + choices_.below(form_.most_nodes - form_.least_nodes + 1);
    const uint64_t place = must != nullptr ? choices_.below(std::min<uint64_t>(count, 3)) : count;
    for (uint64_t n = 0; n < count; ++n) {
      if (n == place) {
        put(*must, subject, draw_picks());
      } else if (form_.reductions && choices_.chance(count <= 4 ? 2 : 4) && reduce()) {
        continue;
      } else {
        grow_any();
      }
    }
    while (group_.nodes.size() < 2) grow_simple();
    finish_group(group_, choices_, form_.strided, form_.several ? 3 : 0);
    if (form_.in_place) pair_in_place(group_);
    return std::move(group_);
  }

 private:
  // Which operands a node takes: a number each, whatever there is to take by then.
  struct Picks {
    uint64_t subject, operand[3], narrow[3], values[3], constant;
  };

  void draw_dims(uint64_t budget) {
    const Row& any = *elementwise_rows().front();
    Draw draw(any, TN_DTYPE_f32, Form::dense, budget, choices_);
    dims_ = draw.any_dims(form_.reductions ? 1 : 0, 4);
  }

  void draw_palette() {
    if (form_.integers) {
      add_type({TN_DTYPE_i32, TN_DTYPE_u8, TN_DTYPE_i64, TN_DTYPE_i8});
      palette_.push_back(TN_DTYPE_bool);
      if (form_.mixed) palette_.push_back(TN_DTYPE_i64);
      return;
    }
    add_type({TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f32, TN_DTYPE_f64});
    if (!form_.mixed) return;
    add_type({TN_DTYPE_f32, TN_DTYPE_f16, TN_DTYPE_bf16});
    add_type({TN_DTYPE_i32, TN_DTYPE_i64, TN_DTYPE_u8});
    palette_.push_back(TN_DTYPE_bool);
  }

  // One of them; where the plugin does not know it, the first that it knows.
  void add_type(std::initializer_list<uint32_t> options) {
    const uint32_t drawn = choices_.pick(options);
    const auto knows = [&](uint32_t dtype) { return form_.known == nullptr || form_.known->has(dtype); };
    const auto* const first = std::find_if(options.begin(), options.end(), knows);
    palette_.push_back(knows(drawn) || first == options.end() ? drawn : *first);
  }

  bool may_be(const Row& row, uint32_t dtype) const {
    return takes(row, dtype) && (form_.known == nullptr || form_.known->has(row, dtype));
  }

  bool in_palette(uint32_t dtype) const {
    return std::find(palette_.begin(), palette_.end(), dtype) != palette_.end();
  }

  Picks draw_picks() {
    Picks out{};
    out.subject = choices_.below(16);
    for (size_t i = 0; i < 3; ++i) {
      out.operand[i] = choices_.below(16);
      out.narrow[i] = choices_.below(64);
      out.values[i] = choices_.below(6);
    }
    out.constant = choices_.below(6);
    return out;
  }

  // Values of a type, the newest first.
  std::vector<uint32_t> of_type(uint32_t dtype) const {
    std::vector<uint32_t> out;
    for (auto value = static_cast<uint32_t>(group_.values.size()); value-- > 0;) {
      if (group_.operand(value).dtype == dtype && !closed_[value]) out.push_back(value);
    }
    return out;
  }

  uint32_t add(uint32_t dtype, std::vector<int64_t> dims, std::vector<int64_t> probe_dims, Values values) {
    probe_.add({.dtype = dtype, .dims = std::move(probe_dims), .values = values});
    closed_.push_back(false);
    return group_.add({.dtype = dtype, .dims = std::move(dims), .values = values});
  }

  // The base's dims, some of them 1 and leading ones left out.
  std::vector<int64_t> narrowed(uint64_t how) const {
    if (!form_.broadcast || how < 24) return dims_;
    std::vector<int64_t> out = dims_;
    for (size_t i = 0; i < out.size(); ++i) out[i] = (how >> i & 1) != 0 ? 1 : out[i];
    if (how % 5 == 4 && !out.empty()) out.erase(out.begin());
    return out;
  }

  uint32_t fresh(uint32_t dtype, const Picks& picks, size_t which) {
    const bool floating = author::is_float(dtype);
    const Values kinds[] = {Values::tame, Values::tame,   Values::positive,
                            Values::unit, Values::finite, Values::any};
    const Values values = floating                                            ? kinds[picks.values[which]]
                          : dtype == TN_DTYPE_bool || picks.values[which] > 2 ? Values::any
                                                                              : Values::tame;
    const uint32_t out = add(dtype, narrowed(picks.narrow[which]), {probe_elements}, values);
    const bool constant = form_.constants && (picks.constant >> which & 1) != 0;
    group_.values[out].constant = probe_.values[out].constant = constant;
    if (constant) return out;
    group_.inputs.push_back(out);
    probe_.inputs.push_back(out);
    return out;
  }

  // An operand of a node: one that is there, or a new input; the simplest choice takes the newest for the first operand
  // and a new one for the others.
  uint32_t operand(uint32_t dtype, const Picks& picks, size_t which) {
    const std::vector<uint32_t> there = of_type(dtype);
    const uint64_t pick = picks.operand[which] % (there.size() + 1);
    if (which == 0 && pick < there.size()) return there[pick];
    if (which > 0 && pick > 0) return there[pick - 1];
    return fresh(dtype, picks, which);
  }

  // The type a row is asked about here, or NONE.
  uint32_t subject_of(const Row& row, uint64_t pick) const {
    for (auto value = group_.values.size(); value-- > 0 && pick % 4 != 3;) {
      const uint32_t dtype = group_.operand(static_cast<uint32_t>(value)).dtype;
      if (may_be(row, dtype) && in_palette(dtype) && !closed_[value]) return dtype;
    }
    for (size_t i = 0; i < palette_.size(); ++i) {
      const uint32_t dtype = palette_[(pick + i) % palette_.size()];
      if (may_be(row, dtype)) return dtype;
    }
    return TN_DTYPE_NONE;
  }

  uint32_t result_dtype(const Row& row, uint32_t subject, Draw& draw) const {
    if (row.dtypes == DtypeRule::COMPARE) return TN_DTYPE_bool;
    if (row.dtypes != DtypeRule::CAST) return subject;
    const uint32_t to = palette_[draw.choices.below(palette_.size())];
    draw.dtype("dtype", to);
    return to;
  }

  // Adds the node, its new operands and its result.
  void put(const Row& row, uint32_t subject, const Picks& picks) {
    GroupNode node{.row = &row, .subject = subject};
    std::vector<std::vector<int64_t>> dims, probe_dims;
    for (uint32_t i = 0; i < row.inputs_min; ++i) {
      const bool condition = row.dtypes == DtypeRule::SELECT && i == 0;
      node.in.push_back(operand(condition ? uint32_t{TN_DTYPE_bool} : subject, picks, i));
      dims.push_back(group_.operand(node.in.back()).dims);
      probe_dims.push_back(probe_.operand(node.in.back()).dims);
    }
    Draw draw(row, subject, Form::dense, 1, choices_);
    const uint32_t result = result_dtype(row, subject, draw);
    draw.open_attributes();
    node.attributes = std::move(draw.trial.attributes);
    node.out = {add(result, joined(dims), joined(probe_dims), Values::tame)};
    group_.nodes.push_back(node);
    probe_.nodes.push_back(std::move(node));
    reckoning_.node(probe_.nodes.size() - 1);
  }

  // The row that the choice names, or the first after it whose result still tells something.
  void grow_any() {
    const auto& rows = elementwise_rows();
    const uint64_t first = choices_.below(rows.size());
    const Picks picks = draw_picks();
    size_t tried = 0;
    for (size_t i = 0; i < rows.size() && tried < replacements; ++i) {
      const Row& row = *rows[(first + i * stride) % rows.size()];
      const uint32_t subject = subject_of(row, picks.subject);
      if (subject == TN_DTYPE_NONE) continue;
      ++tried;
      const Saved before = save();
      put(row, subject, picks);
      if (tells(reckoning_.value(group_.nodes.back().out[0]))) return;
      restore(before);
    }
  }

  // Whatever comes of it: a group has two nodes.
  void grow_simple() {
    for (const Row* row : elementwise_rows()) {
      const uint32_t subject = subject_of(*row, 0);
      if (subject == TN_DTYPE_NONE || row->inputs_min != 1 || row->dtypes == DtypeRule::CAST) continue;
      return put(*row, subject, Picks{});
    }
    put(*find_row(uint32_t{TN_OP_identity}), palette_.front(), Picks{});
  }

  // A reduction of the newest value that still has the base's dims.
  bool reduce() {
    const auto& rows = reduction_rows();
    const Row& row = *rows[choices_.below(rows.size())];
    const uint64_t mask = choices_.below(16), keep = choices_.below(3);
    uint32_t from = TN_ABSENT;
    for (auto value = static_cast<uint32_t>(group_.values.size()); value-- > 0 && from == TN_ABSENT;) {
      if (!closed_[value] && group_.operand(value).dims == dims_ && may_be(row, group_.operand(value).dtype))
        from = value;
    }
    if (from == TN_ABSENT || element_count(dims_) == 0) return false;
    const bool single = row.dtypes == DtypeRule::INDEX;
    std::vector<int64_t> axes, left;
    for (size_t i = 0; i < dims_.size(); ++i) {
      const bool last = i + 1 == dims_.size();
      const bool reduced = single ? last : (mask >> i & 1) != 0 || (last && axes.empty());
      if (reduced) axes.push_back(static_cast<int64_t>(i));
      if (!reduced || keep != 0) left.push_back(reduced ? 1 : dims_[i]);
    }
    put_reduction(row, from, axes, left, keep != 0);
    return true;
  }

  void put_reduction(const Row& row, uint32_t from, const std::vector<int64_t>& axes,
                     const std::vector<int64_t>& left, bool keep) {
    const uint32_t dtype = group_.operand(from).dtype;
    const auto attributes = [&](std::vector<int64_t> which, bool kept) {
      return std::vector<AttributeValue>{
          {.name = "axes", .kind = TN_ATTRIBUTE_I64S, .integers = std::move(which)},
          {.name = "keepdims", .kind = TN_ATTRIBUTE_I64, .integer = kept ? 1 : 0}};
    };
    const uint32_t result = row.dtypes == DtypeRule::INDEX ? uint32_t{TN_DTYPE_i64} : dtype;
    const uint32_t out = add(result, left, {1}, Values::tame);
    // Without its dims it meets no other value of the group any more.
    closed_[out] = !keep || !in_palette(result);
    group_.nodes.push_back(
        {.row = &row, .subject = dtype, .in = {from}, .out = {out}, .attributes = attributes(axes, keep)});
    probe_.nodes.push_back(
        {.row = &row, .subject = dtype, .in = {from}, .out = {out}, .attributes = attributes({0}, true)});
    reckoning_.node(probe_.nodes.size() - 1);
  }

  struct Saved {
    size_t values, nodes, inputs;
  };
  Saved save() const { return {group_.values.size(), group_.nodes.size(), group_.inputs.size()}; }
  void restore(const Saved& to) {
    for (Group* group : {&group_, &probe_}) {
      group->values.resize(to.values);
      group->nodes.resize(to.nodes);
      group->inputs.resize(to.inputs);
    }
    closed_.resize(to.values);
    reckoning_.forget(to.values);
  }

  const GroupForm& form_;
  Choices& choices_;
  std::vector<int64_t> dims_{};      // the base: every value has these, or some of them
  std::vector<uint32_t> palette_{};  // types
  Group group_{}, probe_{};
  std::vector<bool> closed_{};  // values that no further node may read
  Reckoning reckoning_;
};

}  // namespace

const std::vector<const Row*>& elementwise_rows() {
  static const auto rows = rows_that([](const Row& row) { return row.shape == ShapeRule::BROADCAST; });
  return rows;
}

bool takes(const Row& row, uint32_t dtype) {
  const std::vector<uint32_t> known = subjects(row);
  return std::find(known.begin(), known.end(), dtype) != known.end();
}

std::vector<int64_t> joined(const std::vector<std::vector<int64_t>>& operands) {
  size_t rank = 0;
  for (const auto& dims : operands) rank = std::max(rank, dims.size());
  std::vector<int64_t> out(rank, 1);
  for (const auto& dims : operands) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != 1) out[rank - dims.size() + i] = dims[i];
    }
  }
  return out;
}

void finish_group(Group& group, Choices& choices, bool strided, uint64_t others) {
  for (const GroupNode& node : group.nodes) {
    for (const uint32_t value : node.out) {
      if (value == TN_ABSENT || group.is_output(value)) continue;
      if (!group.is_read(value) || (others != 0 && choices.chance(others))) group.outputs.push_back(value);
    }
  }
  const Form form = strided ? Form::strided : Form::dense;
  for (const uint32_t value : group.inputs) draw_place(choices, form, group.values[value].operand, false);
  for (const uint32_t value : group.outputs) draw_place(choices, form, group.values[value].operand, true);
  group.specials = choices.chance(4);
}

void pair_in_place(Group& group) {
  std::vector<bool> taken(group.inputs.size());
  for (uint32_t output = 0; output < group.outputs.size(); ++output) {
    Operand& to = group.values[group.outputs[output]].operand;
    for (uint32_t input = 0; input < group.inputs.size(); ++input) {
      Operand& from = group.values[group.inputs[input]].operand;
      if (taken[input] || from.dtype != to.dtype || from.dims != to.dims) continue;
      taken[input] = true;
      from.strides.clear();
      to.strides.clear();
      to.skew = from.skew;
      to.alignment = from.alignment;
      group.aliases.push_back({.input = input, .output = output});
      break;
    }
  }
}

Group draw_group(const GroupForm& form, uint64_t budget, Choices& choices) {
  return GroupDraw(form, budget, choices).run(nullptr, TN_DTYPE_NONE);
}

Group draw_group_with(const Row& row, uint32_t subject, const GroupForm& form, uint64_t budget,
                      Choices& choices) {
  return GroupDraw(form, budget, choices).run(&row, subject);
}

}  // namespace tenon::conform
