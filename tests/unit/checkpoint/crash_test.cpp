// SPDX-License-Identifier: Apache-2.0
// crash_test.cpp: whatever happens to a writer, at each of its calls, a path has the old checkpoint or the new one.
#include "system_calls.hpp"
#include "tensors.hpp"

#include "base/child.hpp"
#include "base/fd.hpp"
#include "base/file_stream.hpp"
#include "support/full.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

using namespace tenon;
using namespace tenon::test;
namespace fs = std::filesystem;

namespace {

using Calls = std::vector<uint64_t>;
using Names = std::vector<std::string>;

constexpr auto deadline = std::chrono::seconds(60);

// How many things a folder has.
auto count_in(const TempFolder& folder) { return std::distance(fs::directory_iterator(folder.path()), {}); }

// Writes `body` in a child that meets `fate` at its call `planned`; whether that ended it.
bool is_killed(uint64_t planned, Fate fate, const std::function<Status()>& body) {
  const auto end = base::run_forked(
      [&] {
        const Planned plan(planned, fate);
        base::answer(body().ok() ? "written" : "failed");
      },
      deadline);
  REQUIRE_MESSAGE(end.ok(), end.message());
  const bool killed = end->how == base::ChildEnd::How::signalled;
  if (killed) CHECK(end->code == SIGKILL);
  if (!killed) CHECK(end->answer == "written");
  return killed;
}

}  // namespace

TEST_CASE("checkpoint crash: the calls of a writer, in this order") {
  const TempFolder folder;
  const Tensors tensors = small();
  const Planned plan(0, Fate::passes);
  REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
  CHECK(plan.made() == Names{"open", "flock", "pwrite", "pwrite", "pwrite", "fsync", "rename", "fsync"});
}

TEST_CASE("checkpoint crash: killed before or within any call, it leaves the old checkpoint or the new one") {
  for (const Fate fate : {Fate::ends_process, Fate::ends_it_halfway}) {
    const Tensors old_ones = small(1), new_ones = small(2);
    uint64_t call = 1;
    for (bool killed = true, renamed = false; killed; ++call) {
      const TempFolder folder;
      const std::string path = folder / "x.safetensors";
      REQUIRE(Checkpoint::write(path, old_ones.all(), {{"step", "1"}}).ok());
      killed = is_killed(call, fate, [&] {
        return Checkpoint::write(path, new_ones.all(), {{"step", "2"}});
      });
      const auto read = Checkpoint::read(path);
      REQUIRE_MESSAGE(read.ok(), read.message());
      const bool is_new = read->notes().at("step") == "2";
      CHECK(holds(*read, is_new ? new_ones.all() : old_ones.all()));
      CHECK(is_new >= renamed);  // once the new one is there it stays
      renamed = is_new;
      REQUIRE(Checkpoint::write(path, small(3).all()).ok());
      CHECK(count_in(folder) == 1);  // what was left is gone
    }
    CHECK(call == 10);  // eight calls, and a run that met none
  }
}

TEST_CASE("checkpoint crash: the first write of a path leaves nothing that is read, or the new one") {
  const Tensors tensors = small();
  uint64_t call = 1;
  for (bool killed = true; killed; ++call) {
    const TempFolder folder;
    killed =
        is_killed(call, Fate::ends_process, [&] { return Checkpoint::write(folder / "x", tensors.all()); });
    const auto read = Checkpoint::read(folder / "x");
    CHECK((read.ok() ? holds(*read, tensors.all()) : read.code() == TN_NOT_FOUND));
  }
  CHECK(call == 10);
}

TEST_CASE("checkpoint crash: a call that fails is told with the path, and leaves the old checkpoint alone") {
  const Tensors old_ones = small(1), new_ones = small(2);
  const auto fails = [&](uint64_t call, int error) {
    const TempFolder folder;
    const std::string path = folder / "x.safetensors";
    REQUIRE(Checkpoint::write(path, old_ones.all()).ok());
    std::string told;
    {
      const Planned plan(call, Fate::fails, error);
      const Status written = Checkpoint::write(path, new_ones.all());
      CHECK(plan.was_met());
      CHECK_FALSE(written.ok());
      CHECK(written.error().native_code == error);
      CHECK(has(written.message(), folder.path()));
      told = written.message();
    }
    const auto read = Checkpoint::read(path);
    REQUIRE(read.ok());
    CHECK(holds(*read, call <= 7 ? old_ones.all() : new_ones.all()));
    CHECK(count_in(folder) == 1);
    return told;
  };
  CHECK(has(fails(1, EACCES), "Permission denied: let this user write to the folder"));
  for (const uint64_t call : Calls{3, 4, 5, 6})
    CHECK(has(fails(call, ENOSPC), "No space left on device: free space there, or write elsewhere"));
  CHECK(has(fails(4, EFBIG), "the limit on a file's size (ulimit -f)"));
  CHECK(has(fails(6, EIO), "cannot bring to the disk"));
  CHECK(has(fails(7, EROFS), "Read-only file system: let this user write to the folder"));
  CHECK(has(fails(8, EIO), "the disk is failing, write elsewhere"));
}

TEST_CASE("checkpoint crash: writes that are cut short or interrupted go on") {
  const Tensors tensors = small();
  for (const uint64_t call : Calls{3, 4, 5}) {
    const TempFolder folder;
    {
      const Planned plan(call, Fate::is_short);
      REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
      CHECK(plan.made().size() == 9);
    }
    CHECK(holds(Checkpoint::read(folder / "x"), tensors.all()));
  }
  for (const uint64_t call : Calls{3, 6, 8}) {
    const TempFolder folder;
    {
      const Planned plan(call, Fate::fails, EINTR);
      REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
    }
    CHECK(holds(Checkpoint::read(folder / "x"), tensors.all()));
  }
}

TEST_CASE("checkpoint crash: a part that is taken for left behind before it is locked is made once more") {
  const TempFolder folder;
  const Tensors tensors = small();
  {
    const Planned plan(2,
                       [&] { base::remove_partials(folder.path(), [](std::string_view) { return true; }); });
    REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
    CHECK(std::ranges::count(plan.made(), "open") == 2);
    CHECK(std::ranges::count(plan.made(), "unlink") == 1);
  }
  CHECK(holds(Checkpoint::read(folder / "x"), tensors.all()));
  CHECK(count_in(folder) == 1);
}

TEST_CASE("checkpoint crash: a part that somebody is about to remove as left behind is made once more") {
  const TempFolder folder;
  const Tensors tensors = small();
  base::Fd remover;  // it has the lock, and has not removed it yet
  std::string its;
  {
    const Planned plan(2, [&] {
      for (const auto& entry : fs::directory_iterator(folder.path())) its = entry.path().string();
      remover = base::Fd(open(its.c_str(), O_RDWR | O_CLOEXEC));
      REQUIRE((remover && flock(remover.get(), LOCK_EX | LOCK_NB) == 0));
    });
    REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
    CHECK(plan.was_met());
  }
  CHECK(fs::exists(its));  // nobody but who has its lock touches it
  CHECK(holds(Checkpoint::read(folder / "x"), tensors.all()));
}

TEST_CASE("checkpoint crash: where the file system has no locks writing goes on, and parts stay") {
  const TempFolder folder;
  const std::string left = folder.write("x.4711-0.partial", "left");
  {
    const Planned plan(1, Fate::fails, ENOLCK);  // of the part that was left
    REQUIRE(Checkpoint::write(folder / "x", small().all()).ok());
    CHECK(plan.made().front() == "flock");
  }
  CHECK(fs::exists(left));
  const Planned plan(4, Fate::fails, ENOLCK);  // of the writer's own
  REQUIRE(Checkpoint::write(folder / "x", small(1).all()).ok());
  CHECK(plan.made()[3] == "flock");
  CHECK(holds(Checkpoint::read(folder / "x"), small(1).all()));
}

TEST_CASE("checkpoint crash: a folder of checkpoints always has one to go on with") {
  for (const Fate fate : {Fate::ends_process, Fate::ends_it_halfway}) {
    uint64_t call = 1;
    for (bool killed = true; killed; ++call) {
      const TempFolder folder;
      auto run = *CheckpointFolder::open(folder.path(), 1);
      REQUIRE(run.write(1, small(1).all()).ok());
      killed = is_killed(call, fate, [&] { return run.write(2, small(2).all()); });
      const auto found = run.newest();
      REQUIRE_MESSAGE(found.ok(), found.message());
      CHECK(found->skipped.empty());
      CHECK(holds(found->checkpoint, small(static_cast<unsigned>(found->step)).all()));
      REQUIRE(run.write(3, small(3).all()).ok());
      CHECK(count_in(folder) == 1);
    }
    CHECK(call == 11);  // nine calls: the last one removes step 1
  }
}

TEST_CASE("checkpoint crash: writers of several names, and of one, do not disturb each other") {
  const TempFolder folder;
  const int rounds = full_or("rounds of each writer", 30, 1'000);
  const auto write = [&](const std::string& path, unsigned salt) -> Status {
    const Tensors tensors = small(salt);
    for (int round = 0; round < rounds; ++round) TN_TRY(Checkpoint::write(path, tensors.all()));
    return {};
  };
  std::vector<Status> ends(6);
  std::vector<std::thread> writers;
  for (unsigned i = 0; i < ends.size(); ++i)
    writers.emplace_back([&, i] { ends[i] = write(folder / (i < 4 ? std::to_string(i) : "shared"), i); });
  for (auto& writer : writers) writer.join();
  for (const Status& end : ends) CHECK_MESSAGE(end.ok(), end.message());
  for (unsigned i = 0; i < 4; ++i) CHECK(holds(Checkpoint::read(folder / std::to_string(i)), small(i).all()));
  const auto shared = Checkpoint::read(folder / "shared");
  REQUIRE(shared.ok());
  CHECK((holds(*shared, small(4).all()) || holds(*shared, small(5).all())));
  CHECK(count_in(folder) == 5);
}
