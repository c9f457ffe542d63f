// SPDX-License-Identifier: Apache-2.0
// ipc_wire.hpp: what the process that opens a ticket and the one that wrote it say to each other.
//
// The exporter listens on a socket without a place in the file system, so nothing is left of it when the process ends, however
// it does. One message asks, one answers and brings the descriptor of the pages.
// Invariant: memory goes to processes of its owner's user, and to root's.
#pragma once

#include "descriptor.hpp"

#include <tenon/result.hpp>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <memory>

namespace tenon::cuda::ipc {

// Drawn bits: the name of a socket, or what proves that a ticket was given.
using Bits = std::array<uint64_t, 2>;
// TN_INTERNAL where the system gives none. [any-thread; does not block; may fail]
Result<Bits> drawn();

// Asks for what was exported as `number`; `key` shows that whoever asks was given its ticket.
struct Ask {
  uint64_t mark = 0, number = 0;
  Bits key{};
};

// What lies behind a ticket: pages, and where in them the memory is.
struct Extent {
  uint64_t page_bytes = 0, offset = 0, bytes = 0;
};

struct Answer {
  uint64_t mark = 0;
  uint64_t known = 0;  // 1 when there is such a memory
  Extent extent{};
};

inline constexpr uint64_t ask_mark = 0x314B'5341'5543'4E54;     // "TNCUASK1"
inline constexpr uint64_t answer_mark = 0x3153'4E41'5543'4E54;  // "TNCUANS1"

struct Address {
  sockaddr_un at{};
  socklen_t bytes = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&at); }
};
// [any-thread; does not block; cannot fail]
Address address_of(const Bits& name) noexcept;

// A socket of this protocol, which does not survive exec. [any-thread; does not block; may fail]
Result<Fd> make_socket(int flags);

// Who is at the other end: the process that connected, or the one that listens.
struct Peer {
  pid_t process = 0;  // 0: in another space of process numbers
  uid_t user = 0;
};
// [any-thread; does not block; may fail]
Result<Peer> peer_of(const Fd& socket);
// Whether a process of user `opener` may have memory of one of user `exporter`. Both ask. [any-thread; does not block; cannot fail]
bool may_open(uid_t exporter, uid_t opener) noexcept;

// A failure of the system, with its own words. [any-thread; does not block; may throw bad_alloc]
Status from_errno(int32_t code, const std::string& words, int number);

}  // namespace tenon::cuda::ipc
