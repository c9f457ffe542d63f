// SPDX-License-Identifier: Apache-2.0
// Strategies from TOML and back: what is named is set, what is wrong is told with its place.
#include <tenon/strategy.hpp>

#include "fuzz/promises.hpp"
#include "fuzz/seeds.hpp"
#include "read.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

using namespace tenon;
using test::read;
using test::refuses;

TEST_CASE("strategy: nothing said is the defaults") {
  CHECK(read("").text() == Strategy{}.text());
  CHECK(read("[fusion]\n").enable_auto_fusion);
}

TEST_CASE("strategy: every key of fusion sets its member, and the text of it reads back as the same") {
  const Strategy strategy = read(
      "[fusion]\nelementwise = false\npatterns = false\noptimizers = false\noff = [\"gemm_*\"]\n"
      "must_fuse = [[\"a\", \"b\"], [\"c*\"]]\nnever_fuse = [\"d\\\"e\"]\nmax_nodes = 12\nmin_gain_us = "
      "1.5\n");
  const FusionOptions fusion = strategy.fusion({});
  CHECK_FALSE(fusion.elementwise);
  CHECK_FALSE(fusion.patterns);
  CHECK_FALSE(fusion.optimizers);
  CHECK(fusion.off == std::vector<std::string>{"gemm_*"});
  CHECK(fusion.must_fuse == std::vector<std::vector<std::string>>{{"a", "b"}, {"c*"}});
  CHECK(fusion.never_fuse == std::vector<std::string>{"d\"e"});
  CHECK(fusion.max_nodes == 12);
  CHECK(fusion.min_gain_ns == 1500);
  CHECK(read(strategy.text()).text() == strategy.text());
}

TEST_CASE("strategy: a number is written with all of its digits, and a name with what it is made of") {
  const Strategy strategy =
      read("[fusion]\nmin_gain_us = 1234567.875\nnever_fuse = [\"a\\u007f\\u0001\\\\b\"]");
  CHECK(strategy.text().find("fusion_min_gain_us       = 1234567.875\n") != std::string::npos);
  CHECK(read(strategy.text()).never_fuse == strategy.never_fuse);
  CHECK(read("init_loss_scaling = 73650004136610864.0").text().find("= 73650004136610864.0\n") !=
        std::string::npos);
}

TEST_CASE("strategy: every seed of its fuzzer keeps what is promised") {
  size_t strategies = 0;
  const std::vector<std::string> texts = test::seeds();
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(test::broken_strategy_promise(text) == "");
    strategies += Strategy::parse(text).ok() ? 1 : 0;
  }
  CHECK(strategies >= 3);
  CHECK(texts.size() > strategies);
}

TEST_CASE("strategy: an option stands under any heading, or none") {
  CHECK(read("nccl_comm_num = 2").nccl_comm_num == 2u);
  CHECK(read("build_strategy.nccl_comm_num = 2").nccl_comm_num == 2u);
  // As document 003, section 3.2.9, has it, where it belongs elsewhere.
  CHECK(read("[DistributedStrategy.BuildStrategy]\nnum_iteration_per_drop_scope = 30")
            .num_iteration_per_drop_scope == 30);
}

TEST_CASE("strategy: a key that is given twice, under any names, is refused") {
  refuses("[overlap]\nfuse_grad_max_layers = 1\nfuse_grad_size_in_TFLOPS = 1\n",
          "overlap.fuse_grad_size_in_TFLOPS and overlap.fuse_grad_max_layers are both fuse_grad_max_layers");
  refuses("amp = true\n[amp_configs]\namp = true\n", "write one of them");
}

TEST_CASE("strategy: modes and numbers that are none are refused") {
  refuses("[overlap]\nmode = \"ddq\"\n", "overlap.mode = 'ddq' is not a mode: one of automatic, documents");
  refuses("[overlap]\nmode = \"ddq\"\n", "(did you mean 'ddp'?)");
  refuses("[overlap]\nnccl_comm_num = -1\n",
          "overlap.nccl_comm_num = -1 is not \"auto\" or a whole number from 1 on");
  refuses("[overlap]\nnccl_comm_num = 4294967296\n", "is not \"auto\" or a whole number");
  refuses("[overlap]\nreplan_drift = 0\n", "overlap.replan_drift = 0 is not a number above 0");
  refuses("[runtime]\nfraction_of_gpu_memory_to_use = 1.5\n", "is not a number above 0 and at most 1");
  refuses("num_threads = 4097\n", "a whole number from 1 to 4096");
  refuses("decr_ratio = nan\n", "decr_ratio = nan is not a number");
  refuses("amp_level = \"O3\"\n", "is not \"O1\" or \"O2\"");
  refuses("amp_dtype = \"f32\"\n", "is not \"bf16\" or \"f16\"");
  refuses("layout = \"\"\n", "is not a name in double quotes");
  refuses("enable_pad = 1\n", "is not \"auto\" or true or false");
}

TEST_CASE("strategy: an unknown key is refused with the nearest") {
  refuses("[fusion]\nmust_fuze = []\n", "s.toml: unknown key 'fusion.must_fuze' (did you mean 'must_fuse'?)");
  refuses("[overlap]\nfuse_grad_size_in_KB = 1\n",
          "unknown key 'overlap.fuse_grad_size_in_KB' (did you mean 'fuse_grad_size_in_MB'?)");
  refuses("[fushion]\n", "unknown key 'fushion' (did you mean 'fusion'?)");
  refuses("[build_strategi]\n", "unknown key 'build_strategi' (did you mean 'build_strategy'?)");
  refuses("fuse_bn_act_op = true\n", "unknown key 'fuse_bn_act_op' (did you mean 'fuse_bn_act_ops'?)");
  refuses("preset = \"document\"\n",
          "s.toml: preset = 'document': no preset is called 'document' (did you mean 'documents'?)");
  refuses("preset = 1\n", "s.toml: preset = 1");
}

TEST_CASE("strategy: a value of another kind is refused with what it must be") {
  refuses("fusion = 1\n", "fusion = 1 is not a table: write [fusion]");
  refuses("[fusion]\nelementwise = 1\n", "fusion.elementwise = 1 is not true or false");
  refuses("[fusion]\nmax_nodes = 0\n", "fusion.max_nodes = 0 is not a whole number from 1 on");
  refuses("[fusion]\nmin_gain_us = -1\n", "fusion.min_gain_us = -1 is not a number from 0");
  refuses("[fusion]\noff = \"x\"\n", "is not a list of names in double quotes");
  refuses("[fusion]\noff = [\"\"]\n", "is not a list of names in double quotes");
  refuses("[fusion]\nmust_fuse = [\"a\"]\n", "is not a list of lists of names");
  for (const std::string list : {"[]", "[\"a\"]", "[\"a\", \"a\"]"})
    refuses("[fusion]\nmust_fuse = [[\"a\", \"b\"], " + list + "]\n",
            "is not a list of lists of names, two or more in each or one with a *: [[\"a\", \"b\"]]");
  refuses("amp.level = \"O1\"\n", "amp = ");
  refuses("[fusion\n", "s.toml");
}

TEST_CASE("strategy: a whole number is a number, too") {
  CHECK(read("[fusion]\nmin_gain_us = 2").fusion({}).min_gain_ns == 2000);
}

TEST_CASE("strategy: what is refused changes nothing") {
  Strategy strategy = read("nccl_comm_num = 2");
  const std::string before = strategy.explain();
  CHECK(strategy.read("nccl_comm_num = 3\namp = 7\n").code() == TN_INVALID);
  CHECK(strategy.set("nccl_comm_num", "-3").code() == TN_INVALID);
  CHECK(strategy.explain() == before);
}

TEST_CASE("strategy: is read from a file, which must be there, and saved to one") {
  const test::TempFolder folder;
  const std::string path = folder.write("s.toml", "[fusion]\nmax_nodes = 7\n");
  auto strategy = Strategy::load(path);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  CHECK(strategy->fusion_max_nodes == 7);
  CHECK(test::effective(*strategy, "fusion_max_nodes").by == path);
  CHECK(Strategy::load(path + ".not").code() == TN_NOT_FOUND);

  REQUIRE(strategy->save(folder / "t.toml").ok());
  const auto again = Strategy::load(folder / "t.toml");
  REQUIRE_MESSAGE(again.ok(), again.message());
  CHECK(again->text() == strategy->text());
}

TEST_CASE("strategy: what code has set out of range is neither saved nor well") {
  const test::TempFolder folder;
  Strategy strategy;
  CHECK(strategy.check().ok());
  strategy.decr_ratio = 2;
  CHECK(std::string(strategy.check().message()).find("decr_ratio is '2', not a number above 0") == 0);
  CHECK(strategy.save(folder / "s.toml").code() == TN_INVALID);
  CHECK(Strategy::load(folder / "s.toml").code() == TN_NOT_FOUND);
}
