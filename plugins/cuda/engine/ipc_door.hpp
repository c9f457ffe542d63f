// SPDX-License-Identifier: Apache-2.0
// ipc_door.hpp: the exporter's side of tickets: a socket, and a thread that answers whoever brings one.
//
// The thread never waits for a guest: one that says nothing is forgotten when too many of them stay.
// Invariant: a descriptor leaves this process only for a guest of a trusted user whose ask was found.
#pragma once

#include "ipc_wire.hpp"

#include <functional>
#include <optional>
#include <thread>

namespace tenon::cuda::ipc {

// What a guest is given. Without pages the memory has no bytes.
struct Offer {
  std::shared_ptr<const Fd> pages{};
  Extent extent{};
};

class Door {
 public:
  // Called on the door's thread; must not block or throw.
  using Find = std::function<std::optional<Offer>(const Ask&)>;

  // Starts the thread. TN_NO_MEMORY. [any-thread; does not block; may fail]
  static Result<std::unique_ptr<Door>> open(Find find);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  // Ends the thread; whoever still waits outside is told that nobody is here.
  ~Door();

  const Bits& name() const noexcept { return name_; }

 private:
  static constexpr size_t most_guests = 64;

  explicit Door(Find find) : find_(std::move(find)) {}
  void serve() noexcept;
  bool is_rung() const noexcept;
  bool admit() noexcept;
  void answer(const Fd& guest) noexcept;

  Find find_;
  Bits name_{};
  Fd listener_{}, bell_{};
  std::array<Fd, most_guests> guests_{};  // of the thread
  size_t admitted_ = 0;
  const pid_t process_ = getpid();
  std::thread thread_{};
};

}  // namespace tenon::cuda::ipc
