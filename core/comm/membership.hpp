// SPDX-License-Identifier: Apache-2.0
// membership.hpp: a rank's part in a communicator, as the other communicators of its process see it: which stream carries it.
//
// A rank that works in two communicators is one to the program, and two to each of them. What joins the two is a stream that carries
// groups of both, or a thread that submits to one and waits for the stream of the other.
// Invariant: only who has one stream, always the same, says what is on it; of others it is not known.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/standing.hpp"
#include "runtime/stay.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tenon::comm {

class Membership {
 public:
  // `group`, of whoever keeps this, begins after group `other` of `member` has ended.
  struct Mark {
    uint64_t group = 0, other = 0;
    std::shared_ptr<const Standing::Behind> member{};  // all but the groups
    Standing::Behind words() const {
      Standing::Behind out = *member;
      out.group = group;
      out.other = other;
      return out;
    }
  };

  // `flight` outlives it, or its `leave`.
  Membership(const detail::CommState& comm, const Flight& flight);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() { leave(); }
  // The others see it no more. [any-thread; may block; cannot fail]
  void leave() noexcept;

  // Groups go on `line`, too, from now on. [stream's thread; may block; cannot fail]
  void carry(runtime::Timeline& line) noexcept;
  // That `group` of `later` begins after all that this one has on `line` by now; none: it has nothing there, or that is not known.
  // Allocates nothing. [stream's thread; may block; cannot fail]
  std::optional<Mark> before(uint64_t group, const runtime::Timeline& line,
                             const Membership& later) const noexcept;
  // The same of `group` of this one, which a thread submits that is held at `place`, and the others of this process.
  // [any-thread; may block; may throw std::bad_alloc]
  std::vector<Standing::Behind> behind(uint64_t group, const runtime::Stay::Place& place) const;

 private:
  bool carried_by(const runtime::Timeline* line) const noexcept { return !several_ && line_.get() == line; }

  const Flight& flight_;
  const void* const store_;
  const std::shared_ptr<const Standing::Behind> told_;
  mutable std::mutex mutex_;
  bool several_ = false;
  runtime::Hold line_{};  // the first; `several_`: there are others
};

}  // namespace tenon::comm
