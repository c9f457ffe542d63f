// SPDX-License-Identifier: Apache-2.0
// errand.hpp: a group that has been brought to the room, and how it is enqueued.
//
// All of a group is ready at once, and what has different members goes side by side, so no operation waits for another one's
// partners.
// Invariant: a rank says "ready" to all before it waits for anybody.
#pragma once

#include "work.hpp"

namespace tenon::cuda::comm {

// A copy on this rank, before anything else.
struct Move {
  CUdeviceptr to = 0, from = 0;
  uint64_t bytes = 0;
};

struct Errand {
  std::vector<Part> parts{};
  std::vector<CUfunction> functions{};  // of each part; null where there is no kernel
  std::vector<Turn> turns{};            // of each part
  std::vector<Move> moves{};
};

// Enqueues it on `trunk`, behind `earlier`. The event behind all of it. The context is current.
// [rank's thread; does not block; may fail]
Result<EventRef> enqueue(const Errand& errand, const Strand& trunk, Strands& side, const EventRef& earlier);

// Device memory for what is taken aside, used anew by each group.
class Aside {
 public:
  explicit Aside(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  // Room of `bytes`; what was given before may be overwritten by what is enqueued from here on.
  // [rank's thread; may block; may fail]
  Result<CUdeviceptr> take(uint64_t bytes);

 private:
  std::shared_ptr<Gpu> gpu_;
  std::vector<std::unique_ptr<Storage>>
      kept_{};  // the last is in use; earlier ones may still be by enqueued work
  uint64_t size_ = 0;
};

}  // namespace tenon::cuda::comm
