// SPDX-License-Identifier: Apache-2.0
// ipc_visit.cpp: connecting, asking, and waiting no longer than was allowed.
#include "ipc_visit.hpp"

#include <tenon/author/text.hpp>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tenon::cuda::ipc {

using author::text;

namespace {

class Patience {
 public:
  explicit Patience(uint64_t ns) : ns_(ns), end_(Clock::now() + std::chrono::nanoseconds(ns)) {}
  // What is left, at least a microsecond for what may only be asked with some.
  std::chrono::microseconds left() const {
    const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(end_ - Clock::now());
    return std::max(rest, std::chrono::microseconds(1));
  }
  bool is_over() const { return Clock::now() >= end_; }
  std::string words() const { return text(ns_ / 1'000'000, " ms"); }

 private:
  using Clock = std::chrono::steady_clock;
  uint64_t ns_;
  Clock::time_point end_;
};

Status gone(const std::string& who) {
  return Status(TN_NOT_FOUND, text(who,
                                   " has ended, or has closed its device: a ticket is good for as long as "
                                   "the memory is there; ask for a new one"));
}

// The connection ended without an answer.
Status turned_away() {
  return Status(
      TN_NOT_FOUND,
      "the process that wrote this ticket has ended, has closed its device, or had too many others to "
      "answer: open the ticket again, and ask for a new one if that fails");
}

Status silent(const std::string& who, const Patience& patience) {
  return Status(TN_TIMEOUT, text(who, " did not answer for ", patience.words(),
                                 ": see whether it is stopped or starved, and open the ticket again"));
}

// A connection that waits in vain for a place in the exporter's queue comes back with EAGAIN.
Result<Fd> connect_to(const Bits& name, const Patience& patience) {
  Fd socket = TN_TRY(make_socket(0));
  const Address address = address_of(name);
  for (;;) {
    const auto left = patience.left().count();
    const timeval longest{.tv_sec = left / 1'000'000, .tv_usec = left % 1'000'000};
    (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    if (connect(socket.get(), address.get(), address.bytes) == 0) return socket;
    const int why = errno;
    if (why == ECONNREFUSED || why == ENOENT) {
      return from_errno(TN_NOT_FOUND,
                        "the process that wrote this ticket has ended or closed its device, or is in another "
                        "container (they need one network namespace): a ticket is good for as long as the "
                        "memory is there; ask for a new one",
                        why);
    }
    if (why != EAGAIN && why != EINTR)
      return from_errno(TN_INTERNAL, "reaching the process that wrote this ticket", why);
    if (patience.is_over()) return silent("the process that wrote this ticket", patience);
  }
}

// Something that tells when the process has ended: a child that it forked may hold its socket open, and answers nobody.
Fd watch(pid_t process, bool& ended) {
  Fd out;
#if defined(SYS_pidfd_open)
  if (process > 0) out = Fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0u)));
  ended = process > 0 && !out && errno == ESRCH;
#endif
  return out;
}

// Until there is something to read. TN_NOT_FOUND, TN_TIMEOUT.
Status wait_for(const Fd& socket, const Peer& peer, const Patience& patience) {
  const std::string who = text("process ", static_cast<int64_t>(peer.process), ", which wrote this ticket,");
  bool ended = false;
  const Fd life = watch(peer.process, ended);
  for (;;) {
    std::array<pollfd, 2> watched{pollfd{socket.get(), POLLIN, 0}, pollfd{life.get(), POLLIN, 0}};
    const auto ms = ended ? 0 : static_cast<int>(patience.left().count() / 1000 + 1);
    const int ready = poll(watched.data(), watched.size(), ms);
    if (ready > 0 && watched[0].revents != 0) return {};
    if (ended) return gone(who);  // and its answer, if there was one, would have been here
    ended = ready > 0;
    if (!ended && patience.is_over()) return silent(who, patience);
  }
}

// The descriptor that came with a message; the kernel has closed what there was no room for.
Fd descriptor_in(msghdr& message) {
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int)))
    return Fd();
  int number = -1;
  std::memcpy(&number, CMSG_DATA(head), sizeof number);
  return Fd(number);
}

Result<Parcel> read_answer(const Fd& socket) {
  Answer answer;
  iovec words{&answer, sizeof answer};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &words;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));  // of one: padding would have room for a second
  const ssize_t came = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  Parcel out{.pages = came >= 0 ? descriptor_in(message) : Fd(), .extent = answer.extent};
  if (came <= 0) return turned_away();
  if (came != sizeof answer || answer.mark != answer_mark) {
    return Status(
        TN_VERSION,
        "the answer to this ticket is not understood: both processes need one version of plugin 'cuda'");
  }
  if (answer.known == 0) {
    return Status(
        TN_NOT_FOUND,
        "the process that wrote this ticket has freed its memory: ask for a ticket of what there is");
  }
  if (out.extent.page_bytes != 0 && !out.pages) {
    return Status(
        TN_NO_MEMORY,
        "the memory of this ticket came without its descriptor: close some of this process, or raise "
        "their limit (ulimit -n)");
  }
  return out;
}

}  // namespace

Result<Parcel> visit(const Bits& name, const Ask& ask, uint64_t patience_ns) {
  const Patience patience(patience_ns);
  const Fd socket = TN_TRY(connect_to(name, patience));
  const Peer peer = TN_TRY(peer_of(socket));
  if (!may_open(peer.user, geteuid())) {
    return Status(TN_UNSUPPORTED,
                  text("process ", static_cast<int64_t>(peer.process), ", which wrote this ticket, is user ",
                       static_cast<int64_t>(peer.user), "'s, and this one user ",
                       static_cast<int64_t>(geteuid()), "'s: run both as one user, or this one as root"));
  }
  if (send(socket.get(), &ask, sizeof ask, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof ask) return turned_away();
  TN_TRY(wait_for(socket, peer, patience));
  return read_answer(socket);
}

}  // namespace tenon::cuda::ipc
