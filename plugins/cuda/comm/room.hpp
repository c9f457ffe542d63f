// SPDX-License-Identifier: Apache-2.0
// room.hpp: where the ranks of one communicator meet: who has come, what fits together, what is called off, who keeps others
// waiting.
//
// A rank brings the parts of a group and goes on at once; its stream waits for the others by the words of the board. The host
// agrees on an exchange with the last part that comes. A thread watches the clock for as long as ranks are in the room.
// Invariant: once the room has failed nothing stands that does not stand already; every rank is told the same, and every
// stream that waits is let go.
#pragma once

#include "member.hpp"
#include "work.hpp"

#include <condition_variable>
#include <functional>
#include <thread>

namespace tenon::cuda::comm {

class Room {
 public:
  static constexpr uint32_t most_parts = 128;        // of a group
  static constexpr uint32_t collectives_deep = 128;  // on their way
  static constexpr uint32_t messages_deep = 32;      // from one rank to one other

  explicit Room(uint64_t token) : token_(token) {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room();
  // The room of this token; made for the first who asks. [any-thread; does not block; cannot fail]
  static std::shared_ptr<Room> at(uint64_t token);

  // Takes a seat; with the last one the communicator stands. TN_INVALID for a seat that is taken; what is wrong with all ends
  // the room: TN_MISMATCH, TN_UNSUPPORTED, TN_NO_MEMORY. [any-thread; may block; may fail]
  Status enter(const Ticket& ticket);
  // Until all have come. `elsewhere` tells of ranks that cannot. TN_TIMEOUT names the missing. [any-thread; blocks; may fail]
  Status wait_for_all(uint32_t rank, const std::function<std::optional<std::string>()>& elsewhere);
  // TN_BUSY until it stands. [any-thread; does not block; may fail]
  Status health(uint32_t rank);
  // Whether its ranks are on several devices. [any-thread; does not block; cannot fail]
  bool spans_devices();
  // Goes; the others are told when they miss it. [one thread; does not block; cannot fail]
  void leave(uint32_t rank);
  // A rank goes with work on its way that has to do with the words: nobody else gets them. [any-thread; does not block; cannot fail]
  void forsake_words();
  void fail(Error why);

  // Whether a group of these parts can be brought now. TN_UNSUPPORTED: it never can. [rank's thread; does not block; may fail]
  Result<bool> has_room(uint32_t rank, const std::vector<Part>& parts);
  // Brings a group: where each part was put. What does not fit ends the room. [rank's thread; does not block; may fail]
  Result<std::vector<Turn>> bring(uint32_t rank, const std::vector<Part>& parts,
                                  const std::shared_ptr<Fate>& fate);

  // Where the ranks of `color` meet: a token, and this rank's place among them; of size 0 for a negative color.
  // [all ranks; blocks; may fail]
  struct Branch {
    uint64_t token = 0;
    uint32_t rank = 0, size = 0;
  };
  Result<Branch> split(uint32_t rank, int32_t color, int32_t key, uint64_t timeout_ns);

 private:
  struct Group {
    std::shared_ptr<Fate> fate{};
    std::vector<Turn> turns{};
  };
  struct Seat {
    bool taken = false, here = false;
    uint64_t timeout_ns = 0, due_ns = 0;
    std::shared_ptr<Gpu> gpu{};
    std::deque<Group> groups{};
    uint64_t splits = 0;
  };
  struct Choice {
    int32_t color = 0, key = 0;
  };
  using Round = std::vector<std::optional<Choice>>;

  // With the mutex held.
  Status stand_up();
  Status check_peers() const;
  Status lay_lanes();
  std::string missing() const;
  Lane& lane_of(uint32_t rank, const Part& part);
  Status settle(Lane& lane, uint32_t member, uint64_t index);
  void end(Error why);
  void tidy();
  bool idle() const;
  void look(uint64_t now_ns);
  Status late(const Lane& lane, uint64_t index, const Entry& entry, uint64_t timeout_ns) const;
  Branch branch(const Round& round, uint64_t number, uint32_t rank) const;
  std::string who(const Round& round) const;
  void watch();

  const uint64_t token_;
  std::mutex mutex_;
  std::condition_variable changed_, watched_;
  std::string name_{};
  std::vector<Seat> seats_{};
  bool stands_ = false, closing_ = false, words_forsaken_ = false;
  std::optional<Error> failure_{};
  std::unique_ptr<Storage> words_{};
  std::vector<Lane> lanes_{};  // of collectives; then of messages, by sender and receiver
  std::map<uint64_t, Round> rounds_{};
  std::thread watch_;
};

}  // namespace tenon::cuda::comm
