// SPDX-License-Identifier: Apache-2.0
// What options come to: who set them, which cannot take effect and why, and what the rooms that act on them are given.
#include <tenon/strategy.hpp>

#include "read.hpp"
#include "strategy/access.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tenon;
using test::effective;
using test::preset;
using test::read;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Status take(Strategy& strategy, const Variables& variables, bool elevated = false) {
  return Strategy::Access::take(strategy, base::Environment(elevated, variables));
}

void comes_to(std::string_view text, std::string_view option, const char* holds, const char* reason) {
  const Strategy::Effective row = effective(read(text), option);
  CAPTURE(text);
  CAPTURE(option);
  CHECK(row.holds == holds);
  CHECK_MESSAGE(row.reason.find(reason) != std::string::npos, row.reason);
}

FusionTarget published(std::initializer_list<const char*> patterns) {
  FusionTarget target;
  for (const char* name : patterns) target.patterns.push_back({.name = name, .steps = {}});
  return target;
}

}  // namespace

TEST_CASE("strategy: a later source wins, and each says who it is") {
  Strategy strategy = preset("documents");
  CHECK(effective(strategy, "nccl_comm_num").by == "preset documents");
  CHECK(effective(strategy, "priority").by == "default");
  REQUIRE(strategy.read("nccl_comm_num = 2", "s.toml").ok());
  CHECK(effective(strategy, "nccl_comm_num").by == "s.toml");
  REQUIRE(take(strategy, {{"TENON_NCCL_COMM_NUM", "3"}}).ok());
  CHECK(effective(strategy, "nccl_comm_num").by == "TENON_NCCL_COMM_NUM");
  CHECK(strategy.nccl_comm_num == 3u);
  strategy.nccl_comm_num = 4;
  CHECK(effective(strategy, "nccl_comm_num").by == "code");
  CHECK(effective(strategy, "nccl_comm_num").holds == "4");
}

TEST_CASE("strategy: of the environment TENON_ goes before FLAGS_") {
  Strategy strategy = read("fuse_grad_size_in_MB = 8");
  REQUIRE(take(strategy, {{"FLAGS_fuse_parameter_memory_size", "16"}}).ok());
  CHECK(strategy.fuse_grad_size_in_mb == 16u);
  CHECK(effective(strategy, "fuse_grad_size_in_MB").by == "FLAGS_fuse_parameter_memory_size");
  REQUIRE(take(strategy, {{"FLAGS_fuse_parameter_memory_size", "16"}, {"TENON_FUSE_GRAD_SIZE_IN_MB", "auto"}})
              .ok());
  CHECK_FALSE(strategy.fuse_grad_size_in_mb);
  CHECK(effective(strategy, "fuse_grad_size_in_MB").by == "TENON_FUSE_GRAD_SIZE_IN_MB");
}

TEST_CASE("strategy: words of the environment are what people write there") {
  Strategy strategy;
  REQUIRE(take(strategy, {{"FLAGS_cudnn_exhaustive_search", "1"},
                          {"FLAGS_cudnn_batchnorm_spatial_persistent", "True"},
                          {"TENON_ENABLE_INPLACE", "0"},
                          {"TENON_CUSTOM_WHITE_LIST", "exp, log"},
                          {"TENON_MUST_FUSE", "[[\"a\", \"b\"]]"},
                          {"TENON_BUCKET_MODE", "ddp"},
                          {"TENON_AMP_DTYPE", "fp16"},
                          {"TENON_LAYOUT", "nhwc"},
                          {"TENON_AUTO", "true"},
                          {"TENON_FRACTION_OF_GPU_MEMORY_TO_USE", "0.98"},
                          {"TENON_LAYERS", "validate"},
                          {"UNRELATED", "1"}})
              .ok());
  CHECK(strategy.cudnn_exhaustive_search == true);
  CHECK(strategy.cudnn_batchnorm_spatial_persistent);
  CHECK_FALSE(strategy.enable_inplace);
  CHECK(strategy.custom_white_list == std::vector<std::string>{"exp", "log"});
  CHECK(strategy.must_fuse == Strategy::Groups{{"a", "b"}});
  CHECK(strategy.bucket_mode == BucketRule::ddp);
  CHECK(strategy.amp_dtype == f16);
  CHECK(strategy.layout == "nhwc");
  CHECK(strategy.auto_tune);
  CHECK(strategy.fraction_of_gpu_memory_to_use == 0.98);
}

TEST_CASE(
    "strategy: a variable with a value that is none changes nothing, and an elevated process has none") {
  Strategy strategy;
  const Status refused = take(strategy, {{"TENON_AMP", "true"}, {"TENON_NCCL_COMM_NUM", "two"}});
  CHECK(std::string(refused.message()) ==
        "TENON_NCCL_COMM_NUM is 'two', not \"auto\" or a whole number from 1 on");
  CHECK(take(strategy, {{"TENON_NCCL_COMM_NUM", "2\nx = 3"}}).code() == TN_INVALID);
  CHECK_FALSE(strategy.amp);
  REQUIRE(take(strategy, {{"TENON_AMP", "true"}}, true).ok());
  CHECK_FALSE(strategy.amp);
}

TEST_CASE("strategy: options of a parameter server say that there is none") {
  comes_to("a_sync = true", "a_sync", "false", "there is no parameter server");
  comes_to("use_thread_barrier = true", "use_thread_barrier", "false", "there is no parameter server");
  comes_to("cache_runtime_context = false", "cache_runtime_context", "true", "compiled once");
  comes_to("a_sync = false", "a_sync", "false", "");
  CHECK(effective(read("a_sync = false"), "a_sync").reason.empty());
}

TEST_CASE("strategy: what nobody acts on has no effect, or another one, and says why") {
  comes_to("amp = true\namp_dtype = \"f16\"\ninit_loss_scaling = 64", "init_loss_scaling", "64", "");
  comes_to("amp = true\ninit_loss_scaling = 64", "init_loss_scaling", "no effect",
           "bf16 has the range of f32");
  comes_to("incr_ratio = 4", "incr_ratio", "no effect", "amp = false");
  comes_to("amp = true\namp_dtype = \"f16\"\nuse_dynamic_loss_scaling = false\nincr_ratio = 4", "incr_ratio",
           "no effect", "use_dynamic_loss_scaling = false");
  comes_to("enable_sequential_execution = false", "enable_sequential_execution", "true",
           "launches go to one stream");
  comes_to("num_threads = 4", "num_threads", "1", "one thread issues them");
  comes_to("num_threads = \"auto\"", "num_threads", "1", "one thread issues them");
  comes_to("auto = true", "auto", "true", "");
  comes_to("enable_pad = \"auto\"", "enable_pad", "false", "unless it is set, or auto = true finds");
  comes_to("layout = \"auto\"", "layout", "\"auto\"", "the device says which");
  comes_to("cudnn_batchnorm_spatial_persistent = true", "cudnn_batchnorm_spatial_persistent", "no effect",
           "cuDNN");
}

TEST_CASE("strategy: options that others switch off say which") {
  comes_to("enable_auto_fusion = false", "fuse_elewise_add_act_ops", "false",
           "set enable_auto_fusion = true");
  comes_to("fuse_elewise_add_act_ops = false", "fuse_elewise_add_act_ops", "true", "enable_auto_fusion");
  comes_to("fuse_patterns = false", "fuse_bn_act_ops", "false", "fuse_patterns = false");
  comes_to("enable_prune = false\nstop_gradient = [\"w\"]", "enable_prune", "true", "stop_gradient");
  comes_to("amp_level = \"O2\"", "amp_level", "no effect", "amp = false");
  comes_to("custom_white_list = [\"exp\"]", "custom_white_list", "no effect", "amp = false");
  comes_to("enable_addto = false", "max_inplace_grad_add", "no effect", "enable_addto = false");
  comes_to("fuse_all_reduce_ops = false", "bucket_mode", "\"per_tensor\"", "goes alone");
  comes_to("fuse_all_reduce_ops = false", "fuse_grad_size_in_MB", "no effect", "goes alone");
  comes_to("bucket_mode = \"ddp\"", "fuse_grad_max_layers", "no effect", "a rule of its own");
  comes_to("bucket_mode = \"documents\"", "partition_MB", "no effect", "only bucket_mode automatic");
  comes_to("sharded = true\nuse_hierarchical_allreduce = true", "use_hierarchical_allreduce", "false",
           "sharded");
  comes_to("hierarchical_allreduce_inter_nranks = 1", "hierarchical_allreduce_inter_nranks", "\"auto\"",
           "one rank");
  comes_to("sharded = true\nfuse_broadcast_ops = false", "fuse_broadcast_ops", "true", "gathered whole");
  comes_to("", "fuse_broadcast_ops", "no effect", "only sharded mode");
  comes_to("sharded = true", "warm_up_steps", "no effect", "keeps its first plan");
  comes_to("", "replan_drift", "no effect", "measure_every = 0");
  comes_to("", "priority", "no effect", "uneven_batches");
  comes_to("uneven_batches = false\nclip_global_norm = true", "priority", "no effect", "clip_global_norm");
  comes_to("uneven_batches = false\namp = true\namp_dtype = \"f16\"", "priority", "no effect",
           "loss scaling");
  comes_to("uneven_batches = false", "priority", "true", "");
  comes_to("uneven_batches = false\nenable_backward_optimizer_op_deps = true", "priority", "no effect",
           "enable_backward_optimizer_op_deps");
}

TEST_CASE("strategy: what makes updates wait for all gradients is named, all of it") {
  const char* const option = "enable_backward_optimizer_op_deps";
  comes_to("", option, "true", "all updates wait for the last bucket: uneven_batches");
  comes_to("uneven_batches = false", option, "false", "");
  CHECK(effective(read("uneven_batches = false"), option).reason.empty());
  comes_to("uneven_batches = false\nclip_global_norm = true", option, "true", ": clip_global_norm");
  comes_to("uneven_batches = false\namp = true\namp_dtype = \"f16\"", option, "true",
           ": loss scaling of amp_dtype f16");
  comes_to("clip_global_norm = true\namp = true\namp_dtype = \"f16\"", option, "true",
           ": loss scaling of amp_dtype f16, clip_global_norm, uneven_batches");
  CHECK(effective(preset("documents"), option).reason.empty());
  CHECK(preset("documents").sync().updates_wait == "enable_backward_optimizer_op_deps");
  CHECK(Strategy{}.sync().updates_wait == "");
  CHECK(Strategy{}.training().uneven_batches);
  CHECK_FALSE(read("uneven_batches = false").training().uneven_batches);
}

TEST_CASE(
    "strategy: explain has a line for each option, and marks what somebody asked for and does not get") {
  Strategy strategy = read("a_sync = true\nnccl_comm_num = 2\n");
  const std::string text = strategy.explain();
  CHECK(text.find("\n! a_sync                               false        s.toml: asked for true; there is no "
                  "parameter") != std::string::npos);
  CHECK(text.find("\n  nccl_comm_num                        2            s.toml\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '!') == 1);
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  CHECK(lines == strategy::options().size() + 6);
}

TEST_CASE("strategy: a pattern is off when every option that lets it happen is, and the device has it") {
  const FusionTarget cpu = published(
      {"bn_act", "bn_add_act", "act_bn_backward", "gemm_epilogue", "gemm_norm", "gemm_epilogue_gelu"});
  CHECK(Strategy{}.fusion(cpu).off.empty());
  CHECK(read("fuse_bn_act_ops = false").fusion(cpu).off == std::vector<std::string>{"bn_act"});
  CHECK(read("fuse_bn_act_ops = false\nfuse_bn_add_act_ops = false").fusion(cpu).off ==
        std::vector<std::string>{"bn_act", "bn_add_act", "act_bn_backward"});
  CHECK(read("fuse_bn_act_ops = false").fusion(published({"act_bn_backward", "bn_act_backward"})).off ==
        std::vector<std::string>{"bn_act_backward"});
  CHECK(read("fuse_gemm_epilogue = false\noff = [\"gemm_norm\"]").fusion(cpu).off ==
        std::vector<std::string>{"gemm_norm", "gemm_epilogue", "gemm_epilogue_gelu"});
  CHECK(preset("documents").fusion(published({})).off.empty());
}

TEST_CASE("strategy: gives passes what they take") {
  const passes::Options standard = Strategy{}.passes();
  CHECK(standard.prune);
  CHECK(standard.in_place);
  REQUIRE(standard.addto);
  CHECK(standard.addto->max_inplace_grad_add == 8);
  CHECK_FALSE(standard.amp);
  CHECK_FALSE(standard.pad);
  CHECK_FALSE(standard.layout);

  const passes::Options chosen =
      read(
          "enable_prune = false\nstop_gradient = [\"w\"]\namp = true\nlevel = \"O2\"\ndtype = \"f16\"\n"
          "custom_white_list = [\"exp\"]\ncustom_black_list = [\"fc1\"]\nenable_pad = true\nlayout = "
          "\"NHWC\"\n"
          "enable_addto = false\nenable_inplace = false\n")
          .passes();
  REQUIRE(chosen.prune);
  CHECK(chosen.prune->stop_gradient == std::vector<std::string>{"w"});
  REQUIRE(chosen.amp);
  CHECK(chosen.amp->level == passes::AmpLevel::O2);
  CHECK(chosen.amp->half == f16);
  CHECK(chosen.amp->white == std::vector<std::string>{"exp"});
  CHECK(chosen.amp->black == std::vector<std::string>{"fc1"});
  CHECK(chosen.pad);
  REQUIRE(chosen.layout);
  CHECK(chosen.layout->prefer == "nhwc");
  CHECK_FALSE(chosen.addto);
  CHECK_FALSE(chosen.in_place);
  CHECK_FALSE(read("layout = \"NCHW\"").passes().layout);
}

TEST_CASE("strategy: gives the overlap scheduler what it takes") {
  const OverlapOptions overlap =
      read(
          "[overlap]\nmode = \"documents\"\nfuse_all_reduce_ops = false\nfuse_grad_size_in_MB = 16\n"
          "fuse_grad_size_in_TFLOPS = 50\nnccl_comm_num = 2\nsync_nccl_allreduce = true\n"
          "use_hierarchical_allreduce = true\nhierarchical_allreduce_inter_nranks = 8\nfuse_broadcast_ops = "
          "false\nsharded = true\npartition_MB = 4\npriority = false\nreplan_drift = 0.25\n")
          .overlap();
  CHECK(overlap.mode == BucketRule::documents);
  CHECK_FALSE(overlap.fuse_all_reduce_ops);
  CHECK(overlap.fuse_grad_size_in_mb == 16);
  CHECK(overlap.fuse_grad_max_layers == 50);
  CHECK(overlap.nccl_comm_num == 2);
  CHECK(overlap.sync_nccl_allreduce);
  CHECK(overlap.use_hierarchical_allreduce);
  CHECK(overlap.hierarchical_allreduce_inter_nranks == 8);
  CHECK_FALSE(overlap.fuse_broadcast_ops);
  CHECK(overlap.sharded);
  CHECK(overlap.partition_mb == 4);
  CHECK_FALSE(overlap.priority);
  CHECK(overlap.replan_drift == 0.25);

  const OverlapOptions standard = Strategy{}.overlap(), own;
  CHECK(standard.fuse_grad_size_in_mb == own.fuse_grad_size_in_mb);
  CHECK(standard.nccl_comm_num == own.nccl_comm_num);
  CHECK(standard.replan_drift == own.replan_drift);
  CHECK(preset("documents").overlap().hierarchical_allreduce_inter_nranks == 0);
}

TEST_CASE("strategy: gives gradients' sync and the runtime what they take") {
  const SyncOptions sync =
      read("warm_up_steps = 1\nmeasure_every = 9\nuneven_batches = false\nclip_global_norm = true\n").sync();
  CHECK(sync.warm_up_steps == 1);
  CHECK(sync.measure_every == 9);
  CHECK_FALSE(sync.uneven_batches);
  CHECK(sync.clip_global_norm);
  CHECK_FALSE(sync.loss_scaling);
  CHECK_FALSE(read("amp = true").sync().loss_scaling);
  CHECK(read("amp = true\namp_dtype = \"f16\"").sync().loss_scaling);

  using Options = std::map<std::string, std::string>;
  CHECK(Strategy{}.runtime().empty());
  CHECK(preset("documents").runtime() == Options{{"cpu.search", "full"},
                                                 {"cpu.workspace_limit", "4194304000"},
                                                 {"cuda.search", "full"},
                                                 {"cuda.workspace_limit", "4194304000"}});
  CHECK(read("device_threads = 3").runtime() == Options{{"cpu.threads", "3"}});
  CHECK(read("fraction_of_gpu_memory_to_use = 0.7\ncudnn_exhaustive_search = false").runtime() ==
        Options{{"cpu.search", "off"}, {"cuda.search", "off"}, {"pool.reserve_fraction", "0.7"}});
}

TEST_CASE("strategy: every row of the table says what it needs to") {
  std::set<std::string_view> seen;
  for (const std::string_view name : strategy::all_names()) {
    CAPTURE(name);
    CHECK(seen.insert(name).second);
  }
  for (const strategy::Option& option : strategy::options()) {
    CAPTURE(option.name);
    using strategy::Reader;
    const bool tells = option.reader == Reader::pattern || option.reader == Reader::nobody ||
                       option.reader == Reader::fixed || option.reader == Reader::runtime;
    CHECK(option.detail.empty() != tells);
    if (option.reader == Reader::fixed) CHECK(option.detail.find(": ") != std::string_view::npos);
  }
}
