// SPDX-License-Identifier: Apache-2.0
// folder_test.cpp: which checkpoints of a run are kept, and which is taken to go on.
#include "tensors.hpp"

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace tenon;
using namespace tenon::test;
namespace fs = std::filesystem;

namespace {

using Steps = std::vector<uint64_t>;

Status write(CheckpointFolder& folder, uint64_t step) {
  return folder.write(step, small(static_cast<unsigned>(step)).all(), {{"step", std::to_string(step)}});
}

// One bit of its last tensor.
void damage(const std::string& path) {
  std::string bytes = file_bytes(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("checkpoint folder: it is made, is empty, and says so") {
  const TempFolder folder;
  auto run = CheckpointFolder::open(folder / "a/b", 2);
  REQUIRE(run.ok());
  CHECK(fs::is_directory(folder / "a/b"));
  CHECK(run->steps()->empty());
  const auto found = run->newest();
  CHECK(found.code() == TN_NOT_FOUND);
  CHECK(found.message() == "there is no checkpoint in " + folder / "a/b" + " yet");
}

TEST_CASE("checkpoint folder: no folder can be where a file is, and none keeps nothing") {
  const TempFolder folder;
  folder.write("plain", "");
  CHECK(has(CheckpointFolder::open(folder / "plain", 1).message(), folder / "plain"));
  const auto none = CheckpointFolder::open(folder.path(), 0);
  CHECK(none.code() == TN_INVALID);
  CHECK(has(none.message(), "keep is 0, and at least 1 checkpoint is kept"));
}

TEST_CASE("checkpoint folder: the newest are kept, by number, and nothing else is touched") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 2);
  for (const char* other :
       {"notes.txt", "step-7.safetensors", "step-0000007.safetensors", "step-000007.safetensors.bak",
        "step-00000x.safetensors", "step-99999999999999999999.safetensors"})
    folder.write(other, "");
  for (const uint64_t step : Steps{8, 9, 10, 999'999, 1'000'000}) REQUIRE(write(run, step).ok());
  CHECK(*run.steps() == Steps{999'999, 1'000'000});
  CHECK(run.path_of(8) == folder / "step-000008.safetensors");
  CHECK(fs::exists(folder / "step-999999.safetensors"));
  CHECK(fs::exists(folder / "step-1000000.safetensors"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2 + 6);
  const auto found = run.newest();
  REQUIRE(found.ok());
  CHECK(found->step == 1'000'000);
  CHECK(found->path == folder / "step-1000000.safetensors");
  CHECK(found->checkpoint.notes().at("step") == "1000000");
  CHECK(found->skipped.empty());
}

TEST_CASE("checkpoint folder: broken ones are skipped with their reasons") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 4);
  for (const uint64_t step : Steps{1, 2, 3, 4}) REQUIRE(write(run, step).ok());
  damage(run.path_of(4));
  fs::resize_file(run.path_of(3), 100);
  const auto found = run.newest();
  REQUIRE(found.ok());
  CHECK(found->step == 2);
  CHECK(holds(found->checkpoint, small(2).all()));
  REQUIRE(found->skipped.size() == 2);
  CHECK(has(found->skipped[0], run.path_of(4) + ": the bytes of tensor 'fc.w'"));
  CHECK(has(found->skipped[1], run.path_of(3) + ": its header ends at byte"));
}

TEST_CASE("checkpoint folder: when none reads whole that is no fresh start") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 4);
  for (const uint64_t step : Steps{1, 2}) REQUIRE(write(run, step).ok());
  for (const uint64_t step : Steps{1, 2}) damage(run.path_of(step));
  const auto found = run.newest();
  CHECK(found.code() == TN_INVALID);
  CHECK(has(found.message(),
            "none of the 2 checkpoints in " + folder.path() + " reads whole: " + run.path_of(2)));
  CHECK(has(found.message(), "; " + run.path_of(1)));
  CHECK(*run.steps() == Steps{1, 2});
}

TEST_CASE("checkpoint folder: broken ones do not count, so the good ones are kept") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 2);
  for (const uint64_t step : Steps{4, 5, 6}) REQUIRE(write(run, step).ok());
  damage(run.path_of(6));
  CHECK(run.newest()->step == 5);
  REQUIRE(write(run, 7).ok());  // the run went on from 5
  CHECK(*run.steps() == Steps{5, 6, 7});
  REQUIRE(write(run, 8).ok());
  CHECK(*run.steps() == Steps{7, 8});
}

TEST_CASE("checkpoint folder: the one just written stays, whatever stands beside it") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 1);
  for (const uint64_t step : Steps{1, 2}) REQUIRE(write(run, step).ok());
  damage(run.path_of(2));
  auto resumed = *CheckpointFolder::open(folder.path(), 1);
  REQUIRE(write(resumed, 1).ok());
  CHECK(*resumed.steps() == Steps{1});
  CHECK(holds(resumed.newest()->checkpoint, small(1).all()));
}

TEST_CASE("checkpoint folder: a step that was broken and is written anew counts again") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 2);
  for (const uint64_t step : Steps{1, 2}) REQUIRE(write(run, step).ok());
  damage(run.path_of(2));
  CHECK(run.newest()->step == 1);
  REQUIRE(write(run, 2).ok());
  CHECK(run.newest()->step == 2);
  REQUIRE(write(run, 3).ok());
  CHECK(*run.steps() == Steps{2, 3});
}

TEST_CASE("checkpoint folder: what cannot be written removes nothing") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 1);
  REQUIRE(write(run, 1).ok());
  CHECK(run.write(2, {CheckpointTensor{"w", {f32, {2}}, {}}}).code() == TN_INVALID);
  CHECK(*run.steps() == Steps{1});
}

TEST_CASE("checkpoint folder: what cannot be removed is told, and the new one is there") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 1);
  REQUIRE(fs::create_directories(run.path_of(1) + "/inside"));
  const Status written = write(run, 2);
  CHECK_FALSE(written.ok());
  CHECK(has(written.message(), run.path_of(2) + " is written, but cannot remove " + run.path_of(1)));
  CHECK(run.newest()->step == 2);
}

TEST_CASE(
    "checkpoint folder: what a killed writer left of any step is removed, another program's files are not") {
  const TempFolder folder;
  auto run = *CheckpointFolder::open(folder.path(), 3);
  folder.write("step-000001.safetensors.4000000000-1.partial", "left");
  folder.write("step-000002.safetensors.partial", "not ours");
  folder.write("model.safetensors.4000000000-1.partial", "of another name");
  REQUIRE(write(run, 5).ok());
  CHECK_FALSE(fs::exists(folder / "step-000001.safetensors.4000000000-1.partial"));
  CHECK(fs::exists(folder / "step-000002.safetensors.partial"));
  CHECK(fs::exists(folder / "model.safetensors.4000000000-1.partial"));
}
