// SPDX-License-Identifier: Apache-2.0
// perf.cpp: the statistics of figures, their ceilings, and the process that measures them.
#include "conformance/perf.hpp"

#include "conformance/process.hpp"
#include "conformance/protocol.hpp"
#include "conformance/words.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <string_view>

namespace tenon::conform {

namespace {

using Against = Figure::Against;

// The value below which `share` of the sorted samples lie.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  return sorted[below] * (1 - part) + sorted[above] * part;
}

double best(const std::vector<Figure>& figures, Against kind) {
  double out = 0;
  for (const Figure& figure : figures) {
    if (figure.against == kind) out = std::max(out, figure.median);
  }
  return out;
}

std::string rounded(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(value < 10 ? 2 : 1) << value;
  return std::move(out).str();
}

void relate_one(Figure& figure, double link, double memory, double arithmetic) {
  double ceiling = 0;
  std::string what;
  if (figure.against == Against::link) {
    ceiling = link, what = "the fastest transfer between host and device";
  } else if (figure.against == Against::memory) {
    ceiling = memory, what = "the greatest memory traffic reached";
  } else if (figure.against == Against::arithmetic) {
    const double fed = memory * figure.flops_per_byte;
    const bool bound = memory > 0 && fed < arithmetic;
    ceiling = bound ? fed : arithmetic;
    what = bound ? "what the greatest memory traffic could feed" : "the fastest arithmetic reached";
  }
  if (ceiling <= 0 || figure.samples == 0) return;
  figure.percent = 100 * figure.median / ceiling;
  figure.ceiling = words(what, ", ", rounded(ceiling), " ", figure.unit);
}

// What one process says while it measures.
class Measurement {
 public:
  Measurement(const Options& options, const Measured& measured) : options_(options), measured_(measured) {}
  Status run(Process& process);
  Performance take() && { return std::move(out_); }
  void remark(const std::string& text) { out_.remark += (out_.remark.empty() ? "" : "; ") + text; }

 private:
  using Clock = std::chrono::steady_clock;
  void read(Process& process);
  std::string where(const Process& process) const;

  const Options& options_;
  const Measured& measured_;
  Performance out_{.asked = true};
  Clock::time_point since_ = Clock::now();
};

void Measurement::read(Process& process) {
  while (auto text = process.receive()) {
    auto message = decode_message(*text);
    if (!message.ok() || message->sender != process.pid() || message->kind != Message::Kind::figure) continue;
    since_ = Clock::now();
    if (measured_) measured_(message->figure.name);
    out_.figures.push_back(std::move(message->figure));
  }
}

std::string Measurement::where(const Process& process) const {
  const std::string after = out_.figures.empty() ? "" : words(" after '", out_.figures.back().name, "'");
  const std::string place = place_of(process.trail());
  return words(" while measuring", after, place.empty() ? "" : "; it was ", place);
}

Status Measurement::run(Process& process) {
  while (true) {
    read(process);
    if (const auto end = process.ended()) {
      read(process);
      if (end->exited && end->status == 0) return {};
      return Status(TN_INTERNAL, words(end->exited ? words("the process ended with exit(", end->status, ")")
                                                   : words("the process died of ", signal_name(end->signal)),
                                       where(process)));
    }
    const double quiet = std::chrono::duration<double>(Clock::now() - since_).count();
    if (quiet > options_.deadline_s) {
      process.kill();
      return Status(TN_TIMEOUT, words("no answer within ", options_.deadline_s, " s", where(process)));
    }
    wait_for_any({process.connection()}, 10);
  }
}

constexpr bool sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

}  // namespace

void summarise(Figure& figure, std::vector<double> samples) {
  if (samples.empty()) return;
  std::sort(samples.begin(), samples.end());
  figure.samples = static_cast<uint32_t>(samples.size());
  figure.median = percentile(samples, 0.5);
  figure.low = percentile(samples, 0.1);
  figure.high = percentile(samples, 0.9);
  const double count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double deviation = samples.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  figure.spread = mean > 0 ? 100 * deviation / mean : 0;
}

void relate(std::vector<Figure>& figures) {
  const double link = best(figures, Against::link), memory = best(figures, Against::memory);
  const double arithmetic = best(figures, Against::arithmetic);
  for (Figure& figure : figures) relate_one(figure, link, memory, arithmetic);
}

void order(std::vector<Figure>& figures) {
  static constexpr std::string_view groups[] = {"call", "latency", "copy", "kernel"};
  const auto rank = [](const Figure& f) { return std::find(std::begin(groups), std::end(groups), f.group); };
  std::stable_sort(figures.begin(), figures.end(),
                   [&](const Figure& a, const Figure& b) { return rank(a) < rank(b); });
}

Performance measure_apart(const Options& options, const Measured& measured) {
  Measurement measurement(options, measured);
  if (sanitized()) {
    measurement.remark("this program was built with a sanitizer: the figures say nothing about the plugin");
  }
  Request request;
  request.settings.plugin = options.plugin;
  request.settings.device = options.device;
  request.settings.quick = options.quick;
  request.settings.seed = options.seed;
  request.settings.options = options.options;
  request.perf = true;
  auto process = Process::start(options.worker, encode(request));
  const Status said = process.ok() ? measurement.run(*process) : Status(process.error());
  if (!said.ok()) measurement.remark(std::string(said.message()));
  Performance out = std::move(measurement).take();
  relate(out.figures);
  order(out.figures);
  return out;
}

}  // namespace tenon::conform
