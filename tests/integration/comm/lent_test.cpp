// SPDX-License-Identifier: Apache-2.0
// lent_test.cpp: ranks as processes, and the buffers that they lend each other: there before use, and let go after it.
//
// Buffers are allocated and freed by the plugin's own table, because a pool would keep them.
// Invariant: the parent loads no plugin.
#include "processes.hpp"
#include "support/temp_folder.hpp"
#include "system_figures.hpp"

#include <tenon/plugin.h>

#include <fcntl.h>
#include <sys/stat.h>

using namespace comm_test;

namespace {

constexpr const char* buffers = "tenon buffer";
constexpr uint64_t four_mib = 4 << 20;
constexpr auto long_enough = std::chrono::seconds(60);

// Memory of the plugin's own.
class Lent {
 public:
  static Result<Lent> make(Device device, uint64_t bytes) {
    tn_error error = no_error();
    tn_memory* memory = nullptr;
    TN_TRY(status_of(
        device.plugin().device->alloc(device.handle(), TN_MEMORY_DEVICE, bytes, 0, &memory, &error), error));
    return Lent(device, memory, bytes);
  }
  tn_span span() const noexcept { return {.memory = memory_, .bytes = bytes_, .space = TN_SPACE_MEMORY}; }
  Status free() const {
    tn_error error = no_error();
    return status_of(device_.plugin().device->free(memory_, &error), error);
  }

 private:
  Lent(Device device, tn_memory* memory, uint64_t bytes)
      : device_(std::move(device)), memory_(memory), bytes_(bytes) {}
  Device device_;
  tn_memory* memory_;
  uint64_t bytes_;
};

}  // namespace

TEST_CASE("lent: ranks that only send and receive do not keep what was freed") {
  const tenon::test::TempFolder folder;
  const auto children = start(2, [&](uint32_t rank) -> Status {
    Store store = TN_TRY(Store::in_folder(folder.path()));
    Rank r = TN_TRY(join_here(store, rank, 2, {}, "always"));
    const Buffer own = TN_TRY(r.buffer(four_mib));
    for (int i = 0; i < 12; ++i) {
      if (rank == 1) {
        TN_TRY(r.comm.submit(r.stream, {CommOp::recv(own, f32, 0)}));
        TN_TRY(r.stream.sync());
        continue;
      }
      const Lent lent = TN_TRY(Lent::make(r.device, four_mib));
      TN_TRY(r.comm.submit(r.stream, {CommOp::send(lent.span(), f32, 1)}));
      TN_TRY(r.stream.sync());
      TN_TRY(lent.free());
    }
    // Its own; and what came last, with the one before, which was freed after it was looked at.
    const size_t mapped = mapped_of(buffers);
    return mapped <= 3 ? Status() : Status(TN_INTERNAL, std::to_string(mapped) + " buffers are mapped");
  });
  for (const pid_t child : children) CHECK(ended(child) == 0);
}

TEST_CASE("lent: a buffer that was freed while it was sent is TN_PEER_LOST, naming its rank") {
  for (const bool number_is_taken : {false, true}) {
    CAPTURE(number_is_taken);
    const tenon::test::TempFolder folder;
    const auto children = start(2, [&](uint32_t rank) -> Status {
      Store store = TN_TRY(Store::in_folder(folder.path()));
      Rank r = TN_TRY(join_here(store, rank, 2, {.timeout = long_enough}, "always"));
      const Buffer own = TN_TRY(r.buffer(four_mib));
      if (rank == 0) {
        const Lent lent = TN_TRY(Lent::make(r.device, four_mib));
        const int number = descriptors_of(buffers).back();
        TN_TRY(r.comm.submit(r.stream, {CommOp::send(lent.span(), f32, 1)}));
        TN_TRY(lent.free());
        for (int i = 0; number_is_taken && i < 64 && fcntl(number, F_GETFD) < 0; ++i)
          (void)open("/dev/null", O_RDONLY);
        TN_TRY(store.set("freed", "x"));
      } else {
        TN_TRY(store.get("freed", long_enough));
        TN_TRY(r.comm.submit(r.stream, {CommOp::recv(own, f32, 0)}));
      }
      const Status told = r.stream.sync();
      const bool named = told.message().find("rank 0 (process") != std::string_view::npos;
      return told.code() == TN_PEER_LOST && named
                 ? Status()
                 : Status(TN_INTERNAL, "got: " + std::string(told.message()));
    });
    for (const pid_t child : children) CHECK(ended(child) == 0);
  }
}

TEST_CASE("lent: a buffer that is lent has all its pages before it is used") {
  const auto children = start(1, [&](uint32_t) -> Status {
    const Store store = Store::in_process();
    Rank r = TN_TRY(join_here(store, 0, 1, {}, "always"));
    const Lent lent = TN_TRY(Lent::make(r.device, four_mib));
    struct stat info {};
    for (const int number : descriptors_of(buffers)) {
      if (fstat(number, &info) != 0 || static_cast<uint64_t>(info.st_blocks) * 512 < four_mib)
        return Status(TN_INTERNAL, "only " + std::to_string(info.st_blocks) + " blocks are there");
    }
    return descriptors_of(buffers).empty() ? Status(TN_INTERNAL, "nothing is lent") : lent.free();
  });
  CHECK(ended(children[0]) == 0);
}
