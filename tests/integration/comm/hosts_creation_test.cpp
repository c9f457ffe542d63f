// SPDX-License-Identifier: Apache-2.0
// hosts_creation_test.cpp: creations between hosts that fail, or are given up, after a rank said how it is reached and before it
// is connected.
//
// Who asks for the address of rank 0 has said its own. Of two networks that of side 0 listens, as Gloo has it: the lower address.
// Invariant: the parent loads no plugin, and no child is left when a case ends.
#include "by_table.hpp"
#include "on_hosts.hpp"
#include "support/networks.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>

#include <signal.h>

using namespace comm_test;

namespace {

using Clock = std::chrono::steady_clock;
using tenon::test::Networks;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Status got(const Status& outcome) {
  return Status(TN_INTERNAL, "got: " + std::string(outcome.ok() ? "TN_OK" : outcome.message()));
}

bool tells(const Status& outcome, const char* part) {
  return outcome.message().find(part) != std::string_view::npos;
}

bool asks_for_address(std::string_view key) { return key.ends_with("address/0"); }

// Rank `rank` of two hosts, on its side of the wire where there is one.
Result<Device> open_on(uint32_t rank, const Networks* networks) {
  static Runtime* const tenon = new Runtime;  // for the life of the process
  std::map<std::string, std::string> options;
  if (networks != nullptr) {
    TN_TRY(networks->enter(rank));
    options["cpu.interface"] = Networks::address(rank);
  }
  *tenon = TN_TRY(runtime_on(rank == 0 ? 'a' : 'b', options));
  return tenon->device("cpu");
}

// Rank 1 does `what` to itself or the wire; rank 0 must be told of it within little more than its timeout of 2 s.
void check_told(const Networks* networks, const std::function<void()>& what, bool both_are_told) {
  const tenon::test::TempFolder folder;
  const auto children = start(2, [&](uint32_t rank) -> Status {
    Store store = TN_TRY(Store::in_folder(folder.path()));
    const Device device = TN_TRY(open_on(rank, networks));
    const OverheardStore overheard(store, [&](std::string_view key) {
      if (rank == 1 && asks_for_address(key)) what();
    });
    const std::string id = TN_TRY(id_by_table(device, store, rank));
    const auto begin = Clock::now();
    const Status told = create_by_table(device, id, rank, 2, std::chrono::seconds(2), overheard.table());
    const double seconds = since(begin);
    std::printf("rank %u was told after %.2f s: %s\n", rank, seconds, std::string(told.message()).c_str());
    const bool named = tells(told, rank == 0 ? "rank 1 (" : "rank 0 (");
    if ((told.code() != TN_TIMEOUT && told.code() != TN_PEER_LOST) || !named) return got(told);
    return seconds < 4 ? Status() : Status(TN_INTERNAL, "told too late");
  });
  CHECK(ended(children[0]) == 0);
  if (!both_are_told) kill(children[1], SIGKILL);
  CHECK(ended(children[1]) == (both_are_told ? 0 : -SIGKILL));
}

}  // namespace

TEST_CASE(
    "hosts: a rank that ends or stops before it is connected costs the others no more than the timeout") {
  NEEDS_HOSTS();
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    for (int round = 0; round < 2; ++round)
      check_told(
          nullptr, [&] { raise(signal); }, false);
  }
}

TEST_CASE("hosts: on a wire, too, where the rank that waits is the one that listens") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    check_told(
        &networks, [&] { raise(signal); }, false);
  }
  check_told(
      &networks, [&] { (void)networks.cut(); }, true);
}

TEST_CASE("hosts: a creation that waits for a connection is given up at once") {
  NEEDS_HOSTS();
  const Networks networks;
  if (!networks) TENON_SKIP("netns", "no network namespaces here; run as root where `ip netns` works");
  for (const bool destroys : {false, true}) {
    CAPTURE(destroys);
    const tenon::test::TempFolder folder;
    const auto children = start(2, [&](uint32_t rank) -> Status {
      Store store = TN_TRY(Store::in_folder(folder.path()));
      const Device device = TN_TRY(open_on(rank, &networks));
      std::atomic<bool> read{false};
      const OverheardStore overheard(store, [&](std::string_view key) {
        if (rank == 1 && asks_for_address(key)) raise(SIGSTOP);
        if (rank == 0 && key.ends_with("address/1")) read.store(true);
      });
      const std::string id = TN_TRY(id_by_table(device, store, rank));
      tn_comm* comm = nullptr;
      TN_TRY(create_by_table(device, id, rank, 2, std::chrono::seconds(20), overheard.table(),
                             rank == 0 ? TN_COMM_NON_BLOCKING : 0, &comm));
      while (!read.load()) std::this_thread::yield();
      TN_TRY(store.get("stopped", std::chrono::seconds(60)));
      const tn_comm_api& api = *device.plugin().comm;
      const auto begin = Clock::now();
      tn_error error = no_error();
      Status told(TN_ABORTED, {});
      if (!destroys) {
        TN_TRY(status_of(api.abort(comm, &error), error));
        while ((told = status_of(api.health(comm, &error), error)).code() == TN_BUSY)
          std::this_thread::yield();
      }
      TN_TRY(status_of(api.destroy(comm, 0, &error), error));
      const double seconds = since(begin);
      std::printf("given up after %.3f s\n", seconds);
      if (told.code() != TN_ABORTED) return got(told);
      return seconds < 3 ? Status() : Status(TN_INTERNAL, "given up too late");
    });
    int status = 0;
    REQUIRE(waitpid(children[1], &status, WUNTRACED) == children[1]);
    CHECK(WIFSTOPPED(status));
    auto store = Store::in_folder(folder.path());
    REQUIRE(store.ok());
    CHECK(store->set("stopped", "x").ok());
    CHECK(ended(children[0]) == 0);
    kill(children[1], SIGKILL);
    CHECK(ended(children[1]) == -SIGKILL);
  }
}

TEST_CASE("hosts: an abort while the last connections are made is not forgotten") {
  NEEDS_HOSTS();
  const tenon::test::TempFolder folder;
  const auto children = start(2, [&](uint32_t rank) -> Status {
    Store store = TN_TRY(Store::in_folder(folder.path()));
    const Device device = TN_TRY(open_on(rank, nullptr));
    const tn_comm_api& api = *device.plugin().comm;
    std::atomic<tn_comm*> made{nullptr};
    const OverheardStore overheard(store, [&](std::string_view key) {
      if (rank != 1 || !asks_for_address(key)) return;
      while (made.load() == nullptr) std::this_thread::yield();
      tn_error error = no_error();
      (void)api.abort(made.load(), &error);
    });
    const std::string id = TN_TRY(id_by_table(device, store, rank));
    tn_comm* comm = nullptr;
    TN_TRY(create_by_table(device, id, rank, 2, std::chrono::seconds(20), overheard.table(),
                           TN_COMM_NON_BLOCKING, &comm));
    made.store(comm);
    tn_error error = no_error();
    Status told;
    while ((told = status_of(api.health(comm, &error), error)).code() == TN_BUSY) std::this_thread::yield();
    // Rank 0 may stand before it is told, and is with its next group.
    if (rank == 0 && told.ok()) told = barrier_by_table(device, comm);
    TN_TRY(store.set("told/" + std::to_string(rank), "x"));
    TN_TRY(store.get(rank == 0 ? "told/1" : "told/0", std::chrono::seconds(60)));
    static_cast<void>(api.destroy(comm, 0, &error));
    const bool right = told.code() == TN_ABORTED || (rank == 0 && told.code() == TN_PEER_LOST);
    return right ? Status() : got(told);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}
