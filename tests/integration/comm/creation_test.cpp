// SPDX-License-Identifier: Apache-2.0
// creation_test.cpp: communicators that do not come about: everybody is told why, and nothing is kept.
//
// Invariant: the parent loads no plugin; each case makes its trouble at a place in the order of things, not at a time.
#include "by_table.hpp"
#include "refused_calls.hpp"
#include "support/skip.hpp"
#include "support/temp_folder.hpp"
#include "system_figures.hpp"

#include <atomic>

#include <signal.h>

using namespace comm_test;

namespace {

constexpr const char* segments = "tenon communicator";

Status create(Device device, const Store& store, uint32_t rank, uint32_t size, Timeout timeout,
              const std::string& name = "world") {
  auto made = Communicator::create(device, store, rank, size, {.name = name, .timeout = timeout});
  return made.ok() ? Status() : std::move(made).failure();
}

Result<Device> open_here() {
  static Runtime* const tenon = new Runtime;  // for the life of the process
  *tenon = TN_TRY(comm_test::runtime());
  return tenon->device("cpu");
}

Status got(const Status& outcome) {
  return Status(TN_INTERNAL, "got: " + std::string(outcome.ok() ? "TN_OK" : outcome.message()));
}

bool tells(const Status& outcome, const char* part) {
  return outcome.message().find(part) != std::string_view::npos;
}

// A store in which nobody says anything, and where who asks is stopped.
const tn_store& stopping_store() {
  static const tn_store store{
      .header = {.size = sizeof(tn_store)},
      .context = nullptr,
      .set = [](void*, const char*, const void*, uint64_t, tn_error*) -> int32_t { return TN_OK; },
      .get = [](void*, const char*, void*, uint64_t, uint64_t*, uint64_t, tn_error*) -> int32_t {
        raise(SIGSTOP);
        return TN_TIMEOUT;
      }};
  return store;
}

// Seconds since `begin`.
double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("creation: ranks that disagree about their number are TN_MISMATCH, all of them, at once") {
  for (const uint32_t odd : {0u, 1u, 2u}) {
    CAPTURE(odd);
    const tenon::test::TempFolder folder;
    const auto children = start(3, [&](uint32_t rank) -> Status {
      Store store = TN_TRY(Store::in_folder(folder.path()));
      const Device device = TN_TRY(open_here());
      const auto begin = std::chrono::steady_clock::now();
      const Status told = create(device, store, rank, rank == odd ? 4 : 3, std::chrono::seconds(20));
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      std::printf("another number of ranks told in %.3f s\n", seconds);
      TN_TRY(store.set("told/" + std::to_string(rank), "x"));
      // Who made the id stays until all have been told.
      for (const char* other : {"told/0", "told/1", "told/2"})
        TN_TRY(store.get(other, std::chrono::seconds(60)));
      const bool both = tells(told, "of 3") && tells(told, "of 4") && tells(told, "which came first");
      return told.code() == TN_MISMATCH && both ? Status() : got(told);
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("creation: who comes after the others have failed is told why, too") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    Store store = TN_TRY(Store::in_folder(folder.path()));
    const Device device = TN_TRY(open_here());
    if (rank == 2) TN_TRY(store.get("failed", std::chrono::seconds(60)));
    const Status told = create(device, store, rank, rank == 1 ? 4 : 3, std::chrono::seconds(20));
    if (rank == 0) {
      TN_TRY(store.set("failed", "x"));
      TN_TRY(store.get("over", std::chrono::seconds(60)));
    }
    if (rank == 2) TN_TRY(store.set("over", "x"));
    return told.code() == TN_MISMATCH && tells(told, "of 4") ? Status() : got(told);
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE(
    "creation: two processes with one number are told of each other, and so are those who wait for the other "
    "number") {
  for (const uint32_t twice : {0u, 1u}) {
    CAPTURE(twice);
    const tenon::test::TempFolder folder;
    const auto children = start(3, [&](uint32_t child) -> Status {
      const Store store = TN_TRY(Store::in_folder(folder.path()));
      const Status told =
          create(TN_TRY(open_here()), store, child == 2 ? twice : child, 3, std::chrono::seconds(2));
      const std::string first = "rank " + std::to_string(twice) + " is process ";
      const bool right = tells(told, first.c_str()) && tells(told, " already, and process ") &&
                         tells(told, " asks to be it, too: give each rank its own number");
      return told.code() == TN_INVALID && right ? Status() : got(told);
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("creation: a rank that came and then stopped is named") {
  const tenon::test::TempFolder folder;
  const auto children = start(3, [&](uint32_t rank) -> Status {
    Store store = TN_TRY(Store::in_folder(folder.path()));
    const Device device = TN_TRY(open_here());
    if (rank == 2) TN_TRY(store.get("stopped", std::chrono::seconds(60)));
    const Status told = create_by_table(device, TN_TRY(id_by_table(device, store, rank)), rank, 3,
                                        std::chrono::seconds(5), rank == 1 ? &stopping_store() : nullptr);
    return told.code() == TN_TIMEOUT && tells(told, "missing: 1, which came and did not go on") ? Status()
                                                                                                : got(told);
  });
  int status = 0;
  REQUIRE(waitpid(children[1], &status, WUNTRACED) == children[1]);
  CHECK(WIFSTOPPED(status));
  auto store = Store::in_folder(folder.path());
  REQUIRE(store.ok());
  CHECK(store->set("stopped", "x").ok());
  CHECK(ended(children[0]) == 0);
  CHECK(ended(children[2]) == 0);
  kill(children[1], SIGKILL);
  CHECK(ended(children[1]) == -SIGKILL);
}

TEST_CASE("creation: what failed leaves neither a descriptor nor a map") {
  const auto children = start(1, [&](uint32_t) -> Status {
    const Store store = Store::in_process();
    const Device device = TN_TRY(open_here());
    // Both ranks are here, and told of other numbers.
    for (int i = 0; i < 3; ++i) {
      const auto told = as_threads(2, [&](uint32_t rank) {
        return create(device, store, rank, 2 + rank, std::chrono::milliseconds(300));
      });
      for (const Status& one : told) {
        if (one.code() != TN_MISMATCH) return got(one);
      }
    }
    // One is here, and waits in vain, longer than those before would have.
    for (int i = 0; i < 3; ++i) {
      const Status told = create(device, store, 0, 2, std::chrono::milliseconds(400), "in vain");
      if (told.code() != TN_TIMEOUT) return got(told);
    }
    const size_t open = descriptors_of(segments).size(), mapped = mapped_of(segments);
    if (open == 0 && mapped == 0) return {};
    return Status(TN_INTERNAL, std::to_string(open) + " descriptors and " + std::to_string(mapped) +
                                   " maps of communicators are left");
  });
  CHECK(ended(children[0]) == 0);
}

TEST_CASE(
    "creation: a rank that ends or stops while it makes the memory is named, and one that ended at once") {
  NEEDS_REFUSED_CALLS();
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    const bool ends = signal == SIGKILL;
    const tenon::test::TempFolder folder;
    const auto children = start(2, [&](uint32_t rank) -> Status {
      Store store = TN_TRY(Store::in_folder(folder.path()));
      const Device device = TN_TRY(open_here());
      if (rank == 1 && !signal_at_large_memory(signal)) return Status(TN_INTERNAL, "no trap");
      const auto timeout = ends ? std::chrono::seconds(20) : std::chrono::seconds(1);
      std::string id = TN_TRY(id_by_table(device, store, rank));
      // Who makes the id comes second.
      if (rank == 0) TN_TRY(store.get("over", std::chrono::seconds(60)));
      const auto begin = std::chrono::steady_clock::now();
      const Status told = create_by_table(device, id, rank, 2, timeout, nullptr);
      const bool named = tells(told, "rank 1 (process ") && tells(told, "which came first");
      if (told.code() != (ends ? TN_PEER_LOST : TN_TIMEOUT) || !named) return got(told);
      return since(begin) < 10 ? Status() : Status(TN_INTERNAL, "told too late");
    });
    int status = 0;
    REQUIRE(waitpid(children[1], &status, WUNTRACED) == children[1]);
    CHECK((ends ? WIFSIGNALED(status) : WIFSTOPPED(status)));
    auto store = Store::in_folder(folder.path());
    REQUIRE(store.ok());
    CHECK(store->set("over", "x").ok());
    CHECK(ended(children[0]) == 0);
    if (!ends) {
      kill(children[1], SIGKILL);
      CHECK(ended(children[1]) == -SIGKILL);
    }
  }
}

TEST_CASE("creation: one that does not block and is held up by its store is left behind in time") {
  const auto children = start(1, [&](uint32_t) -> Status {
    Store store = Store::in_process();
    const Device device = TN_TRY(open_here());
    static std::atomic<bool> held{false}, goes_on{false};
    static const OverheardStore stuck(store, [](std::string_view) {
      held.store(true);
      while (!goes_on.load()) std::this_thread::yield();
    });
    tn_comm* comm = nullptr;
    TN_TRY(create_by_table(device, TN_TRY(id_by_table(device, store, 0)), 0, 2, std::chrono::seconds(30),
                           stuck.table(), TN_COMM_NON_BLOCKING, &comm));
    while (!held.load()) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    tn_error error = no_error();
    const Status told = status_of(device.plugin().comm->destroy(comm, 1'000'000, &error), error);
    const double seconds = since(begin);
    std::printf("a creation that is held up was left after %.3f s\n", seconds);
    goes_on.store(true);
    if (told.code() != TN_TIMEOUT || !tells(told, "its creation does not end")) return got(told);
    return seconds < 10 ? Status() : Status(TN_INTERNAL, "left too late");
  });
  CHECK(ended(children[0]) == 0);
}
