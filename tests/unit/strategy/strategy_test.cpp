// SPDX-License-Identifier: Apache-2.0
// Strategies from TOML and back: what is named is set, what is wrong is told with its place.
#include <tenon/strategy.hpp>

#include "fuzz/promises.hpp"
#include "fuzz/seeds.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

using namespace tenon;

namespace {

Strategy read(std::string_view text) {
  auto strategy = Strategy::parse(text);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  return std::move(strategy).take();
}

void refuses(std::string_view text, const char* words) {
  const auto strategy = Strategy::parse(text, "s.toml");
  REQUIRE_FALSE(strategy.ok());
  CHECK(strategy.code() == TN_INVALID);
  CHECK_MESSAGE(std::string(strategy.message()).find(words) != std::string::npos, strategy.message());
}

}  // namespace

TEST_CASE("strategy: nothing said is the defaults") {
  CHECK(read("").text() == Strategy{}.text());
  CHECK(read("[fusion]\n").fusion.elementwise);
}

TEST_CASE("strategy: every key sets its member, and the text of it reads back as the same") {
  const Strategy strategy = read(
      "[fusion]\nelementwise = false\npatterns = false\noptimizers = false\noff = [\"gemm_*\"]\n"
      "must_fuse = [[\"a\", \"b\"], [\"c\"]]\nnever_fuse = [\"d\\\"e\"]\nmax_nodes = 12\nmin_gain_us = "
      "1.5\n");
  CHECK_FALSE(strategy.fusion.elementwise);
  CHECK_FALSE(strategy.fusion.patterns);
  CHECK_FALSE(strategy.fusion.optimizers);
  CHECK(strategy.fusion.off == std::vector<std::string>{"gemm_*"});
  CHECK(strategy.fusion.must_fuse == std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}});
  CHECK(strategy.fusion.never_fuse == std::vector<std::string>{"d\"e"});
  CHECK(strategy.fusion.max_nodes == 12);
  CHECK(strategy.fusion.min_gain_ns == 1500);
  CHECK(read(strategy.text()).text() == strategy.text());
}

TEST_CASE("strategy: a time is written with all of its digits") {
  const Strategy strategy = read("[fusion]\nmin_gain_us = 1234567.875");
  CHECK(strategy.text().find("min_gain_us = 1234567.875\n") != std::string::npos);
}

TEST_CASE("strategy: every seed of its fuzzer keeps what is promised") {
  size_t strategies = 0;
  const std::vector<std::string> texts = test::seeds();
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(test::broken_strategy_promise(text) == "");
    strategies += Strategy::parse(text).ok() ? 1 : 0;
  }
  CHECK(strategies >= 2);
  CHECK(texts.size() > strategies);
}

TEST_CASE("strategy: the documents' names for communication set theirs, and read back as the same") {
  const Strategy strategy = read(
      "[overlap]\nmode = \"documents\"\nfuse_all_reduce_ops = false\nfuse_grad_size_in_MB = 16\n"
      "fuse_grad_size_in_TFLOPS = 50\nnccl_comm_num = 2\nsync_nccl_allreduce = true\n"
      "use_hierarchical_allreduce = true\nhierarchical_allreduce_inter_nranks = 8\nfuse_broadcast_ops = "
      "false\n"
      "sharded = true\npartition_MB = 4\npriority = false\nreplan_drift = 0.25\n");
  const OverlapOptions& overlap = strategy.overlap;
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
  CHECK(read(strategy.text()).text() == strategy.text());
}

TEST_CASE("strategy: a key under both of its names is refused, and so are modes and counts that are none") {
  refuses("[overlap]\nfuse_grad_max_layers = 1\nfuse_grad_size_in_TFLOPS = 1\n", "is another name of");
  refuses("[overlap]\nmode = \"ddq\"\n", "overlap.mode = 'ddq' is not a mode: one of automatic, documents");
  refuses("[overlap]\nmode = \"ddq\"\n", "(did you mean 'ddp'?)");
  refuses("[overlap]\nnccl_comm_num = -1\n", "overlap.nccl_comm_num = -1 is not a whole number from 0 on");
  refuses("[overlap]\nreplan_drift = 0\n", "overlap.replan_drift = 0 is not a positive number");
  refuses("[overlap]\nfuse_grad_size_in_KB = 1\n",
          "unknown key 'overlap.fuse_grad_size_in_KB' (did you mean 'fuse_grad_size_in_MB'?)");
}

TEST_CASE("strategy: a whole number is a time, too") {
  CHECK(read("[fusion]\nmin_gain_us = 2").fusion.min_gain_ns == 2000);
}

TEST_CASE("strategy: an unknown key is refused with the nearest") {
  refuses("[fusion]\nmust_fuze = []\n", "s.toml: unknown key 'fusion.must_fuze' (did you mean 'must_fuse'?)");
  refuses("[fushion]\n", "unknown key 'fushion' (did you mean 'fusion'?)");
}

TEST_CASE("strategy: a value of another kind is refused with what it must be") {
  refuses("fusion = 1\n", "fusion = 1 is not a table: write [fusion]");
  refuses("[fusion]\nelementwise = 1\n", "fusion.elementwise = 1 is not true or false");
  refuses("[fusion]\nmax_nodes = 0\n", "fusion.max_nodes = 0 is not a whole number from 1 on");
  refuses("[fusion]\nmin_gain_us = -1\n", "fusion.min_gain_us = -1 is not a time in microseconds");
  refuses("[fusion]\noff = \"x\"\n", "is not a list of names in double quotes");
  refuses("[fusion]\nmust_fuse = [\"a\"]\n", "is not a list of lists of names");
  refuses("[fusion\n", "s.toml");
}

TEST_CASE("strategy: is read from a file, which must be there") {
  const test::TempFolder folder;
  const std::string path = folder.write("s.toml", "[fusion]\nmax_nodes = 7\n");
  const auto strategy = Strategy::load(path);
  REQUIRE_MESSAGE(strategy.ok(), strategy.message());
  CHECK(strategy->fusion.max_nodes == 7);
  CHECK(Strategy::load(path + ".not").code() == TN_NOT_FOUND);
}
