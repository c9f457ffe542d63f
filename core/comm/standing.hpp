// SPDX-License-Identifier: Apache-2.0
// standing.hpp: what a rank that stands still says of a communicator: its last groups, and behind what the next ones come.
//
// Invariant: all of it stays true, whatever the rank does later: groups keep their place, and what was not submitted then comes behind
// what was. So who reads it late is not misled.
#pragma once

#include "comm/flight.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::comm {

struct Standing {
  struct Operation {
    uint32_t kind = 0, dtype = 0, reduce = 0;
    int32_t peer = -1;
    uint64_t count = 0;
    uint64_t turn = 0;  // of a message: which it is among those between the two in this direction, from 1
    bool operator==(const Operation&) const = default;
  };
  struct Group {
    uint64_t number = 0;
    uint64_t collective = 0;  // which it is among those that hold collectives, from 1; 0: it holds none
    std::vector<Operation> operations{};
    bool operator==(const Group&) const = default;
  };
  // Groups from `group` on, which may not have been submitted yet, begin after group `other` of rank `rank` of another communicator
  // has ended.
  struct Behind {
    uint64_t group = 0, other = 0;
    uint32_t rank = 0, size = 0;
    std::string key{}, name{};
    bool operator==(const Behind&) const = default;
  };

  uint64_t groups = 0, collectives = 0;  // submitted
  bool counted = false;                  // whether messages have their turns
  std::vector<uint64_t> sent{};          // to each rank
  std::vector<Group> last{};             // oldest first, none left out
  std::vector<Behind> behind{};
  bool operator==(const Standing&) const = default;

  // Of what was noted. The last group is left out while it may still be refused. [any-thread; does not block; may throw
  // std::bad_alloc]
  static Standing of(const Flight::Noted& noted, bool last_may_be_refused);
  // As others read it. [any-thread; does not block; may throw std::bad_alloc]
  std::string text() const;
  // None for what is no such text. [any-thread; does not block; may throw std::bad_alloc]
  static std::optional<Standing> read(std::string_view text);
};

// "all_reduce sum of 7 f32", "recv of 4 i32 from rank 2". [any-thread; does not block; may throw std::bad_alloc]
std::string words(const Standing::Operation& op);
std::string words(const Standing::Group& group);

}  // namespace tenon::comm
