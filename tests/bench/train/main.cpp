// SPDX-License-Identifier: Apache-2.0
// The benchmark of training: whole steps beside torch, what each option of a strategy gains, and loading.
//
//   bench_train             all rows
//   bench_train PART …      loader, resnet50/f32, resnet50/bf16, resnet50/options, "resnet50/f32/2 ranks" …, the same of transformer, digits
//
// Invariant: the racers of a contest train the same model on the same batch, take their steps in turn, and have learnt in the
// end; standard output carries one JSON object a line and nothing else.
#include "../row.hpp"
#include "contest.hpp"
#include "loader_rows.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace bench;
using Options = std::vector<std::string>;

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
  const Options scaled{"amp=true", "amp_level=O2", "amp_dtype=f16"};
  option(model + "/f16/finite check", task, "each gradient by itself", scaled,
         joined(scaled, {"check=apart"}));
  option(model + "/f32/auto", task, "off", {"auto=true"}, {});
  option(model + "/bf16/amp_level", task, "O1", {"amp=true", "amp_level=O2"}, {"amp=true", "amp_level=O1"});
}

// Two ranks with one processor each.
void between_ranks(const std::string& model, uint32_t batch, bool half) {
  const Task task{.model = model, .batch = batch, .ranks = 2};
  const Options base = half ? Options{"amp=true", "amp_level=O2"} : Options{};
  std::vector<Rider> riders;
  riders.push_back({"ours", Racer::ours(task, base)});
  for (const std::string other : {"fuse_all_reduce_ops=false", "bucket_mode=none"})
    riders.push_back({other, Racer::ours(task, joined(base, {other}))});
  Options torch = half ? Options{"bf16", "eager"} : Options{"eager"};
  if (model == "resnet50") torch.emplace_back("nhwc");
  riders.push_back({"torch DDP, gloo", Racer::torch(task, torch)});
  contest(model + (half ? "/bf16/2 ranks" : "/f32/2 ranks"), std::move(riders));
  option(model + (half ? "/bf16/sharded" : "/f32/sharded"), task, "off", joined(base, {"sharded=true"}),
         base);
}

// A step as short as what a fetch takes: the host looks at one loss of sixteen, and runs ahead of the device between.
void looking_seldom() {
  const Task task{.model = "digits", .batch = 32};
  option("digits/f32/fetch_every", task, "1", {"fetch_every=16"}, {});
}

}  // namespace

int main(int argc, char** argv) {
  const Options asked(argv + 1, argv + argc);
  const auto is_asked = [&](const std::string& part) {
    return asked.empty() || std::find(asked.begin(), asked.end(), part) != asked.end();
  };
  note(
      "every figure is a whole step: forward, backward, sums over ranks, update; ours brings its batch from "
      "the host in each");
  note(Peer(Peer::python(BENCH_PEER, {"about"})).about());
  if (is_asked("loader")) loader_rows();
  for (const std::string model : {"resnet50", "transformer"}) {
    const uint32_t batch = model == "transformer" ? 8 : 16;
    for (const bool half : {false, true})
      if (is_asked(model + (half ? "/bf16" : "/f32"))) beside_torch(model, half);
    if (is_asked(model + "/options")) options_of(model, batch);
    for (const bool half : {false, true})
      if (is_asked(model + (half ? "/bf16" : "/f32") + "/2 ranks")) between_ranks(model, batch, half);
  }
  if (is_asked("digits")) looking_seldom();
}
