// SPDX-License-Identifier: Apache-2.0
// shrink_test.cpp: ranks die one after the other, and those who are left number themselves anew each time, by one name.
//
// Invariant: who is left always meets, whichever number it has now and had before.
#include "processes.hpp"
#include "support/temp_folder.hpp"

using namespace comm_test;

namespace {

using Ranks = std::vector<uint32_t>;
constexpr uint32_t size = 4;

Result<Rank> without(const Rank& r, uint32_t gone, const CommOptions& options) {
  return join(r.device, r.store, r.rank < gone ? r.rank : r.rank - 1, r.size - 1, options);
}

// `victims` by the numbers that they have when they end.
Status shrink(uint32_t rank, const std::string& folder, const Ranks& victims, const CommOptions& options) {
  Rank r = TN_TRY(join_here(TN_TRY(Store::in_folder(folder)), rank, size, {}));
  for (const uint32_t victim : victims) {
    TN_TRY(checked_sum(r, 1'000));
    if (r.rank == victim) raise(SIGKILL);
    const Status lost = sum(r, 1'000);
    if (lost.code() != TN_PEER_LOST) return Status(TN_INTERNAL, "not lost: " + std::string(lost.message()));
    r = TN_TRY(without(r, victim, options));
  }
  return checked_sum(r, 1'000);
}

void check_ended(const std::vector<pid_t>& children, size_t killed) {
  size_t well = 0, dead = 0;
  for (const pid_t child : children) {
    const int how = ended(child);
    well += how == 0;
    dead += how == -SIGKILL;
  }
  CHECK(dead == killed);
  CHECK(well == children.size() - killed);
}

}  // namespace

TEST_CASE("shrink: survivors of survivors meet by the same name, whoever died, numbered anew") {
  for (const Ranks& victims : {Ranks{1, 0}, Ranks{0, 0}, Ranks{1, 1}, Ranks{3, 0}}) {
    for (const char* name : {"survivors", "world"}) {
      CAPTURE(victims.front());
      CAPTURE(victims.back());
      CAPTURE(name);
      const tenon::test::TempFolder folder;
      const auto children = start(size, [&](uint32_t rank) {
        return shrink(rank, folder.path(), victims, {.name = name, .timeout = std::chrono::seconds(10)});
      });
      check_ended(children, victims.size());
    }
  }
}

TEST_CASE(
    "shrink: a rank that ends before it comes is named, and the others meet by the same name without it") {
  const tenon::test::TempFolder folder;
  const auto children = start(size, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join_here(TN_TRY(Store::in_folder(folder.path())), rank, size, {}));
    if (rank == 1) raise(SIGKILL);
    if (sum(r, 1'000).ok()) return Status(TN_INTERNAL, "rank 1 is not lost");
    const CommOptions options{.name = "survivors", .timeout = std::chrono::seconds(1)};
    if (rank == 0) raise(SIGKILL);
    r.rank -= 1;  // of those who are left there: 1 and 2, as if rank 0 came, too
    r.size -= 1;
    const auto alone = join(r.device, r.store, r.rank, r.size, options);
    if (alone.code() != TN_TIMEOUT || alone.message().find("rank 0") == std::string_view::npos)
      return Status(TN_INTERNAL, "rank 0 is not missed: " + std::string(alone.message()));
    Rank again = TN_TRY(without(r, 0, {.name = "survivors", .timeout = std::chrono::seconds(10)}));
    return checked_sum(again, 1'000);
  });
  check_ended(children, 2);
}

TEST_CASE("shrink: a group grows by a rank that never was in one of its name") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    Rank r = TN_TRY(join_here(TN_TRY(Store::in_folder(folder.path())), rank, 3, {}));
    const CommOptions options{.name = "some", .timeout = std::chrono::seconds(10)};
    if (rank < 2) TN_TRY(join(r.device, r.store, rank, 2, options));
    TN_TRY(checked_sum(r, 1'000));
    Rank all = TN_TRY(join(r.device, r.store, rank, 3, options));
    return checked_sum(all, 1'000);
  });
  check_ended(children, 0);
}

TEST_CASE("shrink: one process too many is told who had its number, when its time is over") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    const Store store = TN_TRY(Store::in_folder(folder.path()));
    Store words = store;
    if (rank == 2) TN_TRY(words.get("stands"));
    const auto made = join_here(store, rank % 2, 2, {.timeout = std::chrono::seconds(rank == 2 ? 1 : 20)});
    if (rank == 0) TN_TRY(words.set("stands", ""));
    if (rank != 2) return made.ok() ? Status() : Status(made.error());
    const bool told =
        made.code() == TN_TIMEOUT &&
        made.message().find("; rank 0 of the one of that name before is process ") != std::string_view::npos;
    return told ? Status() : Status(TN_INTERNAL, "got: " + std::string(made.message()));
  });
  check_ended(children, 0);
}
