// SPDX-License-Identifier: Apache-2.0
// socket.cpp: see socket.hpp. All descriptors are non-blocking; blocking is poll with what is left of the deadline.
#include "base/socket.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace tenon::base {
namespace {

constexpr size_t piece = 64 << 10;

Status failure(int32_t code, const std::string& what, int number) {
  return Status(Error{.code = code,
                      .message = what + ": " + std::strerror(number),
                      .domain = "errno",
                      .native_code = number});
}

int milliseconds(const Deadline& deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::min<int64_t>(left, 3'600'000));
}

Fd open_socket(const sockaddr_storage& name) {
  Fd fd(socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (fd) (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

const sockaddr* plain(const sockaddr_storage& name) noexcept {
  return reinterpret_cast<const sockaddr*>(&name);
}

// "127.0.0.1:29500"
std::string in_numbers(const sockaddr_storage& name, socklen_t bytes) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  constexpr int numbers = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(plain(name), bytes, host, sizeof host, port, sizeof port, numbers) != 0) return "?";
  const bool six = name.ss_family == AF_INET6;
  return (six ? "[" : "") + std::string(host) + (six ? "]:" : ":") + port;
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  Address out;
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  out.host = host;
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, out.port);
  if (!out.host.empty() && !port.empty() && read.ec == std::errc() && read.ptr == end) return out;
  return Status(TN_INVALID, base::quoted(text) + " is no address: write HOST:PORT, as in 127.0.0.1:29500");
}

std::string Address::text() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Result<Numbers> Numbers::of(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int why = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (why != 0) {
    return Status(TN_INVALID, "no host " + base::quoted(address.host) + ": " + gai_strerror(why) +
                                  ": give a name or number of one of its interfaces");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  Numbers out;
  out.text_ = address.text();
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_addrlen > sizeof(sockaddr_storage)) continue;
    One& number = out.all_.emplace_back();
    std::memcpy(&number.name, one->ai_addr, one->ai_addrlen);
    number.bytes = one->ai_addrlen;
  }
  return out;
}

Result<Socket> Socket::listen_on(const Numbers::One& number) {
  Socket out(open_socket(number.name));
  const int on = 1;
  if (out) (void)setsockopt(out.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (out && bind(out.number(), plain(number.name), number.bytes) == 0 && ::listen(out.number(), 1024) == 0)
    return out;
  return failure(TN_INVALID, in_numbers(number.name, number.bytes), errno);
}

Result<Socket> Socket::listen(const Numbers& where) {
  Error last{.code = TN_INVALID};
  std::string tried;
  for (const Numbers::One& number : where.all_) {
    auto out = listen_on(number);
    if (out.ok()) return out;
    last = out.error();
    tried += (tried.empty() ? "" : "; ") + last.message;
  }
  last.message = "cannot listen on " + where.text_ + " (" + tried + ")";
  return Status(std::move(last));
}

Result<Socket> Socket::connect_to(const Numbers::One& number, const Deadline& deadline) {
  Socket out(open_socket(number.name));
  if (!out) return failure(TN_NO_MEMORY, "no socket", errno);
  if (::connect(out.number(), plain(number.name), number.bytes) == 0) return out;
  int why = errno;
  if (why == EINPROGRESS) {
    TN_TRY(out.wait_for(POLLOUT, deadline));
    socklen_t size = sizeof why;
    (void)getsockopt(out.number(), SOL_SOCKET, SO_ERROR, &why, &size);
    if (why == 0) return out;
  }
  return Status(
      Error{.code = TN_PEER_LOST, .message = std::strerror(why), .domain = "errno", .native_code = why});
}

// One that is silent leaves the others their time. Nobody listens there if one of them says so.
Result<Socket> Socket::connect(const Numbers& where, const Deadline& deadline) {
  Error last{.code = TN_TIMEOUT};
  std::string tried;
  bool refused = false;
  for (size_t i = 0; i < where.all_.size(); ++i) {
    const Numbers::One& number = where.all_[i];
    auto out = connect_to(number, Deadline(deadline.left() / static_cast<int64_t>(where.all_.size() - i)));
    if (out.ok() || out.code() == TN_NO_MEMORY) return out;
    last = out.error();
    refused |= last.code == TN_PEER_LOST;
    tried += (tried.empty() ? "" : "; ") + in_numbers(number.name, number.bytes) + ": " + last.message;
  }
  if (refused) last.code = TN_PEER_LOST;
  last.message = "cannot connect to " + where.text_ + " (" + tried + ")";
  return Status(std::move(last));
}

uint16_t Socket::port() const noexcept {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

std::string Socket::here() const {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  return getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0 ? in_numbers(name, size)
                                                                                : "?";
}

Status Socket::wait_for(short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{.fd = fd_.get(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, milliseconds(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failure(TN_INTERNAL, "poll", errno);
    if (deadline.passed()) return Status(TN_TIMEOUT, "the other end did not answer in time");
  }
}

Status Socket::send(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      TN_TRY(wait_for(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return failure(TN_PEER_LOST, "the connection is lost", errno);
    }
  }
  return {};
}

Status Socket::receive(std::span<char> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return Status(TN_PEER_LOST, "the other end has closed the connection");
    } else if (errno == EAGAIN) {
      TN_TRY(wait_for(POLLIN, deadline));
    } else if (errno != EINTR) {
      return failure(TN_PEER_LOST, "the connection is lost", errno);
    }
  }
  return {};
}

Socket Socket::accept() noexcept {
  Socket out(Fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  const int on = 1;
  if (out) (void)setsockopt(out.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return out;
}

bool Socket::read_into(std::string& bytes, size_t limit) {
  while (bytes.size() < limit) {
    const size_t had = bytes.size();
    bytes.resize(std::min(limit, had + piece));
    const ssize_t got = recv(fd_.get(), bytes.data() + had, bytes.size() - had, 0);
    bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

bool Socket::write_from(std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EAGAIN) return true;
    if (put < 0 && errno != EINTR) return false;
    bytes.erase(0, static_cast<size_t>(std::max<ssize_t>(put, 0)));
  }
  return true;
}

Result<Bell> Bell::make() {
  Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return failure(TN_NO_MEMORY, "no eventfd", errno);
  return Bell(std::move(fd));
}

void Bell::ring() noexcept { (void)eventfd_write(fd_.get(), 1); }

void Bell::hush() noexcept {
  eventfd_t rings = 0;
  (void)eventfd_read(fd_.get(), &rings);
}

void wait_any(std::span<Interest> interests, const Deadline& deadline) {
  std::vector<pollfd> entries;
  for (const Interest& one : interests)
    entries.push_back({.fd = one.number,
                       .events = static_cast<short>(one.writes ? POLLIN | POLLOUT : POLLIN),
                       .revents = 0});
  (void)poll(entries.data(), entries.size(), milliseconds(deadline));
  for (size_t i = 0; i < entries.size(); ++i) interests[i].ready = entries[i].revents != 0;
}

}  // namespace tenon::base
