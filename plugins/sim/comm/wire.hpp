// SPDX-License-Identifier: Apache-2.0
// wire.hpp: what ranks and the hub of their communicator tell each other: frames, and the parts of a group in them.
//
// Invariant: a frame is read whole or not at all; one that does not parse is refused, whatever its bytes.
#pragma once

#include <tenon/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sim::comm {

using Bytes = std::vector<std::byte>;

enum class Topic : uint32_t {
  hello,    // a rank: who it is
  missing,  // the hub: who has not come yet
  welcome,  // the hub: all have
  group,    // a rank: what it brings
  results,  // the hub: what it gets
  failed,   // the hub: it is over, and why
  aborted,  // a rank: it ends it, and why
  left,     // a rank: in good order
};

struct Frame {
  Topic topic = Topic::hello;
  Bytes body{};
};

struct Hello {
  uint64_t token = 0;
  uint64_t rank = 0, size = 0;
  uint64_t process = 0;
  uint64_t timeout_ns = 0;
};

// One operation of a group, with the bytes that this rank brings.
struct Part {
  uint32_t kind = 0, dtype = 0, reduce = 0;
  uint32_t peer = 0;  // root, or the other rank of a message
  uint64_t count = 0;
  std::vector<uint64_t> send_counts{}, recv_counts{};  // of all_to_all_v
  Bytes bytes{};
};

// [any-thread; does not block; may throw bad_alloc]
Frame frame_of(const Hello& hello);
Frame frame_of(const std::vector<Part>& group);
Frame frame_of(const std::vector<Bytes>& results);
Frame frame_of(Topic topic, std::string_view words = {});
Frame frame_of(const Error& failure);

// Nothing when the frame does not parse. [any-thread; does not block; may throw bad_alloc]
std::optional<Hello> hello_in(const Frame& frame);
std::optional<std::vector<Part>> group_in(const Frame& frame);
std::optional<std::vector<Bytes>> results_in(const Frame& frame);
std::string words_in(const Frame& frame);
Error failure_in(const Frame& frame);

// What lies between frames and a socket.
class Reel {
 public:
  void push(const Frame& frame);
  std::span<const std::byte> unsent() const noexcept { return std::span(out_).subspan(sent_); }
  void went(size_t bytes) noexcept;

  void came(std::span<const std::byte> bytes) { in_.insert(in_.end(), bytes.begin(), bytes.end()); }
  // The next whole frame. [any-thread; does not block; may throw bad_alloc]
  std::optional<Frame> pop();
  // What came cannot be a frame. [any-thread; does not block; cannot fail]
  bool torn() const noexcept { return torn_; }

 private:
  Bytes out_{}, in_{};
  size_t sent_ = 0;
  bool torn_ = false;
};

}  // namespace tenon::sim::comm
