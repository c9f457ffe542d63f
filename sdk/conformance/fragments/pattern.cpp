// SPDX-License-Identifier: Apache-2.0
// pattern.cpp: from steps to nodes: the anchor first, then back to its producers, then on to its consumers.
#include "conformance/fragments/pattern.hpp"

#include "conformance/fragments/draw_group.hpp"
#include "conformance/fragments/vocabulary.hpp"
#include "conformance/ops/draw.hpp"
#include "conformance/words.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

constexpr uint32_t no_step = UINT32_MAX;

bool is_free(uint32_t operand) { return (operand & TN_PATTERN_INPUT) != 0; }
bool is_elementwise(const Row& row) { return row.shape == ShapeRule::BROADCAST; }
// As hosts match: the operands of these may stand either way round.
bool commutes(uint32_t op) {
  return op == TN_OP_add || op == TN_OP_mul || op == TN_OP_max || op == TN_OP_min;
}

// The pattern with one row for each step, and without the steps that are missing.
struct Chosen {
  const Row* row;
  std::vector<uint32_t> operands;
  bool output;
};

std::vector<Chosen> chosen(const Pattern& pattern, Choices& choices) {
  std::vector<Chosen> out;
  std::vector<uint32_t> stands_for;
  for (size_t i = 0; i < pattern.steps.size(); ++i) {
    const Pattern::Step& step = pattern.steps[i];
    std::vector<uint32_t> operands;
    for (const uint32_t operand : step.operands)
      operands.push_back(is_free(operand) ? operand : stands_for[operand]);
    if (step.optional && choices.chance(2)) {
      stands_for.push_back(operands.front());
      continue;
    }
    const Row& row = *step.rows[choices.below(step.rows.size())];
    const bool swapped = operands.size() == 2 && commutes(row.op) && choices.chance(2);
    if (swapped) std::swap(operands[0], operands[1]);
    const bool used_outside = step.output && choices.chance(2);
    stands_for.push_back(static_cast<uint32_t>(out.size()));
    out.push_back({&row, std::move(operands), used_outside});
  }
  return out;
}

class Matching {
 public:
  Matching(std::vector<Chosen> steps, uint32_t dtype, bool strided, uint64_t budget, Choices& choices)
      : steps_(std::move(steps)),
        dtype_(dtype),
        form_(strided ? Form::strided : Form::dense),
        budget_(budget),
        choices_(choices),
        trials_(steps_.size()) {}

  std::optional<Group> run() {
    if (steps_.size() < 2) return {};
    const uint32_t anchor = anchor_step();
    if (!draw_first(anchor) || !draw_before(anchor) || !draw_behind(anchor)) return {};
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      if (!place(i)) return {};
    }
    return finish();
  }

 private:
  uint32_t anchor_step() const {
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      if (!is_elementwise(*steps_[i].row)) return i;
    }
    return 0;
  }
  bool draw_first(uint32_t anchor) {
    const Row& row = *steps_[anchor].row;
    if (!takes(row, dtype_) || !fits(anchor)) return false;
    trials_[anchor] = draw_trial(row, dtype_, form_, budget_, choices_);
    return true;
  }
  // Whether the row has as many operands as the pattern names.
  bool fits(uint32_t step) const { return steps_[step].operands.size() <= steps_[step].row->inputs_max; }

  // Steps before the anchor give what their reader needs.
  bool draw_before(uint32_t anchor) {
    for (uint32_t i = anchor; i-- > 0;) {
      const auto [reader, operand] = reader_of(i);
      const Operand needed = needed_by(reader, operand, anchor);
      if (needed.absent || needed.derived || !draw_around(i, 0, needed)) return false;
      if (trials_[i].outputs[0].dims != needed.dims || trials_[i].outputs[0].dtype != needed.dtype)
        return false;
    }
    return true;
  }
  // What the reader of a step wants there; a step that meets the others behind the anchor has the anchor's shape.
  Operand needed_by(uint32_t reader, size_t operand, uint32_t anchor) const {
    if (reader > anchor) return trials_[anchor].outputs[0];
    const std::vector<Operand>& wanted = trials_[reader].inputs;
    return operand < wanted.size() ? wanted[operand] : absent_operand();
  }
  static Operand absent_operand() {
    Operand out;
    out.absent = true;
    return out;
  }
  // Steps behind the anchor take what is there.
  bool draw_behind(uint32_t anchor) {
    for (uint32_t i = anchor + 1; i < steps_.size(); ++i) {
      const auto& operands = steps_[i].operands;
      const auto read =
          std::find_if(operands.begin(), operands.end(), [](uint32_t o) { return !is_free(o); });
      const Operand& given = read != operands.end() ? trials_[*read].outputs[0] : trials_[anchor].outputs[0];
      const auto at = read != operands.end() ? static_cast<size_t>(read - operands.begin()) : 0;
      if (!draw_around(i, at, given)) return false;
    }
    return true;
  }
  // The first step that reads `step`, and as which operand.
  std::pair<uint32_t, size_t> reader_of(uint32_t step) const {
    for (uint32_t i = step + 1; i < steps_.size(); ++i) {
      const auto& operands = steps_[i].operands;
      const auto at = std::find(operands.begin(), operands.end(), step);
      if (at != operands.end()) return {i, static_cast<size_t>(at - operands.begin())};
    }
    return {no_step, 0};
  }
  bool draw_around(uint32_t step, size_t operand, const Operand& like) {
    const Row& row = *steps_[step].row;
    // A step that reads an integer or a bool is about that; one that gives it, about what the others are.
    const uint32_t subject = takes(row, like.dtype) ? like.dtype : dtype_;
    if (!takes(row, subject) || !fits(step)) return false;
    trials_[step] = draw_trial_around(row, subject, form_, budget_, choices_, operand, like.dims);
    // Numbers of the kind that the reader asks for, or ordinary ones.
    for (Operand& input : trials_[step].inputs) {
      const bool free = is_elementwise(row) && author::is_float(input.dtype);
      const bool open = like.values == Values::any || like.values == Values::mask;
      if (free) input.values = open ? Values::tame : like.values;
    }
    return !trials_[step].outputs.empty() && !trials_[step].outputs[0].absent;
  }

  // The value of operand `i` of a step: what an earlier step gives, a free input that is known, or a new one.
  std::optional<uint32_t> value_of(uint32_t step, size_t i) {
    const Operand& drawn = trials_[step].inputs[i];
    const auto& operands = steps_[step].operands;
    const auto alike = [&](uint32_t value) {
      const Operand& there = group_.operand(value);
      return there.dtype == drawn.dtype && there.dims == drawn.dims && !drawn.derived && !there.derived;
    };
    if (i < operands.size() && !is_free(operands[i])) {
      const uint32_t value = given_[operands[i]];
      return alike(value) && reads_any_number(drawn) ? std::optional(value) : std::nullopt;
    }
    if (drawn.absent) return i < operands.size() ? std::nullopt : std::optional<uint32_t>(TN_ABSENT);
    if (i < operands.size()) {
      for (const auto& [operand, value] : free_) {
        if (operand == operands[i]) return alike(value) ? std::optional(value) : std::nullopt;
      }
    } else if (drawn.repeats_first && group_.nodes.size() == step && !node_.in.empty() &&
               group_.is_input(node_.in[0])) {
      return node_.in[0];
    }
    Operand own = drawn;
    own.repeats_first = false;
    const uint32_t value = group_.add_input(std::move(own));
    if (i < operands.size()) free_.emplace_back(operands[i], value);
    return value;
  }
  // Whatever a node gives is legal there: an index or a count must be drawn.
  static bool reads_any_number(const Operand& operand) {
    switch (operand.values) {
      case Values::index:
      case Values::count:
      case Values::word:
      case Values::positive:
        return operand.dtype == TN_DTYPE_bool;
      default:
        return true;
    }
  }

  bool place(uint32_t step) {
    const Trial& trial = trials_[step];
    node_ = {.row = trial.row, .subject = trial.subject};
    node_.attributes = trial.attributes;
    for (size_t i = 0; i < trial.inputs.size(); ++i) {
      const auto value = value_of(step, i);
      if (!value) return false;
      node_.in.push_back(*value);
    }
    for (const Operand& output : trial.outputs) {
      node_.out.push_back(output.absent ? TN_ABSENT : group_.add(output));
      // Statistics and states go out beside the value that the next step reads.
      if (!output.absent && node_.out.size() > 1) group_.outputs.push_back(node_.out.back());
    }
    given_.push_back(node_.out[0]);
    if (steps_[step].output || step + 1 == steps_.size()) group_.outputs.push_back(node_.out[0]);
    group_.nodes.push_back(std::move(node_));
    return true;
  }

  std::optional<Group> finish() {
    for (const uint32_t value : given_) {
      // A step that nothing reads and nobody may use outside is no match of the pattern.
      if (!group_.is_read(value) && !group_.is_output(value)) return {};
    }
    for (GroupValue& value : group_.values) value.operand.repeats_first = false;
    const Trial& last = trials_.back();
    group_.specials = last.specials;
    group_.value_seed = last.value_seed;
    return std::move(group_);
  }

  std::vector<Chosen> steps_;
  uint32_t dtype_;
  Form form_;
  uint64_t budget_;
  Choices& choices_;
  std::vector<Trial> trials_;
  Group group_{};
  GroupNode node_{};                                   // the one being placed
  std::vector<uint32_t> given_{};                      // value of each placed step
  std::vector<std::pair<uint32_t, uint32_t>> free_{};  // inputs of the pattern, values
};

// Neighbours keep numbers moderate, so that what the op makes of them can still be told.
std::vector<const Row*> calm_rows(uint32_t dtype, uint32_t inputs, const Vocabulary* known) {
  std::vector<const Row*> out;
  for (const Row* row : elementwise_rows()) {
    const bool keeps = row->dtypes == DtypeRule::NUMBER || row->dtypes == DtypeRule::FLOAT ||
                       row->dtypes == DtypeRule::LOGIC || row->dtypes == DtypeRule::ANY;
    const bool calm = row->dtypes != DtypeRule::FLOAT || row->tolerance == Tolerance::EXACT;
    if (keeps && calm && row->inputs_min == inputs && takes(*row, dtype) &&
        (known == nullptr || known->has(*row, dtype)))
      out.push_back(row);
  }
  return out;
}

// What the mean and the spread of no numbers are is nobody's to say.
bool has_statistics_of_nothing(const Group& group) {
  const auto count = [&](uint32_t value) { return element_count(group.values[value].operand.dims); };
  return std::any_of(group.nodes.begin(), group.nodes.end(), [&](const GroupNode& node) {
    return node.out.size() > 1 && !node.in.empty() && count(node.in[0]) == 0 &&
           std::any_of(node.out.begin(), node.out.end(),
                       [&](uint32_t value) { return value != TN_ABSENT && count(value) != 0; });
  });
}

}  // namespace

Result<Pattern> read_pattern(const tn_pattern& raw) {
  Pattern out{.name = raw.name != nullptr ? raw.name : ""};
  const auto bad = [&](uint32_t step, const std::string& what) {
    return Status(TN_INVALID, words("pattern '", out.name, "', step ", step, ": ", what));
  };
  for (uint32_t s = 0; s < raw.step_count; ++s) {
    const tn_pattern_step& step = raw.steps[s];
    Pattern::Step& made = out.steps.emplace_back();
    made.optional = (step.flags & TN_PATTERN_OPTIONAL) != 0;
    made.output = (step.flags & TN_PATTERN_OUTPUT) != 0;
    if (step.op_count == 0) return bad(s, "it names no op");
    for (uint32_t n = 0; n < step.op_count; ++n) {
      const Row* const row = find_row(step.ops[n]);
      if (row == nullptr) return bad(s, words("op ", step.ops[n], " is not in ops.def"));
      made.rows.push_back(row);
    }
    for (uint32_t n = 0; n < step.operand_count; ++n) {
      if (!is_free(step.operands[n]) && step.operands[n] >= s)
        return bad(s, words("operand ", n, " is step ", step.operands[n], ", which is not before it"));
      made.operands.push_back(step.operands[n]);
    }
    if (made.optional && made.operands.empty())
      return bad(s, "it may be missing, and no operand stands for it");
  }
  return out;
}

Pattern among_neighbours(const Row& row, uint32_t subject, const Vocabulary* known, Choices& choices) {
  Pattern out{.name = row.name};
  uint32_t inputs = 0;
  const auto free = [&] { return TN_PATTERN_INPUT + inputs++; };
  Pattern::Step middle{.rows = {&row}};
  const uint64_t at = row.inputs_min > 0 ? choices.below(row.inputs_min) : 0;
  if (row.inputs_min > 0 && !choices.chance(4)) {
    const uint32_t count = choices.chance(3) ? 2 : 1;
    const std::vector<const Row*> rows = calm_rows(subject, count, known);
    if (!rows.empty()) {
      Pattern::Step before{.rows = {rows[choices.below(rows.size())]}};
      for (uint32_t i = 0; i < count; ++i) before.operands.push_back(free());
      out.steps.push_back(std::move(before));
      for (uint64_t i = 0; i < at; ++i) middle.operands.push_back(free());
      middle.operands.push_back(0);
    }
  }
  middle.output = choices.chance(4);
  out.steps.push_back(std::move(middle));
  const auto result = static_cast<uint32_t>(out.steps.size() - 1);
  const uint32_t dtype = row.dtypes == DtypeRule::COMPARE ? uint32_t{TN_DTYPE_bool}
                         : row.dtypes == DtypeRule::INDEX ? uint32_t{TN_DTYPE_i64}
                                                          : subject;
  const uint32_t count = choices.chance(2) ? 2 : 1;
  const std::vector<const Row*> rows = calm_rows(dtype, count, known);
  if (rows.empty()) return out;
  Pattern::Step behind{.rows = {rows[choices.below(rows.size())]}, .operands = {result}};
  if (count == 2) behind.operands.push_back(free());
  out.steps.push_back(std::move(behind));
  return out;
}

std::optional<Group> draw_match(const Pattern& pattern, uint32_t dtype, bool strided, uint64_t budget,
                                Choices& choices) {
  auto out = Matching(chosen(pattern, choices), dtype, strided, budget, choices).run();
  if (out && has_statistics_of_nothing(*out)) return std::nullopt;
  return out;
}

}  // namespace tenon::conform
