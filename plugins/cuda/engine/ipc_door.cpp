// SPDX-License-Identifier: Apache-2.0
// ipc_door.cpp: listening, and handing out descriptors.
#include "ipc_door.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

namespace tenon::cuda::ipc {

namespace {

// Signals go to the program's own threads: a thread that is started meanwhile takes none.
class Quiet {
 public:
  Quiet() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// Sends the answer, with the descriptor when there is one. A guest that has gone is none of ours.
void hand_over(const Fd& guest, Answer& answer, int descriptor) noexcept {
  iovec words{&answer, sizeof answer};
  msghdr message{};
  message.msg_iov = &words;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  if (descriptor >= 0) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  (void)sendmsg(guest.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<std::unique_ptr<Door>> Door::open(Find find) {
  std::unique_ptr<Door> out(new Door(std::move(find)));
  out->name_ = TN_TRY(drawn());
  out->listener_ = TN_TRY(make_socket(SOCK_NONBLOCK));
  const Address address = address_of(out->name_);
  if (bind(out->listener_.get(), address.get(), address.bytes) != 0 ||
      listen(out->listener_.get(), most_guests) != 0)
    return from_errno(TN_INTERNAL, "listening for those who bring tickets", errno);
  out->bell_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!out->bell_) {
    return from_errno(TN_NO_MEMORY,
                      "no event for tickets: close some descriptors, or raise their limit (ulimit -n)",
                      errno);
  }
  const Quiet quiet;
  try {
    out->thread_ = std::thread([door = out.get()] { door->serve(); });
  } catch (const std::system_error& refused) {
    return from_errno(TN_NO_MEMORY,
                      "no thread to answer those who bring tickets: raise the limit (ulimit -u)",
                      refused.code().value());
  }
  (void)pthread_setname_np(out->thread_.native_handle(), "tenon-tickets");
  return out;
}

// A child that this process forked has no such thread, and shares the bell.
Door::~Door() {
  if (!thread_.joinable()) return;
  if (getpid() != process_) {
    thread_.detach();
    return;
  }
  const uint64_t one = 1;
  (void)!write(bell_.get(), &one, sizeof one);
  thread_.join();
}

// Where no descriptor is left for a guest, the door is looked at again a little later. Only what there is is watched: a process may
// have a limit below all places.
void Door::serve() noexcept {
  constexpr int a_little = 50;
  bool crowded = false;
  for (;;) {
    std::array<pollfd, most_guests + 2> watched{};
    std::array<Fd*, most_guests + 2> guests{};
    nfds_t count = 0;
    watched[count++] = {bell_.get(), POLLIN, 0};
    watched[count++] = {crowded ? -1 : listener_.get(), POLLIN, 0};
    for (Fd& guest : guests_) {
      if (!guest) continue;
      guests[count] = &guest;
      watched[count++] = {guest.get(), POLLIN, 0};
    }
    const bool asked = poll(watched.data(), count, crowded ? a_little : -1) >= 0;
    if (asked ? watched[0].revents != 0 : is_rung()) return;
    if (!asked) continue;
    for (nfds_t i = 2; i < count; ++i) {
      if (watched[i].revents == 0) continue;
      answer(*guests[i]);
      *guests[i] = Fd();
    }
    crowded = watched[1].revents != 0 && !admit();
  }
}

// Where the system would not watch, which it is asked for again a little later.
bool Door::is_rung() const noexcept {
  uint64_t rings = 0;
  if (read(bell_.get(), &rings, sizeof rings) == sizeof rings) return true;
  if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return false;
}

// False when the system has nothing to admit a guest with.
bool Door::admit() noexcept {
  Fd guest(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!guest) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (const auto peer = peer_of(guest); peer.ok() && may_open(geteuid(), peer->user))
    guests_[admitted_++ % most_guests] = std::move(guest);
  return true;
}

void Door::answer(const Fd& guest) noexcept {
  Ask ask;
  if (recv(guest.get(), &ask, sizeof ask, MSG_DONTWAIT) != sizeof ask || ask.mark != ask_mark) return;
  Answer out{.mark = answer_mark};
  const std::optional<Offer> found = find_(ask);
  if (found) {
    out.known = 1;
    out.extent = found->extent;
  }
  hand_over(guest, out, found && found->pages != nullptr ? found->pages->get() : -1);
}

}  // namespace tenon::cuda::ipc
