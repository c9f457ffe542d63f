// SPDX-License-Identifier: Apache-2.0
// reckon.cpp: one node after another, each computed as often as its inputs may differ.
#include "conformance/fragments/reckon.hpp"

#include "conformance/ops/compare.hpp"
#include "conformance/ops/reference.hpp"
#include "conformance/random.hpp"
#include "conformance/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>

namespace tenon::conform {

namespace {

constexpr double unknowable = std::numeric_limits<double>::infinity();
constexpr double vague =
    0.25;  // an error of such a part of a number, and of its square: whoever goes on from there is lost
constexpr int places_inside = 6;
constexpr int random_moves =
    24;  // two inputs of one result have equal signs in all of them once in 16 million
constexpr double moved_margin = 2;  // random signs do not find the very worst

// What a node's op may add to each element by itself.
std::vector<double> own_errors(const Trial& trial, const Wanted& wanted, const Slack& slack,
                               bool exact_inputs) {
  const Tensor& out = wanted.tensor;
  std::vector<double> errors(out.at.size(), 0);
  if (!author::is_float(out.dtype)) return errors;
  const Format &format = format_of(out.dtype), &computing = computing_format(out.dtype);
  for (uint64_t i = 0; i < errors.size(); ++i) {
    const double value = out.at[i].real;
    const double terms = wanted.magnitude.empty() ? 0 : wanted.magnitude[i];
    if (!std::isfinite(value)) continue;
    double& error = errors[i];
    error = allowance(*trial.row, trial.subject, out.dtype, value, terms, wanted.length);
    // One rounding: none for a number that the type has.
    const bool rounds = trial.row->tolerance == Tolerance::ROUND && error == 0;
    if (rounds && !(exact_inputs && rounded(format, value) == value))
      error = ulp(format, value) * 0.5 * (1 + 0x1p-20);
    // The reference rounds to fp64 itself.
    if (out.dtype == TN_DTYPE_f64 && trial.row->tolerance != Tolerance::EXACT) error *= 2;
    error = std::max(slack.factor * error, slack.ulps * ulp(format, value));
    const bool loose = trial.row->tolerance != Tolerance::EXACT;
    if (loose && !(terms <= computing.largest)) error = unknowable;
  }
  return errors;
}

// What the last rounding may add where an inexact input moves the result to greater numbers, which lie farther apart.
double moved_rounding(const Row& row, const Tensor& of, uint64_t i, double carried) {
  if (!author::is_float(of.dtype) || row.tolerance == Tolerance::EXACT || !std::isfinite(carried)) return 0;
  const Format& format = format_of(of.dtype);
  const double value = std::fabs(of.at[i].real);
  return std::isfinite(value) ? 0.5 * (ulp(format, value + carried) - ulp(format, value)) : 0;
}

bool same(const Tensor& of, const Scalar& a, const Scalar& b) {
  if (!author::is_float(of.dtype)) return a.whole == b.whole;
  return a.real == b.real || (std::isnan(a.real) && std::isnan(b.real));
}

// How far `moved` went from `base`; what becomes another integer, NaN or infinity went too far to tell.
double distance(const Tensor& of, const Scalar& base, const Scalar& moved) {
  if (same(of, base, moved)) return 0;
  if (!author::is_float(of.dtype) || !std::isfinite(base.real) || !std::isfinite(moved.real))
    return unknowable;
  return std::fabs(base.real - moved.real);
}

}  // namespace

// A node with its inputs as they should be, and with how far they may be off.
struct Reckoning::Step {
  Trial trial;
  const std::vector<uint32_t>& in;
  std::vector<Tensor> inputs{};
  std::vector<const Reckoned*> from{};  // null where absent

  bool inexact(size_t i) const { return from[i] != nullptr && !from[i]->exact; }
  std::vector<size_t> inexact_inputs() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < from.size(); ++i) {
      if (inexact(i)) out.push_back(i);
    }
    return out;
  }
  std::vector<Wanted> run(std::vector<Tensor> with) const {
    Job job = empty_job(trial);
    job.in = std::move(with);
    meaning_of(*trial.row).compute(job);
    return std::move(job.out);
  }
  // The inputs, each inexact one moved by `by(input, element)` times its error.
  template <class By>
  std::vector<Tensor> moved(const By& by) const {
    std::vector<Tensor> out = inputs;
    for (const size_t i : inexact_inputs()) {
      if (!author::is_float(out[i].dtype)) continue;
      for (uint64_t k = 0; k < out[i].at.size(); ++k) {
        const double error = from[i]->error[k];
        if (error > 0 && std::isfinite(error) && std::isfinite(out[i].at[k].real))
          out[i].at[k].real += by(i, k) * error;
      }
    }
    return out;
  }
};

namespace {

using Errors = std::vector<std::vector<double>>;  // of each output

void farthest(Errors& errors, const std::vector<Wanted>& base, const std::vector<Wanted>& moved) {
  for (size_t n = 0; n < base.size(); ++n) {
    for (uint64_t i = 0; i < errors[n].size(); ++i) {
      errors[n][i] =
          std::max(errors[n][i], distance(base[n].tensor, base[n].tensor.at[i], moved[n].tensor.at[i]));
    }
  }
}

Errors none_of(const std::vector<Wanted>& base) {
  Errors out;
  for (const Wanted& one : base) out.emplace_back(one.tensor.at.size(), 0.0);
  return out;
}

bool is_vague(const Tensor& tensor, uint64_t i, double error) {
  return author::is_float(tensor.dtype) && error > vague * std::max(std::fabs(tensor.at[i].real), vague);
}

// Ends of each input's range, its zero, and places inside, where a function may be higher than at the ends or have a pole.
template <class Step>
Errors of_elements(const Step& step, const std::vector<Wanted>& base) {
  Errors out = none_of(base);
  const std::vector<size_t> moving = step.inexact_inputs();
  uint32_t corners = 1;
  for (size_t i = 0; i < moving.size(); ++i) corners *= 3;
  for (uint32_t corner = 0; corner < corners; ++corner) {
    const auto end = [&](size_t input, uint64_t k) {
      uint32_t digit = corner;
      for (size_t i = 0; moving[i] != input; ++i) digit /= 3;
      if (digit % 3 != 2) return digit % 3 == 0 ? 1.0 : -1.0;
      const double value = step.inputs[input].at[k].real, error = step.from[input]->error[k];
      return std::clamp(-value / error, -1.0, 1.0);
    };
    farthest(out, base, step.run(step.moved(end)));
  }
  for (int move = 0; move < places_inside; ++move) {
    Random random(mix(step.trial.value_seed ^ static_cast<uint64_t>(move)));
    farthest(out, base, step.run(step.moved([&](size_t, uint64_t) {
      return static_cast<double>(random.below(2001)) / 1000 - 1;
    })));
  }
  const bool jumps = meaning_of(*step.trial.row).error.chooses;
  for (uint64_t i = 0; i < out[0].size(); ++i) {
    const bool jumped = jumps && out[0][i] > 0 && author::is_float(base[0].tensor.dtype);
    if (jumped || is_vague(base[0].tensor, i, out[0][i])) out[0][i] = unknowable;
  }
  // What hangs on an element that nobody can tell, or on whether two inexact numbers are equal.
  std::vector<std::vector<uint64_t>> places;
  for (const Tensor& in : step.inputs) places.push_back(broadcast_places(in.dims, base[0].tensor.dims));
  const bool compares = !author::is_float(base[0].tensor.dtype) && step.inputs.size() == 2 &&
                        author::is_float(step.inputs[0].dtype);
  for (uint64_t i = 0; i < out[0].size(); ++i) {
    for (const size_t input : moving) {
      if (step.from[input]->error[places[input][i]] == unknowable) out[0][i] = unknowable;
    }
    if (!compares) continue;
    const uint64_t a = places[0][i], b = places[1][i];
    const double apart = std::fabs(step.inputs[0].at[a].real - step.inputs[1].at[b].real);
    if (apart <= step.from[0]->error[a] + step.from[1]->error[b] && !moving.empty()) out[0][i] = unknowable;
  }
  return out;
}

template <class Step>
bool some_unknowable(const Step& step) {
  for (const size_t i : step.inexact_inputs()) {
    const auto& errors = step.from[i]->error;
    if (std::find(errors.begin(), errors.end(), unknowable) != errors.end()) return true;
  }
  return false;
}

// Whatever changes when what nobody can tell is no number.
template <class Step>
void spread_unknowable(const Step& step, const std::vector<Wanted>& base, Errors& out) {
  std::vector<Tensor> with = step.inputs;
  bool whole = false;
  for (const size_t i : step.inexact_inputs()) {
    for (uint64_t k = 0; k < with[i].at.size(); ++k) {
      if (step.from[i]->error[k] != unknowable) continue;
      whole = whole || !author::is_float(with[i].dtype);
      with[i].at[k].real = std::numeric_limits<double>::quiet_NaN();
    }
  }
  const std::vector<Wanted> changed = step.run(std::move(with));
  for (size_t n = 0; n < base.size(); ++n) {
    const Tensor& tensor = base[n].tensor;
    const bool all = whole || !author::is_float(tensor.dtype);
    for (uint64_t i = 0; i < out[n].size(); ++i) {
      if (all || !same(tensor, tensor.at[i], changed[n].tensor.at[i])) out[n][i] = unknowable;
    }
  }
}

template <class Step>
Errors of_whole(const Step& step, const std::vector<Wanted>& base) {
  Errors out = none_of(base);
  if (meaning_of(*step.trial.row).error.chooses) {
    for (auto& errors : out) std::fill(errors.begin(), errors.end(), unknowable);
    return out;
  }
  for (const double part : {1.0, -1.0})
    farthest(out, base, step.run(step.moved([part](size_t, uint64_t) { return part; })));
  for (int move = 0; move < random_moves; ++move) {
    Random random(mix(step.trial.value_seed ^ static_cast<uint64_t>(move)));
    farthest(out, base,
             step.run(step.moved([&](size_t, uint64_t) { return random.chance(2) ? 1.0 : -1.0; })));
  }
  // A norm divides by a spread, and beside one of 0 a few moves tell nothing of the others.
  const bool divides = step.trial.row->family == Family::NORM;
  for (size_t n = 0; n < base.size(); ++n) {
    for (uint64_t i = 0; i < out[n].size(); ++i) {
      out[n][i] *= moved_margin;
      if (divides && is_vague(base[n].tensor, i, out[n][i])) out[n][i] = unknowable;
    }
  }
  if (some_unknowable(step)) spread_unknowable(step, base, out);
  return out;
}

// Whether rounding it, or a value that is within its error, may leave the type's range.
bool may_overflow(const Tensor& tensor, uint64_t i, double error) {
  if (!author::is_float(tensor.dtype)) return false;
  const double value = tensor.at[i].real;
  return std::isfinite(value) && !(std::fabs(value) + error <= format_of(tensor.dtype).largest);
}

}  // namespace

Reckoned& Reckoning::known(uint32_t value) {
  if (values_.size() < group_.values.size()) values_.resize(group_.values.size());
  Reckoned& out = values_[value];
  const bool given = group_.is_input(value) || group_.values[value].constant;
  if (out.tensor.dtype == TN_DTYPE_NONE && given) {
    out.tensor = numbers_of(group_, value);
    out.error.assign(out.tensor.at.size(), 0);
  }
  return out;
}

// Inputs that are computed from others take what fits those, rounded as they are stored.
void Reckoning::derive(const Step& step, Job& job) {
  const Meaning& meaning = meaning_of(*step.trial.row);
  if (meaning.prepare == nullptr) return;
  meaning.prepare(job);
  for (size_t i = 0; i < step.in.size(); ++i) {
    if (step.in[i] == TN_ABSENT || !step.trial.inputs[i].derived || !group_.is_input(step.in[i])) continue;
    Tensor& tensor = known(step.in[i]).tensor;
    tensor = job.in[i];
    for (Scalar& one : tensor.at) one.real = rounded(format_of(tensor.dtype), one.real);
  }
}

void Reckoning::node(size_t node) {
  const GroupNode& of = group_.nodes[node];
  Step step{.trial = trial_of(group_, node), .in = of.in};
  known(0);  // no reference below moves
  const auto collect = [&] {
    step.inputs.clear();
    for (const uint32_t value : of.in)
      step.inputs.push_back(value == TN_ABSENT ? Tensor{} : known(value).tensor);
  };
  collect();
  Job job = empty_job(step.trial);
  job.in = step.inputs;
  derive(step, job);
  collect();
  bool exact = true;
  for (const uint32_t value : of.in) {
    step.from.push_back(value == TN_ABSENT ? nullptr : &known(value));
    exact = exact && (step.from.back() == nullptr || step.from.back()->exact);
  }
  const std::vector<Wanted> base = step.run(step.inputs);
  const bool elementwise = of.row->shape == ShapeRule::BROADCAST;
  const Errors carried = exact ? none_of(base) : elementwise ? of_elements(step, base) : of_whole(step, base);
  const Slack slack = judging_ != nullptr ? slack_of(*judging_, *of.row, of.subject) : Slack{};
  for (size_t n = 0; n < of.out.size(); ++n) {
    if (of.out[n] == TN_ABSENT) continue;
    Reckoned& out = values_[of.out[n]];
    out.tensor = base[n].tensor;
    out.error = own_errors(step.trial, base[n], slack, exact);
    for (uint64_t i = 0; i < out.error.size(); ++i) {
      out.error[i] += carried[n][i] + moved_rounding(*of.row, out.tensor, i, carried[n][i]);
      if (may_overflow(out.tensor, i, out.error[i])) out.error[i] = unknowable;
      out.exact = out.exact && out.error[i] == 0;
    }
  }
}

namespace {

bool within(const Tensor& got, uint64_t i, const Reckoned& wanted) {
  const Scalar &found = got.at[i], &want = wanted.tensor.at[i];
  if (!author::is_float(got.dtype)) return found.whole == want.whole;
  if (std::isnan(want.real)) return std::isnan(found.real);
  if (std::isinf(want.real)) return found.real == want.real;
  return std::fabs(found.real - want.real) <= wanted.error[i] ||
         found.real == rounded(format_of(got.dtype), want.real);
}

std::string story_of(const Tensor& got, uint64_t i, const Reckoned& wanted) {
  std::string out = words("element ", i, " is ", told(got.dtype, got.at[i]), " and must be ",
                          told(got.dtype, wanted.tensor.at[i]));
  const double found = got.at[i].real, want = wanted.tensor.at[i].real;
  if (!author::is_float(got.dtype) || !std::isfinite(found) || !std::isfinite(want)) return out;
  const double unit = ulp(format_of(got.dtype), want);
  return words(out, " (off by ", std::setprecision(4), std::fabs(found - want) / unit, " ULP, ",
               wanted.error[i] / unit, " allowed)");
}

}  // namespace

Fared compare(const Reckoned& usual, const Reckoned& wide, const Tensor& got) {
  Fared out;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < got.at.size(); ++i) {
    if (wide.error[i] == unknowable) continue;
    ++out.told;
    if (usual.error[i] == unknowable || within(got, i, usual)) continue;
    if (within(got, i, wide)) {
      ++out.eased;
    } else if (wrong++ == 0) {
      out.story = story_of(got, i, wide);
    }
  }
  if (wrong > 1) out.story += words("; ", wrong, " of ", got.at.size(), " elements are wrong");
  return out;
}

}  // namespace tenon::conform
