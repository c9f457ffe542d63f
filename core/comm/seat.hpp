// SPDX-License-Identifier: Apache-2.0
// seat.hpp: a rank's part in a communicator, as the other communicators of its process see it: which stream carries it.
//
// A rank that works in two communicators is one to the program, and two to each of them. What joins the two is a stream that carries
// groups of both, or a thread that submits to one and waits for the stream of the other.
// Invariant: only who has one stream, always the same, says what is on it; of others it is not known.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/standing.hpp"
#include "runtime/stay.hpp"

#include <optional>
#include <vector>

namespace tenon::comm {

class Seat {
 public:
  // Both outlive it, or its `leave`.
  Seat(const detail::CommState& comm, const Flight& flight);
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat() { leave(); }
  // The others see it no more. [any-thread; may block; cannot fail]
  void leave() noexcept;

  // Groups go on `line`, too, from now on. [stream's thread; may block; cannot fail]
  void carry(runtime::Timeline& line) noexcept;
  // That `group` of another communicator on the same store begins after all that this one has on `line` by now; none: it has nothing
  // there, or that is not known. [stream's thread; may block; may throw std::bad_alloc]
  std::optional<Standing::Behind> before(uint64_t group, const runtime::Timeline& line,
                                         const Seat& other) const;
  // The same of `group` of this one, which a thread submits that is held at `place`, and the others of this process.
  // [any-thread; may block; may throw std::bad_alloc]
  std::vector<Standing::Behind> behind(uint64_t group, const runtime::Stay::Place& place) const;

 private:
  Standing::Behind told(uint64_t group) const;

  const detail::CommState& comm_;
  const Flight& flight_;
  // Under the mutex of all seats.
  bool there_ = true, several_ = false;
  runtime::Hold line_{};  // the first; `several_`: there are others
};

}  // namespace tenon::comm
