// SPDX-License-Identifier: Apache-2.0
// stress_test.cpp: very many collectives on several communicators at once, and what they leave behind: nothing.
//
// Invariant: every result is checked; memory and descriptors are counted after the first tenth and at the end.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "together.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace comm_test;

namespace {

// Address and thread sanitizers keep what was freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr uint64_t allowed_growth = uint64_t{384} << 20;
#else
constexpr uint64_t allowed_growth = uint64_t{32} << 20;
#endif

struct Holdings {
  size_t descriptors = 0;
  uint64_t resident = 0;  // bytes
};

Holdings holdings() {
  Holdings out;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++out.descriptors;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  out.resident = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return out;
}

// `count` collectives, a few of them under way at a time, each on one of the communicators and its stream.
Status run(Rank& r, std::span<Communicator> comms, std::span<Stream> streams, std::mt19937_64& random,
           uint64_t count) {
  for (uint64_t done = 0; done < count;) {
    std::vector<UnderWay> flying;
    for (uint64_t left = random() % 12 + 1; left > 0 && done < count; --left, ++done) {
      const size_t which = random() % comms.size();
      flying.push_back(TN_TRY(begin(r, comms[which], streams[which], draw(random, r.size, 3'000))));
    }
    for (Stream& stream : streams) TN_TRY(stream.sync());
    for (const UnderWay& one : flying) TN_TRY(check(r, one));
  }
  return {};
}

}  // namespace

TEST_CASE(
    "stress: random collectives of 4 ranks on 3 communicators are the reference's and leave nothing behind") {
  const uint64_t seed = tenon::test::seed();
  const auto count = tenon::test::full_or<uint64_t>("collectives", 600, 200'000);
  Holdings early, late;
  together(comm_test::open({}), 4, [&](Rank& r) -> Status {
    std::mt19937_64 random(seed);  // the same for all ranks
    std::vector<Communicator> comms{r.comm};
    std::vector<Stream> streams{r.stream};
    for (const char* name : {"second", "third"}) {
      comms.push_back(TN_TRY(Communicator::create(r.device, r.store, r.rank, r.size, {.name = name})));
      streams.push_back(TN_TRY(r.device.stream()));
    }
    TN_TRY(run(r, comms, streams, random, count / 10));
    if (r.rank == 0) early = holdings();
    TN_TRY(run(r, comms, streams, random, count - count / 10));
    if (r.rank == 0) late = holdings();
    return {};
  });
  std::printf("descriptors %zu, then %zu; resident %.1f MiB, then %.1f MiB\n", early.descriptors,
              late.descriptors, static_cast<double>(early.resident) / (1 << 20),
              static_cast<double>(late.resident) / (1 << 20));
  CHECK(late.descriptors <= early.descriptors + 2);  // another rank may be reading /proc at that moment
  CHECK(late.resident <= early.resident + allowed_growth);
}
