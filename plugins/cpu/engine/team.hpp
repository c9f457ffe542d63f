// SPDX-License-Identifier: Apache-2.0
// team.hpp: the threads that share one command's work. The only place of this plugin that opens a parallel region.
//
// OpenMP does it, because oneDNN's threads are OpenMP's and a second pool beside them costs more than it gives; a
// framework that lends its own threads (tn_host.parallel_for) is used instead.
// Invariant: what a body computes does not depend on how the range was cut.
#pragma once

#include <tenon/author/host.hpp>

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace tenon::cpu {

// What the streams of one device share: how many threads, and how many streams compute at this moment.
struct Crew {
  unsigned threads = 1;
  author::Host host{};
  std::atomic<unsigned> busy{0};
};

class Team {
 public:
  explicit Team(Crew& crew) noexcept : crew_(crew) {}

  // Runs body(begin, end) over [0, count) in pieces of at least `grain`, and returns when all are done. The body must not
  // throw. [worker thread; blocks; cannot fail]
  template <class Body>
  void run(uint64_t count, uint64_t grain, Body&& body) const {
    using Function = std::remove_reference_t<Body>;
    if (count <= grain || crew_.threads == 1) {
      if (count > 0) body(uint64_t{0}, count);
      return;
    }
    split(
        count, grain,
        [](void* argument, uint64_t begin, uint64_t end) { (*static_cast<Function*>(argument))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
  unsigned threads() const noexcept { return crew_.threads; }

 private:
  using Piece = void (*)(void* argument, uint64_t begin, uint64_t end);
  void split(uint64_t count, uint64_t grain, Piece piece, void* argument) const;

  Crew& crew_;
};

// The OpenMP team that the calling thread offers to libraries that ask OpenMP (oneDNN), for the life of this object.
// [one thread; does not block; cannot fail]
class TeamSize {
 public:
  explicit TeamSize(unsigned threads) noexcept;
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;
  ~TeamSize();

 private:
  int before_;
};

// Has OpenMP's library take what it needs of the system now: LLVM's opens a file when it is first asked for anything, and
// ends the process where it cannot. [any thread; does not block; cannot fail]
void prepare_team() noexcept;

// Ends the OpenMP threads that helped the calling thread, and waits for them. Left alone they would end some time after it,
// when the plugin may be gone, and OpenMP's library with it. [the thread that they helped; blocks; cannot fail]
void dismiss_team() noexcept;

}  // namespace tenon::cpu
