// SPDX-License-Identifier: Apache-2.0
// socket.hpp: TCP connections with a deadline on everything that may block.
//
// Invariant: a peer that is slow, silent or gone is an error with its address, never a hang and never a signal.
#pragma once

#include "base/clock.hpp"
#include "base/fd.hpp"

#include <tenon/result.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace tenon::base {

// "HOST:PORT", where HOST is a name or a number ("[::1]" for IPv6). TN_INVALID. [any-thread; does not block; may fail]
struct Address {
  std::string host;
  uint16_t port = 0;
  static Result<Address> parse(std::string_view text);
  std::string text() const;
};

// The numbers that an address stands for, as the system finds them: by files and the network's name servers, which take their own
// time. So they are looked up once.
class Numbers {
 public:
  // TN_INVALID for a host that does not exist. [any-thread; may block; may fail]
  static Result<Numbers> of(const Address& address);
  const std::string& text() const noexcept { return text_; }  // of the address

 private:
  friend class Socket;
  struct One {
    sockaddr_storage name{};
    socklen_t bytes = 0;
  };
  std::string text_{};
  std::vector<One> all_{};
};

class Socket {
 public:
  Socket() noexcept = default;
  // Listens on that host's interface only, the first that can be. TN_INVALID with the system's words for each.
  // [any-thread; does not block; may fail]
  static Result<Socket> listen(const Numbers& where);
  // Tries each in turn, in an even share of the time. TN_PEER_LOST when nobody listens there (yet), TN_TIMEOUT; both say what was
  // tried. [any-thread; blocks; may fail]
  static Result<Socket> connect(const Numbers& where, const Deadline& deadline);
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // The port it listens on; and with the host, in numbers: "127.0.0.1:29500".
  uint16_t port() const noexcept;
  std::string here() const;

  // All of it. TN_PEER_LOST when the other end has closed, TN_TIMEOUT. [one thread; blocks; may fail]
  Status send(std::string_view bytes, const Deadline& deadline);
  Status receive(std::span<char> bytes, const Deadline& deadline);

  // What can be done now, for servers: a new connection (empty: none waits), bytes appended to or taken off a string.
  // False when the other end is gone. [one thread; does not block; cannot fail]
  Socket accept() noexcept;
  bool read_into(std::string& bytes, size_t limit);
  bool write_from(std::string& bytes);
  int number() const noexcept { return fd_.get(); }

 private:
  explicit Socket(Fd fd) noexcept : fd_(std::move(fd)) {}
  static Result<Socket> listen_on(const Numbers::One& number);
  static Result<Socket> connect_to(const Numbers::One& number, const Deadline& deadline);
  Status wait_for(short events, const Deadline& deadline);
  Fd fd_;
};

// Wakes a thread that waits in `wait_any`.
class Bell {
 public:
  static Result<Bell> make();
  // [any-thread; does not block; cannot fail]
  void ring() noexcept;
  // Takes all rings so far. [the thread that waits; does not block; cannot fail]
  void hush() noexcept;
  int number() const noexcept { return fd_.get(); }

 private:
  explicit Bell(Fd fd) noexcept : fd_(std::move(fd)) {}
  Fd fd_;
};

// Waits until one of `numbers` can be read, or written where `writes` says so, and marks those in `ready`.
// [one thread; blocks; cannot fail]
struct Interest {
  int number = -1;
  bool writes = false;
  bool ready = false;
};
void wait_any(std::span<Interest> interests, const Deadline& deadline);

}  // namespace tenon::base
