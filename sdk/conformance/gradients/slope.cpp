// SPDX-License-Identifier: Apache-2.0
// slope.cpp: the cases that gradients.def makes: a plugin's own gradient of an op is the slope of its own forward pass.
//
// A weighted sum of the outputs is looked at a small step to each side of a point; the difference must be what the gradient
// foretells. The room left is what f32 loses in two sums and what the outputs bend within the step, which those in the middle
// tell: a kink never puts the difference farther off than it bends. Where there is too much room, nothing is told.
// Invariant: no op is named here; a row added to gradients.def has its case.
#include "conformance/case.hpp"
#include "conformance/gradients/backward.hpp"
#include "conformance/ops/bound.hpp"
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::conform {

namespace {

constexpr double step = 1.0 / 128;
constexpr uint64_t gradient_elements = 40;  // about so many in the larger operands
constexpr double roundings = 32;            // that each of the two sums may be off by, in f32

double weighted(const std::vector<Tensor>& outputs, const std::vector<Tensor>& weights,
                double* size = nullptr) {
  double out = 0;
  for (size_t n = 0; n < outputs.size(); ++n) {
    for (size_t i = 0; i < weights[n].at.size(); ++i) {
      const double term = outputs[n].at[i].real * weights[n].at[i].real;
      out += term;
      if (size != nullptr) *size += std::fabs(term);
    }
  }
  return out;
}

// Numbers between 0.5 and 2, or of both signs and at least 0.1 away from 0.
Tensor smooth_numbers(Random& random, const Operand& operand, bool positive) {
  Tensor out{.dtype = operand.dtype, .dims = operand.dims};
  for (uint64_t i = 0; i < element_count(operand.dims); ++i) {
    const double part = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    const double size = positive ? 0.5 + 1.5 * part : 0.1 + 1.4 * part;
    out.at.push_back(
        Scalar::of(rounded(format_of(operand.dtype), !positive && random.chance(2) ? -size : size)));
  }
  return out;
}

// One point at which the gradients of a node are held against slopes.
class Point {
 public:
  Point(Context& t, const Device& device, const Stream& stream, Trial trial)
      : t_(t), device_(device), stream_(stream), trial_(std::move(trial)) {}

  // TN_UNSUPPORTED where the plugin lacks an op; a failure tells what differs. [case's thread; may fail]
  Status look();
  // Directions in which something could be told.
  int told_directions() const noexcept { return told_; }

 private:
  struct Foretold {
    double change = 0, size = 0;  // of the sum between both sides, and the sum of its parts' sizes
  };
  void draw_inputs();
  void draw_weights();
  Status hold(uint32_t input, const Tensor& gradient);
  Status hold_direction(uint32_t input, const Tensor& gradient, const std::vector<int>& direction);
  std::vector<int> draw_direction(uint64_t elements, int which);
  Result<std::vector<Tensor>> outputs_at(uint32_t input, const Tensor& moved);
  double bend_between(const std::vector<Tensor>& below, const std::vector<Tensor>& above) const;

  Context& t_;
  const Device& device_;
  const Stream& stream_;
  const Trial trial_;
  std::unique_ptr<Program> forward_{};
  std::vector<Tensor> inputs_{}, outputs_{}, weights_{};
  double middle_ = 0, size_ = 0;
  int told_ = 0;
};

void Point::draw_inputs() {
  inputs_ = solve(trial_).in;
  const bool positive = t_.random().chance(2);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Operand& operand = trial_.inputs[i];
    const bool kept = operand.absent || operand.derived || operand.values == Values::mask;
    if (!kept && author::is_float(operand.dtype)) inputs_[i] = smooth_numbers(t_.random(), operand, positive);
  }
}

// Only outputs through which some row goes count.
void Point::draw_weights() {
  uint64_t read = 0;
  for (const GradientRow& row : gradient_rows()) {
    if (row.op == trial_.row->op) read |= gradients_read(parsed(row.text).value_or(Expression{}));
  }
  weights_.assign(outputs_.size(), {});
  for (size_t n = 0; n < outputs_.size(); ++n) {
    if ((read >> n & 1) != 0 && author::is_float(trial_.outputs[n].dtype))
      weights_[n] = smooth_numbers(t_.random(), trial_.outputs[n], false);
  }
}

Result<std::vector<Tensor>> Point::outputs_at(uint32_t input, const Tensor& moved) {
  std::vector<Tensor> inputs = inputs_;
  inputs[input] = moved;
  return forward_->run(inputs);
}

// How far the outputs are from a straight line; those that bend to either side do not make up for each other.
double Point::bend_between(const std::vector<Tensor>& below, const std::vector<Tensor>& above) const {
  double out = 0;
  for (size_t n = 0; n < weights_.size(); ++n) {
    for (size_t i = 0; i < weights_[n].at.size(); ++i) {
      const double bent = below[n].at[i].real - 2 * outputs_[n].at[i].real + above[n].at[i].real;
      out += std::fabs(bent * weights_[n].at[i].real);
    }
  }
  return out;
}

// All elements, one, or every second.
std::vector<int> Point::draw_direction(uint64_t elements, int which) {
  std::vector<int> out(elements);
  const uint64_t one = t_.random().below(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const bool moves = which == 0 || (which == 1 ? i == one : i % 2 == one % 2);
    out[i] = !moves ? 0 : t_.random().chance(2) ? 1 : -1;
  }
  return out;
}

Status Point::hold_direction(uint32_t input, const Tensor& gradient, const std::vector<int>& direction) {
  const Tensor& x = inputs_[input];
  Tensor above = x, below = x;
  Foretold foretold;
  double cancelled = size_;
  for (size_t i = 0; i < direction.size(); ++i) {
    const Format& format = format_of(x.dtype);
    above.at[i].real = rounded(format, x.at[i].real + step * direction[i]);
    below.at[i].real = rounded(format, x.at[i].real - step * direction[i]);
    const double change = gradient.at[i].real * (above.at[i].real - below.at[i].real);
    foretold.change += change;
    foretold.size += std::fabs(change);
    cancelled += std::fabs(gradient.at[i].real * x.at[i].real);
  }
  const std::vector<Tensor> over = TN_TRY(outputs_at(input, above));
  const std::vector<Tensor> under = TN_TRY(outputs_at(input, below));
  const double up = weighted(over, weights_), down = weighted(under, weights_);
  const double noise = 2 * roundings * format_of(TN_DTYPE_f32).roundoff() * cancelled;
  const double bend = bend_between(under, over);
  const double room = noise + 0.01 * foretold.size + 1.1 * bend, off = std::fabs(up - down - foretold.change);
  if (!std::isfinite(off) || !std::isfinite(room)) return {};
  const bool flat = foretold.size == 0 && bend <= noise;
  if (!flat && room > 0.3 * std::max(foretold.size, std::fabs(up - down))) return {};
  ++told_;
  return t_.require(off <= room, told(trial_), ": moving input ", input, " by ", step, " to each side ",
                    "changes the weighted sum of the outputs by ", up - down, ", and its gradient foretells ",
                    foretold.change, " (", room, " allowed)");
}

Status Point::hold(uint32_t input, const Tensor& gradient) {
  const Operand& operand = trial_.inputs[input];
  TN_TRY(t_.require(gradient.dims == operand.dims && gradient.dtype == operand.dtype, told(trial_),
                    ": the gradient of input ", input, " is ", author::dtype_name(gradient.dtype),
                    told(gradient.dims)));
  if (gradient.at.empty()) return {};
  for (int which = 0; which < 3; ++which)
    TN_TRY(hold_direction(input, gradient, draw_direction(gradient.at.size(), which)));
  return {};
}

Status Point::look() {
  forward_ = TN_TRY(Program::make(t_, device_, stream_, trial_));
  draw_inputs();
  outputs_ = TN_TRY(forward_->run(inputs_));
  draw_weights();
  middle_ = weighted(outputs_, weights_, &size_);
  if (!std::isfinite(middle_)) return {};
  Backward backward(t_, device_, stream_, trial_, inputs_, outputs_, weights_);
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const GradientRow* const row = gradient_row(trial_.row->op, i);
    if (row == nullptr || trial_.inputs[i].absent || !author::is_float(trial_.inputs[i].dtype)) continue;
    const auto expression = parsed(row->text);
    TN_TRY(t_.require(expression.has_value(), "gradients.def: '", row->text, "' does not parse"));
    TN_TRY(hold(i, TN_TRY(backward.of_input(i, *expression))));
  }
  return {};
}

Trial draw_point(const Row& row, Random& random) {
  Choices choices(random);
  Trial out = draw_trial(row, TN_DTYPE_f32, Form::dense, gradient_elements, choices);
  for (Operand& input : out.inputs) input.repeats_first = false;  // each moves by itself
  out.specials = false;
  if (row.dtypes != DtypeRule::CAST) return out;
  for (AttributeValue& attribute : out.attributes) attribute.integer = TN_DTYPE_f32;
  out.outputs.front().dtype = TN_DTYPE_f32;
  return out;
}

Status gradient_is_the_slope(Context& t) {
  const Row& row = *find_row(std::string_view(t.wanted()->op));
  const Device& device = *TN_TRY(t.device());
  TN_TRY(needs_kernels(t, device));
  const int wanted = t.quick() ? 2 : 8;
  int looked_at = 0;
  std::string lacking;
  for (int drawn = 0; looked_at < wanted && drawn < 8 * wanted; ++drawn) {
    const Trial trial = draw_point(row, t.random());
    int told = 0;
    Status said;
    const auto failure = failure_apart(t, device, conform::told(trial), [&](const Stream& stream) {
      Point point(t, device, stream, trial);
      said = point.look();
      told = point.told_directions();
      if (said.ok() || said.code() == TN_UNSUPPORTED) return Status();
      return Status(said.error());
    });
    if (failure) return t.require(false, *failure);
    if (!said.ok()) lacking = said.message();
    looked_at += said.ok() && told > 0 ? 1 : 0;
    t.check(true);
  }
  if (looked_at == 0 && !lacking.empty()) return t.skip("the plugin lacks an op of the pair: " + lacking);
  return t.require(looked_at > 0, "no direction drawn says anything about the gradient");
}

[[maybe_unused]] const bool gradients_registered = [] {
  for (const Row* row : differentiable_ops()) {
    const Registration added(
        {.level = 1,
         .name = kept(words("gradient ", row->name, ": f32 is the slope of what the op gives")),
         .run = gradient_is_the_slope,
         .op = row->name,
         .dtype = "f32"});
  }
  return true;
}();

}  // namespace

}  // namespace tenon::conform
