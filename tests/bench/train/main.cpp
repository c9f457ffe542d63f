// SPDX-License-Identifier: Apache-2.0
// The benchmark of training: whole steps beside torch, and what each option of a strategy gains.
//
// Invariant: the racers of a contest train the same model on the same batch, take their steps in turn, and have learnt in the
// end; standard output carries one JSON object a line and nothing else.
#include "../row.hpp"
#include "racer.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace bench;
using Options = std::vector<std::string>;

// Captures, plans by measured arrivals and compilers at run time are done after as many.
constexpr int warm_ups = 5, fewest_rounds = 5, most_rounds = 15;
constexpr double patience_ms = 45'000;  // of the rounds of one contest
// Slower steps are no contest: a processor without units for bf16 needs minutes in some libraries.
constexpr double slowest_ms = 20'000;
// Threads that spin after their step have gone to sleep.
constexpr auto pause = std::chrono::milliseconds(20);

struct Rider {
  std::string name{};
  std::unique_ptr<Racer> racer{};
  std::vector<double> times{};
};

double step_of(Rider& rider) {
  std::this_thread::sleep_for(pause);
  return rider.racer->step();
}

void warm_up(Rider& rider) {
  for (int i = 0; i < warm_ups; ++i) {
    const double ms = step_of(rider);
    if (i == 0 || ms < slowest_ms) continue;
    return rider.racer->give_up("a step takes " + std::to_string(static_cast<int>(ms / 1000)) + " s");
  }
}

void race(std::vector<Rider>& riders) {
  for (Rider& rider : riders) warm_up(rider);
  double spent = 0;
  for (int round = 0; round < most_rounds && (round < fewest_rounds || spent < patience_ms); ++round) {
    for (Rider& rider : riders) {
      const double ms = step_of(rider);
      if (ms < 0) continue;
      rider.times.push_back(ms);
      spent += ms;
    }
  }
  for (Rider& rider : riders) rider.racer->check_learning();
}

void check_sizes(std::vector<Rider>& riders) {
  for (Rider& rider : riders) {
    if (rider.racer->why().empty() && rider.racer->parameters() != riders.front().racer->parameters())
      rider.racer->give_up("its model has " + std::to_string(rider.racer->parameters()) +
                           " parameters, ours " + std::to_string(riders.front().racer->parameters()));
  }
}

// A row for each but the first, which is the one that is compared.
void tell(const std::string& name, const std::vector<Rider>& riders) {
  const Rider& ours = riders.front();
  if (!ours.racer->why().empty()) return left_out(name, ours.racer->why());
  for (size_t i = 1; i < riders.size(); ++i) {
    Row row{.name = name, .peer = riders[i].name, .unit = "ms", .ours = ours.times, .median = true};
    row.why_no_peer = riders[i].racer->why();
    if (row.why_no_peer.empty()) row.theirs = riders[i].times;
    print(row);
  }
}

void contest(const std::string& name, std::vector<Rider> riders) {
  std::fprintf(stderr, "bench train: %s\n", name.c_str());
  check_sizes(riders);
  race(riders);
  tell(name, riders);
}

// Ours beside torch, as it comes and tuned.
void beside_torch(const std::string& model, bool half) {
  const Task task{.model = model, .batch = model == "transformer" ? 8u : 16u};
  const Options plain = half ? Options{"bf16"} : Options{};
  std::vector<Rider> riders;
  riders.push_back({"ours", Racer::ours(task, half ? Options{"amp=true", "amp_level=O2"} : Options{})});
  const auto add = [&](const std::string& name, const Options& words) {
    Options all = plain;
    all.insert(all.end(), words.begin(), words.end());
    riders.push_back({"torch " + name, Racer::torch(task, all)});
  };
  add("eager", {"eager"});
  if (model == "resnet50") add("eager NHWC", {"eager", "nhwc"});
  if (model == "resnet50")
    add("compile NHWC", {"compile", "nhwc"});
  else
    add("compile", {"compile"});
  contest(model + (half ? "/bf16" : "/f32"), std::move(riders));
}

// One choice of a strategy and the other.
void option(const std::string& name, const Task& task, const std::string& other, const Options& with,
            const Options& without) {
  std::vector<Rider> riders;
  riders.push_back({"ours", Racer::ours(task, with)});
  riders.push_back({other, Racer::ours(task, without)});
  contest(name, std::move(riders));
}

const Options no_batch_norms{"fuse_bn_act_ops=false", "fuse_bn_add_act_ops=false"};
const Options no_fusion{"enable_auto_fusion=false", "fuse_elewise_add_act_ops=false", "fuse_patterns=false",
                        "fuse_all_optimizer_ops=false", "enable_addto=false"};

Options joined(Options left, const Options& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

void options_of(const std::string& model, uint32_t batch) {
  const Task task{.model = model, .batch = batch};
  for (const bool half : {false, true}) {
    const Options base = half ? Options{"amp=true", "amp_level=O2"} : Options{};
    const std::string name = model + (half ? "/bf16/" : "/f32/");
    option(name + "fusion", task, "none", base, joined(base, no_fusion));
    option(name + "fuse_all_optimizer_ops", task, "off", base,
           joined(base, {"fuse_all_optimizer_ops=false"}));
    if (model != "resnet50") continue;
    option(name + "fuse_bn_act_ops", task, "off", base, joined(base, no_batch_norms));
    option(name + "layout", task, "nchw", base, joined(base, {"layout=nchw"}));
    option(name + "cudnn_exhaustive_search", task, "off", joined(base, {"cudnn_exhaustive_search=true"}),
           joined(base, {"cudnn_exhaustive_search=false"}));
  }
  option(model + "/bf16/amp_level", task, "O1", {"amp=true", "amp_level=O2"}, {"amp=true", "amp_level=O1"});
}

// Two ranks with one processor each.
void between_ranks(const std::string& model, uint32_t batch) {
  const Task task{.model = model, .batch = batch, .ranks = 2};
  std::vector<Rider> riders;
  riders.push_back({"ours", Racer::ours(task)});
  riders.push_back({"fuse_all_reduce_ops=false", Racer::ours(task, {"fuse_all_reduce_ops=false"})});
  riders.push_back({"bucket_mode=none", Racer::ours(task, {"bucket_mode=none"})});
  riders.push_back({"torch DDP, gloo",
                    Racer::torch(task, model == "resnet50" ? Options{"eager", "nhwc"} : Options{"eager"})});
  contest(model + "/f32/2 ranks", std::move(riders));
}

}  // namespace

int main() {
  note(
      "every figure is a whole step: forward, backward, sums over ranks, update; ours brings its batch from "
      "the host in each");
  note(Peer(Peer::python(BENCH_PEER, {"about"})).about());
  for (const char* model : {"resnet50", "transformer"}) {
    beside_torch(model, false);
    beside_torch(model, true);
    options_of(model, model == std::string("transformer") ? 8 : 16);
    between_ranks(model, model == std::string("transformer") ? 8 : 16);
  }
}
