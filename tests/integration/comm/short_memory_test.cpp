// SPDX-License-Identifier: Apache-2.0
// short_memory_test.cpp: ranks as processes where shared memory is short: told at creation, never as a signal.
//
// Invariant: the parent loads no plugin; each rank makes its own trouble, in a mount namespace or by a limit of its own.
#include "processes.hpp"
#include "support/skip.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

using namespace comm_test;

namespace {

// LLVM's OpenMP, which TSan needs, keeps a file in /dev/shm, and ends by SIGBUS where that is full.
constexpr bool openmp_writes_there =
#ifdef __has_feature
    __has_feature(thread_sanitizer);
#else
    false;
#endif

// Gives this process a /dev/shm of 16 KiB, and fills it.
bool fill_shared_memory() {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=16k") != 0)
    return false;
  std::ofstream file("/dev/shm/full", std::ios::binary);
  const std::string page(4096, 'x');
  while (file.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) continue;
  return true;
}

bool can_fill() {
  const auto children = start(1, [](uint32_t) {
    return fill_shared_memory() ? Status() : Status(TN_UNSUPPORTED, "no mount namespace");
  });
  return ended(children[0]) == 0;
}

}  // namespace

TEST_CASE("short memory: a full /dev/shm is no concern of ranks, whatever they share") {
  if (openmp_writes_there) TENON_SKIP("tsan", "the OpenMP of this build writes to /dev/shm itself");
  if (!can_fill()) TENON_SKIP("mountns", "no mount namespaces here; run as root");
  for (const char* const sharing : {"always", "with_peers", "never"}) {
    CAPTURE(sharing);
    const tenon::test::TempFolder folder;
    const auto children = start(3, [&](uint32_t rank) -> Status {
      if (!fill_shared_memory()) return Status(TN_INTERNAL, "no mount namespace");
      const Store store = TN_TRY(Store::in_folder(folder.path()));
      Rank r = TN_TRY(join_here(store, rank, 3, {}, sharing));
      return checked_sum(r, 700'000);
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("short memory: a segment that cannot grow is TN_NO_MEMORY at creation, and the others are let go") {
  const tenon::test::TempFolder folder;
  const auto children = start(2, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    const rlimit small{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return Status(TN_INTERNAL, "no limit");
    const auto begin = std::chrono::steady_clock::now();
    const auto joined = join_here(store, rank, 2, {.timeout = std::chrono::seconds(2)});
    std::printf("rank %u was told of short memory after %.3f s\n", rank,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const bool right = joined.code() == TN_NO_MEMORY &&
                       joined.message().find("bytes of shared memory") != std::string_view::npos;
    if (right) std::filesystem::create_directory(folder / "told");  // a directory has no size to be limited
    const bool let_go = joined.code() == TN_PEER_LOST || joined.code() == TN_TIMEOUT;
    return right || let_go
               ? Status()
               : Status(TN_INTERNAL, "got: " + std::string(joined.ok() ? "TN_OK" : joined.message()));
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(std::filesystem::exists(folder / "told"));
}

TEST_CASE(
    "short memory: a shared buffer behind the limit of file sizes is TN_NO_MEMORY, and smaller ones are "
    "made") {
  const auto children = start(1, [&](uint32_t) -> Status {
    Runtime tenon = TN_TRY(comm_test::runtime({{"cpu.share_memory", "always"}}));
    Device device = TN_TRY(tenon.device("cpu"));
    Stream stream = TN_TRY(device.stream());
    const rlimit small{4 << 20, 4 << 20};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return Status(TN_INTERNAL, "no limit");
    const auto refused = device.allocate(stream, 8 << 20);
    const bool right =
        refused.code() == TN_NO_MEMORY && refused.message().find("(ulimit -f)") != std::string_view::npos;
    if (!right) return Status(TN_INTERNAL, "got: " + std::string(refused.ok() ? "TN_OK" : refused.message()));
    TN_TRY(device.allocate(stream, 3 << 20));
    return {};
  });
  CHECK(ended(children[0]) == 0);
}
