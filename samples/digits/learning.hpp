// SPDX-License-Identifier: Apache-2.0
// learning.hpp: what it takes to learn digits: samples, a step, and how many of the digits kept apart are told right.
//
// Invariant: a step has the same 64 samples, however many ranks share them.
#pragma once

#include "digits/digits.hpp"
#include "network.hpp"

#include <tenon/tenon.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace digits {

using namespace tenon;

constexpr uint64_t batch = 64, tested = count(Part::tested);

// Who runs, and with whom.
struct World {
  Device device;
  std::string file;  // of the digits
  Rendezvous here{};
  Communicator comm{};
};

inline Result<Loader> open_loader(World& w, Timeline timeline = {}) {
  Dataset samples = TN_TRY(read(w.file, Part::learned));
  return Loader::open(w.device, std::move(samples),
                      {.batch = batch / w.here.size,
                       .rank = w.here.rank,
                       .ranks = w.here.size,
                       .seed = 1,
                       .image = ImageOptions{.border = 1, .random_crop = true, .scale = 1.0 / greatest},
                       .timeline = std::move(timeline)});
}

inline Result<Executor> open_executor(World& w, const Strategy& strategy, Timeline timeline = {}) {
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::adam, .rate = 3e-3};
  options.ranks = w.here.size;
  const Network network(static_cast<int64_t>(batch / w.here.size), true);
  const TrainingGraph step = TN_TRY(training_graph(network.graph(), "loss", options));
  Executor out = TN_TRY(Executor::open(step, w.device, strategy, w.comm, {.timeline = std::move(timeline)}));
  TN_TRY(out.initialize(7));
  TN_TRY(out.share());
  return out;
}

// The share of the digits kept apart that the network tells right.
inline Result<double> accuracy(World& w, Executor& executor) {
  Loader loader = TN_TRY(
      Loader::open(w.device, TN_TRY(read(w.file, Part::tested)),
                   {.batch = tested, .shuffle = false, .image = ImageOptions{.scale = 1.0 / greatest}}));
  const Network network(tested, false);
  const Plan forward = TN_TRY(plan(network.graph(), w.device));
  Stream stream = TN_TRY(w.device.stream());
  const Batch samples = TN_TRY(loader.next(stream));
  std::vector<Buffer> weights;
  std::vector<Binding> bindings;
  for (const Graph::ValueInfo& info : network.graph().values()) {
    if (info.role != Graph::Role::param) continue;
    weights.push_back(TN_TRY(w.device.allocate(stream, info.spec.bytes())));
    TN_TRY(stream.upload(weights.back(), TN_TRY(executor.get(info.name))));
    bindings.push_back({info.name, weights.back()});
  }
  const Buffer scores = TN_TRY(w.device.allocate(stream, tested * 10 * sizeof(float)));
  bindings.push_back({"scores", scores});
  bindings.push_back(samples.bindings()[0]);  // the images
  TN_TRY(forward.run(stream, bindings));
  std::vector<float> found(tested * 10);
  std::vector<int32_t> labels(tested);
  TN_TRY(stream.download(found, scores));
  TN_TRY(stream.download(labels, samples.bindings()[1].span));
  TN_TRY(stream.sync());
  uint64_t right = 0;
  for (size_t i = 0; i < tested; ++i) {
    const auto first = found.begin() + static_cast<std::ptrdiff_t>(i * 10);
    right += std::max_element(first, first + 10) - first == labels[i];
  }
  return static_cast<double>(right) / tested;
}

}  // namespace digits
