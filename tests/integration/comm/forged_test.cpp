// SPDX-License-Identifier: Apache-2.0
// forged_test.cpp: a rank that has lost count of its groups, which no submit can bring about, is told and does no harm.
//
// The number that a rank announces is found in the memory that ranks share, by its value, and changed there.
// Invariant: it is changed after it was announced and before the other rank reads it.
#include "processes.hpp"
#include "system_figures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <vector>

using namespace comm_test;

namespace {

// This process's memory as a file: what threads do with it goes on meanwhile, and no sanitizer takes it for theirs.
class OwnMemory {
 public:
  OwnMemory() : file_(open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {}
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() { close(file_); }

  // Where a rank announces group `number`: beside its step when the group is of one operation, on its board when it is of two.
  // 0: nowhere.
  uintptr_t find_announcement(uint64_t number) const {
    constexpr size_t line = 64;
    const auto [begin, end] = range_of("tenon communicator");
    std::vector<uint64_t> words((end - begin) / sizeof(uint64_t));
    // The range goes on behind the memory: what only ranks on several hosts have.
    const ssize_t read = pread(file_, words.data(), end - begin, static_cast<off_t>(begin));
    words.resize(read < 0 ? 0 : static_cast<size_t>(read) / sizeof(uint64_t));
    for (size_t i = 0; i + 1 < words.size(); i += line / sizeof(uint64_t)) {
      if (words[i] == number && words[i + 1] == 2) return begin + i * sizeof(uint64_t);
      if (words[i] >> 32 == 1 && words[i + 1] == number) return begin + (i + 1) * sizeof(uint64_t);
    }
    return 0;
  }
  bool write(uintptr_t at, uint64_t word) const {
    return pwrite(file_, &word, sizeof word, static_cast<off_t>(at)) == sizeof word;
  }

 private:
  int file_;
};

// Of groups of so many barriers.
void check_forged(size_t operations) {
  const auto children = start(1, [&](uint32_t) -> Status {
    constexpr uint64_t groups = 1'234;
    const std::vector<CommOp> group(operations, CommOp::barrier());
    const Store store = Store::in_process();
    Runtime tenon = TN_TRY(comm_test::runtime());
    const Device device = TN_TRY(tenon.device("cpu"));
    std::atomic<bool> announced{false};
    const auto told = as_threads(2, [&](uint32_t rank) -> Status {
      Rank r = TN_TRY(join(device, store, rank, 2, {.timeout = std::chrono::seconds(20)}));
      for (uint64_t i = 1; i < groups; ++i) TN_TRY(r.comm.submit(r.stream, group));
      TN_TRY(r.stream.sync());
      while (rank == 0 && !announced) std::this_thread::yield();
      if (rank == 1) {
        TN_TRY(r.comm.submit(r.stream, group));
        const OwnMemory memory;
        uintptr_t found = 0;
        while ((found = memory.find_announcement(groups)) == 0) std::this_thread::yield();
        if (!memory.write(found, groups + 1))
          return Status(TN_INTERNAL, "cannot write to this process's memory");
        announced = true;
        return r.stream.sync();
      }
      TN_TRY(r.comm.submit(r.stream, group));
      return r.stream.sync();
    });
    for (const Status& one : told) {
      const bool both = one.message().find("at group 1234") != std::string_view::npos &&
                        one.message().find("at group 1235") != std::string_view::npos;
      if (one.code() != TN_MISMATCH || !both)
        return Status(TN_INTERNAL, "got: " + std::string(one.message()));
    }
    return {};
  });
  CHECK(ended(children[0]) == 0);
}

}  // namespace

TEST_CASE("forged: ranks that count their groups differently are TN_MISMATCH, naming both numbers") {
  check_forged(1);
  check_forged(2);
}
