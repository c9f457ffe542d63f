// SPDX-License-Identifier: Apache-2.0
// bench_overlap_rank: one rank of ours, asked as peer.hpp says: bench_overlap_rank SHAPE [NAME=VALUE…].
//
// SHAPE is a course of layers.hpp. The names are those of options (bucket_mode, nccl_comm_num …), `host` and `interface` for one of
// two hosts, and `timeline` for a file: after each step FILE.rankR.json has what ran when in it, for `tenon trace`. "prepare" makes
// the GradientSync, checks averages, takes steps until the plan is that of measured times, and is answered with the nanoseconds of
// a step's computing alone, and those at which the plan sees backward and its averages end; "step" is answered with those of the step
// and of its backward.
// Invariant: a gradient is written by the stream that computes, then worked for, then told of; nothing waits before `finish`.
#include "../row.hpp"
#include "layers.hpp"
#include "work.h"

#include <tenon/tenon.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace tenon;
using bench::now_ns;

constexpr int warm_ups = 6, alone_steps = 5;

struct Settings {
  bench::Layers layers{};
  Strategy strategy{};
  std::string host{};
  std::string interface {};
  std::string timeline{};
};

class Rank {
 public:
  explicit Rank(Settings settings) : s_(std::move(settings)) {}

  Result<std::string> prepare() {
    RuntimeOptions options{.use_environment = false, .use_install_path = false, .probe = Probe::off};
    const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
    options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
    options.options["cpu.threads"] = "1";
    if (!s_.host.empty()) options.options["cpu.host"] = s_.host;
    if (!s_.interface.empty()) options.options["cpu.interface"] = s_.interface;
    runtime_.emplace(TN_TRY(Runtime::open(std::move(options))));
    device_.emplace(TN_TRY(runtime_->device("cpu")));
    const Rendezvous here = TN_TRY(Rendezvous::from_environment());
    rank_ = here.rank;
    size_ = here.size;
    comm_ = TN_TRY(Communicator::create(*device_, here.store, here.rank, here.size));
    stream_ = TN_TRY(device_->stream({.name = "compute"}));
    if (!s_.timeline.empty()) timeline_ = TN_TRY(Timeline::create(*device_, {.rank = rank_}));
    std::vector<Gradient> gradients;
    for (const bench::Layer& layer : s_.layers.all)
      gradients.push_back({.name = layer.name, .elements = layer.elements});
    sync_.emplace(TN_TRY(
        GradientSync::create(*device_, comm_, gradients, s_.strategy.overlap(),
                             {.average = Average::ranks, .uneven_batches = false, .timeline = timeline_})));
    for (int i = 0; i < warm_ups; ++i) TN_TRY(step());
    TN_TRY(check());
    const double alone = TN_TRY(alone_ns());
    char said[64];
    std::snprintf(said, sizeof said, "%.0f %.0f", alone, sync_->plan().predicted().averaged_ns);
    return std::string(said);
  }

  // When the step ended, and when its backward began to.
  Result<std::string> step() {
    static_cast<void>(timeline_.take());  // of what came before
    const double start = now_ns();
    TN_TRY(work("forward", s_.layers.forward_turns));
    TN_TRY(stream_.sync());
    const double turn = now_ns();
    TN_TRY(sync_->begin(stream_));
    for (size_t i = s_.layers.all.size(); i-- > 0;) {
      TN_TRY(write(sync_->gradient(static_cast<uint32_t>(i))));
      TN_TRY(work(s_.layers.all[i].name, s_.layers.all[i].turns));
      TN_TRY(sync_->ready(static_cast<uint32_t>(i)));
    }
    TN_TRY(sync_->finish(stream_));
    TN_TRY(stream_.sync());
    const double end = now_ns();
    TN_TRY(timeline_.write(s_.timeline + ".rank" + std::to_string(rank_) + ".json"));
    char said[64];
    std::snprintf(said, sizeof said, "%.0f %.0f", end - start, end - turn);
    return std::string(said);
  }

 private:
  Status work(std::string_view name, uint64_t turns) {
    return timeline_.measure(stream_, {.name = name},
                             [&] { return stream_.host_call([turns] { tenon_bench_work(turns); }); });
  }
  Status write(const tn_span& gradient) {
    const float value = static_cast<float>(rank_ + 1);
    uint32_t pattern = 0;
    std::memcpy(&pattern, &value, sizeof pattern);
    return stream_.fill(gradient, pattern, sizeof pattern);
  }

  // Rank r wrote r + 1 into every gradient.
  Status check() {
    const float expected = static_cast<float>(size_ + 1) / 2;
    for (uint32_t i = 0; i < s_.layers.all.size(); ++i) {
      std::vector<float> found(s_.layers.all[i].elements);
      TN_TRY(stream_.download(found, sync_->gradient(i)));
      TN_TRY(stream_.sync());
      if (std::all_of(found.begin(), found.end(), [&](float x) { return x == expected; })) continue;
      return {TN_INTERNAL, "the average of '" + s_.layers.all[i].name + "' is wrong"};
    }
    return {};
  }

  // The same work with nothing to send.
  Result<double> alone_ns() {
    std::vector<double> times;
    for (int k = 0; k < alone_steps; ++k) {
      TN_TRY(comm_.barrier(stream_));
      TN_TRY(stream_.sync());
      const double start = now_ns();
      TN_TRY(work("forward", s_.layers.forward_turns));
      for (size_t i = s_.layers.all.size(); i-- > 0;) {
        TN_TRY(write(sync_->gradient(static_cast<uint32_t>(i))));
        TN_TRY(work(s_.layers.all[i].name, s_.layers.all[i].turns));
      }
      TN_TRY(stream_.sync());
      times.push_back(now_ns() - start);
    }
    std::nth_element(times.begin(), times.begin() + alone_steps / 2, times.end());
    return times[alone_steps / 2];
  }

  Settings s_;
  uint32_t rank_ = 0, size_ = 1;
  std::optional<Runtime> runtime_{};
  std::optional<Device> device_{};
  Communicator comm_;
  Stream stream_;
  Timeline timeline_{};
  std::optional<GradientSync> sync_{};
};

Result<Settings> read_settings(int argc, char** argv) {
  if (argc < 2) return Status(TN_INVALID, "usage: bench_overlap_rank SHAPE [NAME=VALUE…]");
  Settings out;
  out.layers = bench::read_layers(argv[1]);
  if (out.layers.all.empty())
    return Status(TN_INVALID,
                  std::string("'") + argv[1] + "' has no gradients: lines of NAME ELEMENTS TURNS are wanted");
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equal = word.find('=');
    if (equal == std::string::npos) return Status(TN_INVALID, "'" + word + "' is not NAME=VALUE");
    const std::string name = word.substr(0, equal), value = word.substr(equal + 1);
    if (name == "host")
      out.host = value;
    else if (name == "interface")
      out.interface = value;
    else if (name == "timeline")
      out.timeline = value;
    else
      TN_TRY(out.strategy.set(name, value));
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  auto settings = read_settings(argc, argv);
  if (!settings.ok()) {
    std::printf("%s\n", settings.error().message.c_str());
    return 1;
  }
  std::printf("ready tenon\n");
  std::fflush(stdout);
  Rank rank(std::move(*settings));
  for (std::string line; std::getline(std::cin, line);) {
    const auto said = line == "prepare" ? rank.prepare() : rank.step();
    if (said.ok())
      std::printf("%s\n", said->c_str());
    else
      std::printf("! %s\n", said.error().message.substr(0, said.error().message.find('\n')).c_str());
    std::fflush(stdout);
  }
}
