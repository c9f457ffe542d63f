// SPDX-License-Identifier: Apache-2.0
// compare.cpp: the rules of compare.hpp, element by element.
#include "conformance/ops/compare.hpp"

#include "conformance/words.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <unordered_set>

namespace tenon::conform {

namespace {

constexpr size_t enough_values = 64;  // different ones, before an average says anything
constexpr double biased = 0.85;       // root mean square of error over allowance; uniform errors have 0.58

// One output under comparison.
class Comparison {
 public:
  Comparison(const Row& row, uint32_t subject, const Wanted& wanted, const Tensor& got, const Slack& slack)
      : row_(row),
        subject_(subject),
        wanted_(wanted),
        got_(got),
        slack_(slack),
        format_(format_of(got.dtype)),
        either_zero_(meaning_of(row).error.either_zero || row.tolerance != Tolerance::EXACT) {}

  std::optional<std::string> run() {
    for (uint64_t i = 0; i < got_.at.size(); ++i) {
      if (agrees(i)) continue;
      ++wrong_;
      if (wrong_ == 1) first_ = i;
    }
    if (wrong_ > 0) return story();
    const double spread = judged_ > 0 ? std::sqrt(squares_ / judged_) : 0;
    if (values_.size() < enough_values || spread <= biased) return {};
    return words("every element is within its tolerance, but their normalised error is ", spread, " over ",
                 judged_, " elements: errors of this size are a bias, not rounding");
  }
  const Eased& eased() const noexcept { return eased_; }

 private:
  double magnitude(uint64_t i) const { return wanted_.magnitude.empty() ? 0 : wanted_.magnitude[i]; }

  bool agrees(uint64_t i) {
    if (!author::is_float(got_.dtype)) return got_.at[i].whole == wanted_.tensor.at[i].whole;
    const double got = got_.at[i].real, exact = wanted_.tensor.at[i].real, nearest = rounded(format_, exact);
    if (std::isnan(exact)) return std::isnan(got);
    const bool loose = row_.tolerance != Tolerance::EXACT;
    const double terms = magnitude(i);
    if (loose && std::isfinite(exact) && !(terms <= computing_format(got_.dtype).largest)) return true;
    if (std::isnan(got)) return false;
    if (got == nearest && (either_zero_ || std::signbit(got) == std::signbit(nearest))) {
      return note(exact, 0, 1);
    }
    if (std::isinf(exact)) return false;
    const double usual = usually(exact, i), allowed = widened(exact, usual);
    // Infinity is as far away as the first number that rounds to it.
    const double error = std::isinf(got)
                             ? format_.largest + ulp(format_, format_.largest) / 2 - std::fabs(exact)
                             : std::fabs(got - exact);
    if (allowed == 0 || error > allowed) return false;
    if (std::isinf(got) && std::signbit(got) != std::signbit(exact)) return false;
    if (error > usual) ease(exact, error, usual);
    return std::isinf(got) || note(exact, error, allowed);
  }

  double usually(double exact, uint64_t i) const {
    return allowance(row_, subject_, got_.dtype, exact, magnitude(i), wanted_.length);
  }
  double widened(double exact, double usual) const {
    return std::max(slack_.factor * usual, slack_.ulps * ulp(format_, exact));
  }
  void ease(double exact, double error, double usual) {
    const double unit = ulp(format_, exact);
    if (eased_.elements++ == 0 || error / unit > eased_.ulps) {
      eased_.ulps = error / unit;
      eased_.usual_ulps = usual / unit;
    }
  }

  bool note(double exact, double error, double allowed) {
    if (values_.size() < enough_values) values_.insert(exact);
    squares_ += error / allowed * (error / allowed);
    ++judged_;
    return true;
  }

  std::string story() const {
    const Scalar &got = got_.at[first_], &want = wanted_.tensor.at[first_];
    std::string out = words("element ", first_, place(), " is ", told(got_.dtype, got), " and must be ",
                            told(got_.dtype, want));
    if (author::is_float(got_.dtype) && std::isfinite(got.real) && std::isfinite(want.real)) {
      const double unit = ulp(format_, want.real);
      const double allowed = widened(want.real, usually(want.real, first_));
      out += words(" (off by ", std::setprecision(4), std::fabs(got.real - want.real) / unit, " ULP, ",
                   allowed / unit, " allowed)");
    }
    return wrong_ == 1 ? out : words(out, "; ", wrong_, " of ", got_.at.size(), " elements are wrong");
  }
  // " at [1,2]".
  std::string place() const {
    if (got_.dims.size() < 2) return "";
    std::vector<int64_t> at = got_.dims;
    uint64_t rest = first_;
    for (size_t i = at.size(); i-- > 0;) {
      at[i] = static_cast<int64_t>(rest % static_cast<uint64_t>(got_.dims[i]));
      rest /= static_cast<uint64_t>(got_.dims[i]);
    }
    return " at " + told(at);
  }

  const Row& row_;
  uint32_t subject_;
  const Wanted& wanted_;
  const Tensor& got_;
  const Slack& slack_;
  const Format& format_;
  bool either_zero_;
  uint64_t wrong_ = 0, first_ = 0;
  double judged_ = 0, squares_ = 0;
  std::unordered_set<double> values_{};
  Eased eased_{};
};

}  // namespace

Slack slack_of(const Judging& judging, const Row& row, uint32_t subject) {
  const auto found = judging.slack.find(words(row.name, ".", author::dtype_name(subject)));
  return found != judging.slack.end() ? found->second : Slack{};
}

double allowance(const Row& row, uint32_t subject, uint32_t dtype, double value, double magnitude,
                 double length) {
  const ErrorModel& model = meaning_of(row).error;
  const Format &type = format_of(dtype), &computing = computing_format(dtype);
  const double half = ulp(type, value) * 0.5 * (1 + 0x1p-20);
  const double roundoff =
      model.in_type ? std::max(format_of(subject).roundoff(), computing.roundoff()) : computing.roundoff();
  // A result too small to be normal may be flushed in the middle of a computation.
  const double flushed = std::ldexp(1.0, computing.min_exponent), near = ulp(computing, value);
  switch (row.tolerance) {
    case Tolerance::EXACT:
      return 0;
    case Tolerance::ROUND:
      if (magnitude == 0) return 0;
      return half + near / 2 + model.roundings * roundoff * magnitude;
    case Tolerance::MATH:
      return half + flushed + model.ulps * (near + roundoff * magnitude);
    case Tolerance::SUM:
      return half + flushed + 2 * near +
             (4 + std::min(length, 4 * std::sqrt(length))) * roundoff * std::max(magnitude, std::fabs(value));
  }
  return 0;
}

std::optional<std::string> compare(const Row& row, uint32_t subject, const Wanted& wanted, const Tensor& got,
                                   const Slack& slack, Eased* eased) {
  Comparison comparison(row, subject, wanted, got, slack);
  auto story = comparison.run();
  const Eased& found = comparison.eased();
  if (eased == nullptr || found.elements == 0) return story;
  if (found.ulps >= eased->ulps) *eased = {eased->elements, found.ulps, found.usual_ulps};
  eased->elements += found.elements;
  return story;
}

}  // namespace tenon::conform
