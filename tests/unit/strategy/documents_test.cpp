// SPDX-License-Identifier: Apache-2.0
// The source documents' options: each name is read as it stands, the preset has their defaults, their strategy is shipped.
#include <tenon/strategy.hpp>

#include "read.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tenon;
using test::effective;
using test::preset;
using test::read;

namespace {

// Document 003, section 3.4, row by row, in the documents' names.
constexpr struct {
  const char *option, *value;
} defaults[] = {
    // DistributedStrategy
    {"auto", "false"},
    {"a_sync", "true"},
    {"sync_nccl_allreduce", "true"},
    {"nccl_comm_num", "1"},
    {"use_hierarchical_allreduce", "false"},
    {"hierarchical_allreduce_inter_nranks", "1"},
    {"sync_batch_norm", "false"},
    {"fuse_all_reduce_ops", "true"},
    {"fuse_grad_size_in_MB", "32"},
    {"fuse_grad_size_in_TFLOPS", "20"},
    {"cudnn_exhaustive_search", "true"},
    {"conv_workspace_size_limit", "4000"},
    {"cudnn_batchnorm_spatial_persistent", "true"},
    // BuildStrategy
    {"enable_sequential_execution", "false"},
    {"fuse_elewise_add_act_ops", "false"},
    {"fuse_bn_act_ops", "false"},
    {"fuse_relu_depthwise_conv", "false"},
    {"fuse_broadcast_ops", "false"},
    {"fuse_all_optimizer_ops", "false"},
    {"enable_inplace", "false"},
    {"enable_backward_optimizer_op_deps", "true"},
    {"cache_runtime_context", "false"},
    // ExecutionStrategy
    {"num_threads", "1"},
    {"num_iteration_per_drop_scope", "10"},
    {"num_iteration_per_run", "3"},
    {"use_thread_barrier", "false"},
};

// Names of the documents that the tables of section 3.4 do not have, each with a value and what it is called here.
constexpr struct {
  const char *name, *value, *option;
} others[] = {
    {"enable_auto_fusion", "false", "enable_auto_fusion"},
    {"fuse_bn_add_act_ops", "false", "fuse_bn_add_act_ops"},
    {"fused_bn_add_act_ops", "false", "fuse_bn_add_act_ops"},
    {"fuse_gemm_epilogue", "false", "fuse_gemm_epilogue"},
    {"enable_addto", "false", "enable_addto"},
    {"_fuse_grad_size_in_TFLOPS", "50", "fuse_grad_max_layers"},
    {"thread_num", "3", "num_threads"},
    {"amp", "true", "amp"},
    {"use_dynamic_loss_scaling", "false", "use_dynamic_loss_scaling"},
    {"init_loss_scaling", "128", "init_loss_scaling"},
    {"incr_every_n_steps", "500", "incr_every_n_steps"},
    {"decr_every_n_nan_or_inf", "3", "decr_every_n_nan_or_inf"},
    {"incr_ratio", "4", "incr_ratio"},
    {"decr_ratio", "0.25", "decr_ratio"},
    {"custom_white_list", "[\"exp\"]", "custom_white_list"},
    {"custom_black_list", "[\"exp\"]", "custom_black_list"},
    {"multi_precision", "false", "multi_precision"},
    {"stop_gradient", "[\"w\"]", "stop_gradient"},
    {"FLAGS_fuse_parameter_memory_size", "16", "fuse_grad_size_in_MB"},
    {"FLAGS_fuse_parameter_groups_size", "50", "fuse_grad_max_layers"},
    {"FLAGS_fraction_of_gpu_memory_to_use", "0.7", "fraction_of_gpu_memory_to_use"},
    {"FLAGS_conv_workspace_size_limit", "4000", "conv_workspace_size_limit"},
    {"FLAGS_cudnn_exhaustive_search", "true", "cudnn_exhaustive_search"},
    {"FLAGS_cudnn_batchnorm_spatial_persistent", "true", "cudnn_batchnorm_spatial_persistent"},
    {"FLAGS_max_inplace_grad_add", "4", "max_inplace_grad_add"},
};

std::string called_here(const std::string& name) {
  return name == "fuse_grad_size_in_TFLOPS" ? "fuse_grad_max_layers" : name;
}

Strategy shipped() {
  const std::string tree = std::getenv("TENON_TEST_SOURCE_DIR");
  auto strategy = Strategy::load(tree + "/samples/strategies/documents_resnet50.toml");
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  return std::move(strategy).take();
}

}  // namespace

TEST_CASE("documents: the preset has every default of document 003, section 3.4") {
  const Strategy strategy = preset("documents");
  for (const auto& row : defaults) {
    const Strategy::Effective found = effective(strategy, called_here(row.option));
    CAPTURE(row.option);
    CHECK(found.asked == row.value);
    CHECK(found.by == "preset documents");
  }
  CHECK(effective(strategy, "bucket_mode").asked == "\"documents\"");
}

TEST_CASE("documents: each name is read as it stands, in a file and by itself") {
  for (const auto& row : defaults) {
    const Strategy strategy = read(std::string(row.option) + " = " + row.value);
    CHECK(effective(strategy, called_here(row.option)).by == "s.toml");
  }
  for (const auto& row : others) {
    const Strategy strategy = read(std::string(row.name) + " = " + row.value);
    CAPTURE(row.name);
    CHECK(effective(strategy, row.option).by == "s.toml");
    CHECK(effective(strategy, row.option).asked == row.value);
    Strategy by_word;
    REQUIRE(by_word.set(row.name, row.value).ok());
    CHECK(by_word.text() == strategy.text());
  }
}

TEST_CASE("documents: the preset tenon is the defaults, and takes the other one back") {
  CHECK(preset("tenon").text() == Strategy{}.text());
  Strategy strategy = preset("documents");
  REQUIRE(strategy.read("preset = \"tenon\"\nnccl_comm_num = 5\n").ok());
  Strategy expected;
  expected.nccl_comm_num = 5;
  CHECK(strategy.text() == expected.text());
  CHECK(effective(strategy, "num_threads").by == "default");
  CHECK(Strategy::preset("paddle").code() == TN_NOT_FOUND);
}

TEST_CASE("documents: a preset in a file leaves what others have set, wherever it stands") {
  Strategy strategy;
  REQUIRE(strategy.set("nccl_comm_num", "3", "TENON_NCCL_COMM_NUM").ok());
  strategy.num_iteration_per_run = 7;
  REQUIRE(strategy.read("sync_nccl_allreduce = false\npreset = \"documents\"\n").ok());
  CHECK(strategy.nccl_comm_num == 3u);
  CHECK(strategy.num_iteration_per_run == 7);
  CHECK_FALSE(strategy.sync_nccl_allreduce);
  CHECK(strategy.num_threads == 1u);
}

TEST_CASE("documents: the shipped strategy is that of document 003, section 3.3.4") {
  const Strategy strategy = shipped();
  Strategy expected = preset("documents");
  expected.nccl_comm_num = 2;
  expected.amp = true;
  expected.enable_sequential_execution = true;
  expected.fuse_elewise_add_act_ops = true;
  expected.fuse_bn_act_ops = true;
  expected.enable_auto_fusion = true;
  expected.fuse_all_optimizer_ops = true;
  expected.num_threads = 3;
  expected.num_iteration_per_drop_scope = 100;
  expected.num_iteration_per_run = 1;
  expected.init_loss_scaling = 128;
  CHECK(strategy.text() == expected.text());
  CHECK(strategy.sync_nccl_allreduce);
  CHECK(strategy.fuse_all_reduce_ops);
  CHECK(strategy.decr_every_n_nan_or_inf == 2);
  CHECK(strategy.incr_every_n_steps == 1000);
  CHECK(strategy.incr_ratio == 2);
  CHECK(strategy.decr_ratio == 0.5);
  CHECK(strategy.use_dynamic_loss_scaling);
  CHECK(strategy.custom_white_list.empty());
  CHECK(strategy.custom_black_list.empty());
  CHECK(strategy.amp_dtype == f16);
}

TEST_CASE("documents: each line of the shipped strategy takes effect, or says why not") {
  size_t in_effect = 0, told = 0;
  for (const Strategy::Effective& row : shipped().effective()) {
    if (row.by.find("documents_resnet50.toml") == std::string::npos) continue;
    CAPTURE(row.option);
    CHECK((row.holds == row.asked) == row.reason.empty());
    (row.reason.empty() ? in_effect : told) += 1;
  }
  CHECK(in_effect + told == 20);
  CHECK(in_effect >= 10);
}
