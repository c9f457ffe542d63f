// SPDX-License-Identifier: Apache-2.0
// tune.cpp: the settings worth trying, and the executors that are timed with them.
//
// Invariant: all ranks see the same times, those of the slowest rank, and so decide alike.
#include <tenon/executor.hpp>
#include <tenon/tune.hpp>

#include "base/clock.hpp"
#include "graph/columns.hpp"
#include "graph/number.hpp"
#include "train/layout.hpp"
#include "train/race.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <set>
#include <thread>

namespace tenon {
namespace {

using train::Rounds;
using train::Setting;
using train::Settings;

constexpr size_t fewest_rounds = 5, most_rounds = 25;
constexpr double shortest_round_ms = 5;  // shorter steps go several to a round
constexpr double failed_ms = -1;

// Numbers for each input that the caller does not bring.
class MadeUp {
 public:
  explicit MadeUp(const TrainingGraph& step) {
    std::mt19937 draw(1);
    for (const Graph::ValueInfo& info : step.graph.values()) {
      if (info.role != Graph::Role::input || info.name == step.divisor) continue;
      std::vector<std::byte>& bytes = memory_.emplace_back(info.spec.bytes());
      const size_t width = bits(info.spec.dtype) / 8;
      for (size_t at = 0; graph::is_float(info.spec.dtype) && at + width <= bytes.size(); at += width)
        graph::write_element(info.spec.dtype, static_cast<double>(draw()) * 0x1p-32, bytes.data() + at);
      batch_.push_back({info.name, Stream::host_span(bytes.data(), bytes.size())});
    }
  }
  const std::vector<Binding>& batch() const noexcept { return batch_; }

 private:
  std::vector<std::vector<std::byte>> memory_{};
  std::vector<Binding> batch_{};
};

bool has(const Graph& graph, graph::Family family) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Graph::Node& node) { return graph::columns_of(node.op).family == family; });
}

// What nobody has set and could be otherwise. The documents' count of threads is twice the devices: one value of several.
Settings open_settings(const TrainingGraph& step, const Strategy& strategy, const Device& device) {
  const bool is_cpu = std::string_view(device.plugin().name) == "cpu";
  std::set<std::string, std::less<>> open;
  for (const Strategy::Effective& row : strategy.effective())
    if (row.by == "default") open.insert(row.option);
  Settings out;
  const auto offer = [&](const char* option, const std::string& value, bool is_use = true) {
    if (is_use && open.contains(option)) out.push_back({option, value});
  };
  const bool convolves = has(step.graph, graph::Family::CONV);
  if (is_cpu) {
    const unsigned all = std::max(std::thread::hardware_concurrency(), 1u);
    for (const unsigned threads : std::set<unsigned>{1, 2, std::max(all / 2, 1u), all * 2})
      offer("device_threads", std::to_string(threads), threads != all);
  }
  offer("capture", "false");
  offer("fuse_patterns", "false");  // the model of costs knows neither caches nor how a kernel does
  offer("enable_auto_fusion", "false");
  offer("layout", train::prefers_channels_last(step.graph, strategy, device) ? "nchw" : "nhwc", convolves);
  offer("enable_pad", "true", strategy.amp);
  offer("cudnn_exhaustive_search", "true", convolves || has(step.graph, graph::Family::MATMUL));
  return out;
}

// A step with some settings, ready to be taken.
struct Contestant {
  Settings settings{};
  Runtime runtime{};
  Device device{};
  Communicator comm{};
  std::unique_ptr<Executor> executor{};
};

class Tuner {
 public:
  Tuner(const TrainingGraph& step, const Strategy& strategy, const TuneOptions& options)
      : step_(step), strategy_(strategy), o_(options), made_up_(step) {}

  Result<Tuned> run() {
    incumbent_ = TN_TRY(open({}));
    const train::Compare compare = [this](const Settings& without, const Settings& with) {
      return this->compare(without, with);
    };
    train::Race race = TN_TRY(train::race(open_settings(step_, strategy_, incumbent_->device), compare));
    Tuned out{.strategy = strategy_,
              .before_ms = race.before_ms,
              .after_ms = race.after_ms,
              .trials = std::move(race.trials)};
    TN_TRY(apply(race.taken, out.strategy));
    return out;
  }

 private:
  static Status apply(const Settings& settings, Strategy& to) {
    for (const Setting& one : settings) TN_TRY(to.set(one.option, one.value, "auto"));
    return {};
  }

  Result<std::unique_ptr<Contestant>> open(const Settings& settings) {
    Strategy strategy = strategy_;
    TN_TRY(apply(settings, strategy));
    auto out = std::make_unique<Contestant>();
    out->settings = settings;
    RuntimeOptions runtime = o_.runtime;
    for (const auto& [key, value] : strategy.runtime()) runtime.options[key] = value;
    out->runtime = TN_TRY(Runtime::open(std::move(runtime)));
    out->device = TN_TRY(out->runtime.device(o_.device));
    const Rendezvous& here = o_.here;
    if (here.size > 1)
      out->comm = TN_TRY(Communicator::create(out->device, here.store, here.rank, here.size));
    out->executor = std::make_unique<Executor>(
        TN_TRY(Executor::open(step_, out->device, strategy, out->comm, ExecutorOptions{})));
    TN_TRY(out->executor->initialize(1));
    TN_TRY(out->executor->share());
    for (uint32_t i = 0; i < o_.warm_ups; ++i) TN_TRY(take_steps(*out, 1));
    return out;
  }

  // In milliseconds a step.
  Result<double> take_steps(Contestant& one, int count) {
    const std::vector<Binding>& batch = o_.batch.empty() ? made_up_.batch() : o_.batch;
    const uint64_t begin = base::now_ns();
    for (int i = 0; i < count; ++i) TN_TRY(one.executor->run(batch));
    TN_TRY(one.executor->sync());
    return static_cast<double>(base::now_ns() - begin) * 1e-6 / count;
  }

  // The slowest rank's; failed_ms where one has failed.
  Result<double> agreed(double own) {
    if (o_.here.size == 1) return own;
    Contestant& one = *incumbent_;
    Stream& stream = one.executor->stream();
    Buffer word = TN_TRY(one.device.allocate(stream, sizeof(float)));
    float ms = own < 0 ? std::numeric_limits<float>::infinity() : static_cast<float>(own);
    TN_TRY(stream.upload(word, std::span<const float>(&ms, 1)));
    TN_TRY(one.comm.all_reduce(stream, word.span(), word.span(), f32, Reduction::max));
    TN_TRY(stream.download(std::span(&ms, 1), word));
    TN_TRY(stream.sync());
    return std::isinf(ms) ? failed_ms : static_cast<double>(ms);
  }

  Result<double> timed(Contestant& one, int count, std::string& why_not) {
    const Result<double> own = take_steps(one, count);
    if (!own.ok()) why_not = own.message();
    return agreed(own.ok() ? *own : failed_ms);
  }

  Result<Rounds> compare(const Settings& without, const Settings& with) {
    if (!is_same(incumbent_->settings, without)) incumbent_ = TN_TRY(open(without));
    Rounds out;
    auto challenger = open(with);
    if (!challenger.ok()) out.why_not = challenger.message();
    if (TN_TRY(agreed(challenger.ok() ? 0 : failed_ms)) < 0) {
      if (out.why_not.empty()) out.why_not = "it cannot be on another rank";
      return out;
    }
    const double first = TN_TRY(timed(*incumbent_, 1, out.why_not));
    const auto count = static_cast<int>(std::clamp(shortest_round_ms / std::max(first, 1e-3), 1.0, 100.0));
    double spent = 0;
    while (out.with.size() < fewest_rounds || (spent < o_.patience_ms && out.with.size() < most_rounds)) {
      const double before = TN_TRY(timed(*incumbent_, count, out.why_not))
      , after = TN_TRY(timed(**challenger, count, out.why_not));
      if (before < 0) return Status(TN_INTERNAL, "tune: a step failed: " + out.why_not);
      if (after < 0)
        return Rounds{.why_not = out.why_not.empty() ? "a step failed on another rank" : out.why_not};
      out.without.push_back(before);
      out.with.push_back(after);
      spent += (before + after) * count;
    }
    return out;
  }

  static bool is_same(const Settings& a, const Settings& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Setting& x, const Setting& y) { return x.words() == y.words(); });
  }

  const TrainingGraph& step_;
  const Strategy& strategy_;
  TuneOptions o_;
  const MadeUp made_up_;
  std::unique_ptr<Contestant> incumbent_{};
};

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

std::string Tuned::explain() const {
  if (trials.empty()) return "auto: nothing is left open\n";
  std::string out = "auto: " + std::to_string(trials.size()) + " trials; a step took " + rounded(before_ms) +
                    " ms and takes " + rounded(after_ms) + "\n";
  for (const Trial& trial : trials) {
    out += "  " + trial.setting + (trial.beside.empty() ? "" : " beside " + trial.beside) + ": ";
    if (trial.ratio == 0) {
      out += "cannot be: " + trial.why_not + "\n";
      continue;
    }
    out += rounded(trial.ms) + " ms, " + rounded(trial.ratio) + " times as fast" +
           (trial.is_taken ? ", taken\n" : ", left\n");
  }
  return out;
}

Result<Tuned> tune(const TrainingGraph& step, const Strategy& strategy, const TuneOptions& options) {
  TN_TRY(strategy.check());
  return Tuner(step, strategy, options).run();
}

}  // namespace tenon
