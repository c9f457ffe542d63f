// SPDX-License-Identifier: Apache-2.0
// protocol.hpp: what the runner and a worker say to each other, as JSON in whole messages.
//
// Invariant: every message from a worker carries the process id of its sender, so what a plugin's forked child repeats
// is recognised; a message is at most `max_message` bytes, longer stories are cut.
#pragma once

#include "conformance/comm/seat.hpp"
#include "conformance/describe.hpp"
#include "conformance/figure.hpp"
#include "conformance/verdict.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

inline constexpr size_t max_message = 60 * 1024;
inline constexpr int worker_descriptor = 3;
// The exit status of a worker whose connection to the runner was closed under it.
inline constexpr int lost_connection_status = 113;

// What a worker is asked to do: describe the plugin, or run cases in this order.
struct Request {
  Settings settings{};
  uint32_t round = 0;
  Seat seat{};            // of a rank that is a process; `cases` is then the one case
  bool describe = false;  // with `cases` empty: open every device and tell its limits too
  bool perf = false;      // measure, and run no case
  std::vector<std::string> cases{};
};

struct Message {
  enum class Kind { begin, end, description, figure };
  Kind kind = Kind::begin;
  int64_t sender = 0;         // process id
  std::string name{};         // the case
  Finding finding{};          // with end
  double milliseconds = 0;    // with end
  Description description{};  // with description
  Figure figure{};            // with figure
};

// [any-thread; does not block; may fail with TN_INVALID on the way back]
std::string encode(const Request& request);
std::string encode(const Message& message);
Result<Request> decode_request(std::string_view text);
Result<Message> decode_message(std::string_view text);

}  // namespace tenon::conform
