// SPDX-License-Identifier: Apache-2.0
// race.cpp: comparing and taking.
#include "train/race.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::train {
namespace {

// A gain that is worth an option, and the part of the rounds that must have seen one.
constexpr double least_ratio = 1.02, quarter = 0.25;

double at(std::vector<double> of, double part) {
  if (of.empty()) return 0;
  const auto place = static_cast<size_t>(std::lround(part * static_cast<double>(of.size() - 1)));
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(place), of.end());
  return of[place];
}
double median(const std::vector<double>& of) { return at(of, 0.5); }

struct Verdict {
  double ratio = 0;
  bool wins = false;
};

Verdict verdict(const Rounds& rounds) {
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds.with.size() && i < rounds.without.size(); ++i)
    ratios.push_back(rounds.without[i] / rounds.with[i]);
  Verdict out{.ratio = median(ratios)};
  out.wins = out.ratio >= least_ratio && at(ratios, quarter) > 1;
  return out;
}

std::string words(const Settings& settings) {
  std::string out;
  for (const Setting& one : settings) out += (out.empty() ? "" : ", ") + one.words();
  return out;
}

class Racer {
 public:
  explicit Racer(const Compare& compare) : compare_(compare) {}

  Result<Race> run(std::span<const Setting> settings) {
    std::vector<Alone> winners;
    for (const Setting& one : settings) {
      const size_t trial = out_.trials.size();
      const Verdict alone = TN_TRY(measure(one));
      if (alone.wins) winners.push_back({one, trial, alone.ratio});
    }
    std::stable_sort(winners.begin(), winners.end(),
                     [](const Alone& a, const Alone& b) { return a.ratio > b.ratio; });
    for (const Alone& next : winners) {
      if (is_decided(next.setting)) continue;
      size_t trial = next.trial;
      if (!out_.taken.empty()) {
        trial = out_.trials.size();
        if (!TN_TRY(measure(next.setting)).wins) continue;
      }
      out_.trials[trial].is_taken = true;
      out_.after_ms = out_.trials[trial].ms;
      out_.taken.push_back(next.setting);
    }
    if (out_.taken.empty()) out_.after_ms = out_.before_ms;
    return std::move(out_);
  }

 private:
  struct Alone {
    Setting setting;
    size_t trial = 0;
    double ratio = 0;
  };

  bool is_decided(const Setting& setting) const {
    return std::any_of(out_.taken.begin(), out_.taken.end(),
                       [&](const Setting& one) { return one.option == setting.option; });
  }

  // With what is taken, and with this one besides.
  Result<Verdict> measure(const Setting& setting) {
    Settings with = out_.taken;
    with.push_back(setting);
    const Rounds rounds = TN_TRY(compare_(out_.taken, with));
    Verdict out = rounds.why_not.empty() ? verdict(rounds) : Verdict{};
    if (out_.taken.empty() && out_.before_ms == 0) out_.before_ms = median(rounds.without);
    out_.trials.push_back({.setting = setting.words(),
                           .beside = words(out_.taken),
                           .ms = median(rounds.with),
                           .ratio = out.ratio,
                           .is_taken = false,
                           .why_not = rounds.why_not});
    return out;
  }

  const Compare& compare_;
  Race out_{};
};

}  // namespace

Result<Race> race(std::span<const Setting> settings, const Compare& compare) {
  return Racer(compare).run(settings);
}

}  // namespace tenon::train
