// SPDX-License-Identifier: Apache-2.0
// processes_test.cpp: ranks as processes: shared and private buffers, and ranks that are killed or stopped.
//
// Ranks are forked before a plugin is loaded, because none survives a fork; a rank ends itself where its end is wanted.
// Invariant: the parent loads no plugin, and no child is left when a case ends.
#include "refused_calls.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"
#include "support/temp_folder.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <signal.h>
#include <sys/resource.h>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;

Status random_collectives(Rank& r, uint64_t seed, uint64_t rounds, uint64_t largest) {
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < rounds; ++i) TN_TRY(perform(r, r.comm, r.stream, draw(random, r.size, largest)));
  return {};
}

// LLVM's OpenMP, which TSan needs, keeps a file of its own there for each process.
size_t shared_files() {
  std::error_code none;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none))
    count += entry.path().filename().string().starts_with("__KMP_REGISTERED_LIB_") ? 0 : 1;
  return count;
}

// How many buffers, of this process and of others, are mapped here in a form that processes share.
size_t shared_buffers() {
  std::set<std::string> inodes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:tenon buffer") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, inode;
    words >> range >> rights >> offset >> device >> inode;
    inodes.insert(inode);
  }
  return inodes.size();
}

}  // namespace

TEST_CASE(
    "processes: buffers are read and written where they lie, in their owners' pages, unless that is switched "
    "off") {
  for (const char* sharing : {"with_peers", "always", "never"}) {
    const tenon::test::TempFolder folder;
    const auto children = start(3, [&](uint32_t rank) -> Status {
      const Store store = TN_TRY(Store::in_folder(folder.path()));
      Rank r = TN_TRY(join_here(store, rank, 3, {}, sharing));
      const Buffer data = TN_TRY(r.buffer(6 << 20));
      TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
      TN_TRY(r.stream.sync());
      const size_t expected = std::string(sharing) == "never" ? 0 : 3, found = shared_buffers();
      if (found == expected) return {};
      return Status(TN_INTERNAL, std::string("share_memory = ") + sharing + ": " + std::to_string(found) +
                                     " buffers are mapped, not " + std::to_string(expected));
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("processes: random collectives on shared, on private and on staged buffers are the reference's") {
  const uint64_t seed = tenon::test::seed();
  const auto rounds = tenon::test::full_or<uint64_t>("rounds", tenon::test::under_tsan ? 15 : 40, 1'000);
  for (const uint32_t size : {2u, 3u}) {
    for (const char* sharing : {"always", "never", "quick", "large", "staged"}) {
      const tenon::test::TempFolder folder;
      const auto children = start(size, [&](uint32_t rank) -> Status {
        const Store store = TN_TRY(Store::in_folder(folder.path()));
        Rank r = TN_TRY(join_here(store, rank, size, {}, sharing));
        TN_TRY(random_collectives(r, seed + size, rounds, 60'000));
        return checked_sum(r, 3'000'000);  // past one stage, and past a page of its own
      });
      for (const pid_t child : children) CHECK(ended(child) == 0);
    }
  }
}

TEST_CASE("processes: a rank without file descriptors is told so, and blames nobody") {
  const tenon::test::TempFolder folder;
  const auto children = start(2, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 2, {.timeout = std::chrono::seconds(20)}, "always"));
    const Buffer data = TN_TRY(r.buffer(4 << 20));
    TN_TRY(r.comm.barrier(r.stream));
    TN_TRY(r.stream.sync());
    const rlimit none{3, 3};
    if (rank == 1 && setrlimit(RLIMIT_NOFILE, &none) != 0) return Status(TN_INTERNAL, "no limit was set");
    Status told = r.comm.all_reduce(r.stream, data, data, f32);
    if (told.ok()) told = r.stream.sync();
    const std::string_view words = told.message();
    if (told.code() == TN_NO_MEMORY && words.find("no file descriptor is left") != words.npos &&
        words.find("raise the limit (ulimit -n)") != words.npos)
      return {};
    return Status(TN_INTERNAL, "expected TN_NO_MEMORY of the limit, got: " + std::string(words));
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("processes: where the kernel refuses one rank its part in fences, all pass their own") {
  NEEDS_REFUSED_CALLS();
  constexpr uint32_t size = 3;
  const uint64_t seed = tenon::test::seed();
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    if (rank == 1) (void)refuse_calls(SYS_membarrier, EPERM);
    keep_to_processors(2);
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, size, {}));
    return random_collectives(r, seed, tenon::test::under_tsan ? 50 : 200, 3'000);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("processes: messages reach shared, private and staged buffers, and swap in place") {
  for (const char* sharing : {"always", "never", "staged"}) {
    const tenon::test::TempFolder folder;
    const auto children = start(3, [&](uint32_t rank) -> Status {
      const Store store = TN_TRY(Store::in_folder(folder.path()));
      Rank r = TN_TRY(join_here(store, rank, 3, {}, sharing));
      const uint64_t count = 200'000;
      const Buffer from = TN_TRY(r.uploaded(brought(i64, 3, rank, count)))
      , to = TN_TRY(r.buffer(count * 8));
      TN_TRY(r.comm.submit(r.stream,
                           {CommOp::send(from, i64, (rank + 1) % 3), CommOp::recv(to, i64, (rank + 2) % 3)}));
      TN_TRY(r.expect(to, brought(i64, 3, (rank + 2) % 3, count), "a message"));
      return perform(r, r.comm, r.stream,
                     {.kind = TN_COMM_ALL_TO_ALL, .dtype = i64, .count = count, .in_place = true, .seed = 9});
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("processes: a killed rank is TN_PEER_LOST on all others at once, and they go on without it") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    const auto timeout = std::chrono::seconds(20);
    return meet_fault(TN_TRY(join_here(store, rank, 3, {.timeout = timeout})), SIGKILL, TN_PEER_LOST,
                      timeout);
  });
  const auto begin = Clock::now();
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[1]) == 0);
  CHECK(ended(children[2]) == -SIGKILL);
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 15);
}

TEST_CASE("processes: a killed rank that nobody reaped is found where the system lends no watches, too") {
  NEEDS_REFUSED_CALLS();
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    if (!refuse_calls(SYS_pidfd_open, EMFILE)) return Status(TN_INTERNAL, "no filter");
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    const auto timeout = std::chrono::seconds(20);
    return meet_fault(TN_TRY(join_here(store, rank, 3, {.timeout = timeout})), SIGKILL, TN_PEER_LOST,
                      timeout);
  });
  const auto begin = Clock::now();
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[1]) == 0);
  CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 15);
  CHECK(ended(children[2]) == -SIGKILL);
}

TEST_CASE("processes: a stopped rank is TN_TIMEOUT on all others, and they go on without it") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    const auto timeout = std::chrono::seconds(2);
    return meet_fault(TN_TRY(join_here(store, rank, 3, {.timeout = timeout})), SIGSTOP, TN_TIMEOUT, timeout);
  });
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[1]) == 0);
  kill(children[2], SIGKILL);
  CHECK(ended(children[2]) == -SIGKILL);
}

TEST_CASE("processes: nothing is left in /dev/shm when all ranks are killed in a collective") {
  const size_t before = shared_files();
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 3, {}, "always"));
    const Buffer data = TN_TRY(r.buffer(8 << 20));
    for (int i = 0; i < 3; ++i) TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    TN_TRY(r.stream.sync());
    TN_TRY(r.comm.all_reduce(r.stream, data, data, f32));
    raise(SIGKILL);
    return {};
  });
  for (const pid_t child : children) CHECK(ended(child) == -SIGKILL);
  CHECK(shared_files() == before);
}

TEST_CASE("processes: more ranks than processors take turns") {
  const tenon::test::TempFolder folder;
  constexpr uint32_t size = 7;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    keep_to_processors(2);
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, size, {}));
    for (int i = 0; i < 100; ++i) TN_TRY(r.comm.barrier(r.stream));
    return random_collectives(r, 11, 10, 9'000);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("processes: rows, then columns, and both once more, are communicators of their own") {
  const tenon::test::TempFolder folder;
  constexpr uint32_t size = 4;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, size, {.timeout = std::chrono::seconds(20)}));
    std::vector<Communicator> kept;  // so that each is one among several
    for (const uint32_t color : {rank % 2, rank / 2, rank % 2, rank / 2}) {
      kept.push_back(TN_TRY(r.comm.split(static_cast<int32_t>(color), 0)));
      Rank part = r;
      part.rank = kept.back().rank(), part.size = 2;
      TN_TRY(perform(part, kept.back(), r.stream, {.dtype = i32, .count = 5'000, .seed = color}));
    }
    // Parts of parts that are called the same.
    for (Communicator& part : kept) {
      Communicator alone = TN_TRY(part.split(0, -static_cast<int32_t>(part.rank())));
      TN_TRY(alone.barrier(r.stream));
    }
    std::set<std::string> names;
    for (const Communicator& part : kept) names.insert(part.name());
    if (names.size() != kept.size()) return Status(TN_INTERNAL, "two parts have one name");
    return checked_sum(r, 1'000);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("processes: who does not come to a split is named, with the remedy") {
  const tenon::test::TempFolder folder;
  const auto children = start(4, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 4, {.timeout = std::chrono::seconds(1)}));
    if (rank % 2 == 1) return {};
    const auto part = r.comm.split(0, 0);
    const bool named =
        part.code() == TN_TIMEOUT &&
        part.message().find("communicator 'world': ranks 1, 3 did not come to its split") == 0 &&
        part.message().find("all ranks call it") != std::string_view::npos;
    return named ? Status() : Status(TN_INTERNAL, "got: " + std::string(part.message()));
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}
