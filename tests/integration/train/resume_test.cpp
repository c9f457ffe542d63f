// SPDX-License-Identifier: Apache-2.0
// A run that is killed at any moment goes on from its last checkpoint to the very bits that it would have had.
#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"
#include "support/full.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace train_test;
using tenon::test::TempFolder;

namespace {

constexpr int64_t rows = 8;
constexpr uint64_t steps = 60;

Result<Device> open_device() {
  Runtime runtime = TN_TRY(comm_test::runtime());
  return runtime.device("cpu");
}

Result<Executor> open(Device& device, bool mixed) {
  Strategy strategy;
  strategy.amp = mixed;
  strategy.amp_level = passes::AmpLevel::O2;
  strategy.amp_dtype = f16;
  strategy.init_loss_scaling = 64;
  strategy.incr_every_n_steps = 7;
  strategy.custom_white_list = {"mul"};
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::adam, .rate = 0.01};
  return Executor::open(TN_TRY(training_graph(network(rows), "loss", options)), device, strategy);
}

Status step(Executor& executor) {
  const Samples given = samples(rows, executor.steps());
  TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
  return {};
}

// One process of the run: goes on from the newest checkpoint, saves every few steps, and writes what it has at the end.
Status go_on(const std::string& folder_path, const std::string& end) {
  Device device = TN_TRY(open_device());
  Executor executor = TN_TRY(open(device, true));
  CheckpointFolder folder = TN_TRY(CheckpointFolder::open(folder_path, 2));
  auto last = folder.newest();
  if (!last.ok() && last.code() != TN_NOT_FOUND) return std::move(last).failure();
  if (last.ok())
    TN_TRY(executor.restore(last->checkpoint));
  else
    TN_TRY(begin(executor, 9));
  while (executor.steps() < steps) {
    TN_TRY(step(executor));
    if (executor.steps() % 3 == 0) TN_TRY(executor.save(folder));
  }
  return executor.save(end);
}

// Runs `go_on` in a process that is killed after so many milliseconds; -1: not. Whether it came to its end.
bool run_process(const std::string& folder, const std::string& end, int kill_after_ms) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const Status done = go_on(folder, end);
    if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    std::_Exit(done.ok() ? 0 : 1);
  }
  close(ends[1]);  // the child's alone now: it closes when the child ends
  pollfd child_ends{.fd = ends[0], .events = POLLIN, .revents = 0};
  if (poll(&child_ends, 1, kill_after_ms) == 0) kill(child, SIGKILL);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) REQUIRE(WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

std::string read(const std::string& path) {
  std::string out;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) out.push_back(static_cast<char>(c));
  std::fclose(file);
  return out;
}

}  // namespace

TEST_CASE("resume: killed at random moments, a run loses no checkpoint and ends with the same bits") {
  const TempFolder home;
  const std::string undisturbed = home.path() + "/undisturbed", disturbed = home.path() + "/disturbed";
  std::filesystem::create_directory(undisturbed);
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(run_process(undisturbed, home.path() + "/a.safetensors", -1));
  const auto whole =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  const int kills = tenon::test::full_or("kills", 8, 50);
  const std::string expected = read(home.path() + "/a.safetensors");
  std::mt19937_64 random(1);
  int killed = 0;
  uint64_t newest = 0;
  for (int tries = 0; killed < kills && tries < 20 * kills; ++tries) {
    const bool ended = run_process(disturbed, home.path() + "/c.safetensors",
                                   static_cast<int>(random() % static_cast<uint64_t>(1 + whole.count())));
    killed += !ended;
    auto folder = CheckpointFolder::open(disturbed);
    REQUIRE(folder.ok());
    auto found = folder->newest();
    if (found.ok()) {
      CHECK(found->skipped.empty());
      CHECK(found->step >= newest);
      newest = found->step;
    } else {
      CHECK(newest == 0);
    }
    if (ended) CHECK(read(home.path() + "/c.safetensors") == expected);
    if (ended || newest == steps) {  // once more from the start
      std::filesystem::remove_all(disturbed);
      newest = 0;
    }
  }
  CHECK(killed == kills);
  REQUIRE(run_process(disturbed, home.path() + "/b.safetensors", -1));
  CHECK(read(home.path() + "/b.safetensors") == expected);
}

TEST_CASE("resume: a checkpoint that does not fit is refused, and nothing has changed") {
  const TempFolder home;
  auto device = open_device();
  REQUIRE_MESSAGE(device.ok(), device.message());
  auto executor = open(*device, false);
  REQUIRE_MESSAGE(executor.ok(), executor.message());
  const std::string path = home.path() + "/one.safetensors";
  CHECK(std::string(executor->save(path).message()).find("has no value: call initialize") !=
        std::string::npos);
  REQUIRE(begin(*executor, 1).ok());
  CHECK(std::string(executor->save(path, {{"steps", "1"}}).message()).find("the executor's own") !=
        std::string::npos);
  REQUIRE(step(*executor).ok());
  REQUIRE(executor->save(path, {{"who", "a test"}}).ok());
  const auto whole = Checkpoint::read(path);
  REQUIRE_MESSAGE(whole.ok(), whole.message());
  CHECK(whole->notes().at("steps") == "1");
  CHECK(whole->notes().at("who") == "a test");

  const auto before = everything(*executor);
  std::vector<CheckpointTensor> tensors(whole->tensors().begin(), whole->tensors().end());
  tensors.pop_back();
  REQUIRE(Checkpoint::write(path, tensors).ok());
  const auto part = Checkpoint::read(path);
  REQUIRE(part.ok());
  REQUIRE(step(*executor).ok());
  CHECK(executor->restore(*part).code() == TN_NOT_FOUND);
  CHECK(executor->steps() == 2);
  REQUIRE(executor->restore(*whole).ok());
  CHECK(executor->steps() == 1);
  CHECK(*everything(*executor) == *before);
}
