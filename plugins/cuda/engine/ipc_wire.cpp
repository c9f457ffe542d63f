// SPDX-License-Identifier: Apache-2.0
// ipc_wire.cpp: names of sockets, and who is at their other end.
#include "ipc_wire.hpp"

#include <tenon/author/text.hpp>

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace tenon::cuda::ipc {

using author::text;

Status from_errno(int32_t code, const std::string& words, int number) {
  return Status(Error{.code = code,
                      .message = text(words, ": ", std::strerror(number)),
                      .domain = "errno",
                      .native_code = number});
}

Result<Bits> drawn() {
  Bits out{};
  if (getrandom(out.data(), sizeof out, 0) == sizeof out) return out;
  return from_errno(TN_INTERNAL, "the system gives no random bits, and tickets need some", errno);
}

// A name that begins with NUL is in no folder.
Address address_of(const Bits& name) noexcept {
  Address out;
  out.at.sun_family = AF_UNIX;
  const int length =
      std::snprintf(out.at.sun_path + 1, sizeof out.at.sun_path - 1, "tenon-cuda-%016llx%016llx",
                    static_cast<unsigned long long>(name[0]), static_cast<unsigned long long>(name[1]));
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return out;
}

Result<Fd> make_socket(int flags) {
  Fd out(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (out) return out;
  return from_errno(TN_NO_MEMORY,
                    "no socket for tickets: close some descriptors, or raise their limit (ulimit -n)", errno);
}

Result<Peer> peer_of(const Fd& socket) {
  ucred found{};
  socklen_t bytes = sizeof found;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0)
    return from_errno(TN_INTERNAL, "the system does not say who is at the other end of a socket", errno);
  return Peer{.process = found.pid, .user = found.uid};
}

bool may_open(uid_t exporter, uid_t opener) noexcept { return opener == exporter || opener == 0; }

}  // namespace tenon::cuda::ipc
