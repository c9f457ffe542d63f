// SPDX-License-Identifier: Apache-2.0
// flight_story.hpp: the flight records of all ranks put together: who waited for whom, and in what.
//
// Groups with collectives are compared by their number, and messages by their pairs: ranks need not know of others' messages.
// Invariant: what is said follows from records. A rank without one is part of the story, and of it no more is known.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool {

struct FlightOperation {
  uint64_t group = 0, count = 0, at_ns = 0;
  std::string kind{}, dtype{}, reduce{};
  int64_t peer = -1;
};

// What one rank wrote when its communicator failed; operations in their order, the last ones only.
struct FlightRecord {
  std::string communicator{}, run{}, device{}, code{},
      message{};                                  // `run`: a word for all that met on one store
  uint64_t serial = 0, groups = 0, ended_ns = 0;  // of its name; submitted; on the wall clock
  uint64_t collectives = 0;                       // of the groups those with more than messages
  uint32_t rank = 0, size = 1;
  std::vector<FlightOperation> operations{};
};

// One record's text. TN_INVALID names what is wrong and where. [any-thread; does not block; may fail]
Result<FlightRecord> read_flight(const std::string& text);
// Records of one communicator in words. [any-thread; does not block; cannot fail]
std::string flight_story(std::vector<FlightRecord> records);
// Every communicator of the newest run that has records in `folder`, and how many are there of older ones. TN_NOT_FOUND, TN_INVALID. [any-thread; may block; may fail]
Result<std::string> tell_flight(const std::string& folder);

}  // namespace tenon::tool
