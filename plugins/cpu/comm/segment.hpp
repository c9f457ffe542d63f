// SPDX-License-Identifier: Apache-2.0
// segment.hpp: the memory that the ranks of one communicator share on one host, and what lies where in it.
//
//   Header | a Slot of each rank, with two Steps | two Boards for each rank | a Channel for each pair | rings of the pairs | stages
//
// There is room for all ranks on every host: boards and stages of ranks on other hosts are copies that came over the network
// (bridge.hpp). All of it starts as zeros, which is a valid beginning of every part.
// Invariant: a part has one writer, or is atomic; nothing here is a pointer, because every process maps it elsewhere.
#pragma once

#include "system.hpp"

#include <cstddef>
#include <memory>

namespace tenon::cpu::comm {

// Where bytes lie that another rank may want to reach.
struct Window {
  static constexpr uint32_t none = 0;      // no bytes
  static constexpr uint32_t personal = 1;  // for threads of that process only
  static constexpr uint32_t shared = 2;    // inside a memory that others can open
  uint32_t kind = none;
  int32_t number = -1;   // shared: the descriptor in the owner's process …
  uint64_t inode = 0;    // … and what must be found behind it
  uint64_t offset = 0;   // shared: in that memory
  uint64_t address = 0;  // in the owner's process, where it can be read
};

// What a collective is. All ranks have the same, but for the factor.
struct Terms {
  uint32_t kind = 0, dtype = 0, reduce = 0;
  int32_t root = -1;
  uint64_t count = 0;
  uint64_t factor = 0;  // bits of an int64_t or a double, as the dtype has it
};

// Whether two ranks are in the same collective.
inline bool alike(const Terms& a, const Terms& b) noexcept {
  return a.kind == b.kind && a.dtype == b.dtype && a.reduce == b.reduce && a.root == b.root &&
         a.count == b.count;
}

// One collective as the other ranks must know it.
struct Card : Terms {
  Window send{}, recv{};
};

// What one rank brings to one group: the cards of its collectives, and their data when there is little of it.
struct Board {
  static constexpr uint32_t most_cards = 128;
  static constexpr uint64_t eager_bytes = 8 << 10;
  uint64_t sequence;
  uint32_t count;
  // The cards, and behind them the data: what is used is one run of bytes.
  alignas(64) std::byte room[most_cards * sizeof(Card) + eager_bytes];

  Card* cards() noexcept { return reinterpret_cast<Card*>(room); }
  const Card* cards() const noexcept { return reinterpret_cast<const Card*>(room); }
  std::byte* data() noexcept { return room + data_at(); }
  const std::byte* data() const noexcept { return room + data_at(); }
  // Of a board that holds so many bytes of data.
  uint64_t used(uint64_t data_bytes) const noexcept {
    return static_cast<uint64_t>(room - reinterpret_cast<const std::byte*>(this)) + data_at() + data_bytes;
  }

 private:
  uint64_t data_at() const noexcept { return (count * sizeof(Card) + 63) / 64 * 64; }
};

// A step that a rank has finished. A group of one collective and a few bytes lies beside it, so that one line says that the rank
// has come, with what, and what it brings; every other group lies on a board.
struct alignas(128) Step {
  static constexpr uint64_t most_bytes = 16;
  std::atomic<uint32_t> number;  // written last
  uint32_t noted;                // 1: the group lies here
  uint64_t sequence;
  Terms terms;
  std::byte data[most_bytes];
};
static_assert(offsetof(Step, data) + Step::most_bytes <= 64);

struct Slot {
  static constexpr uint32_t most_ranks = 256;
  // The last two that the rank has finished, by the last bit of their number: who finishes one has seen that all others finished
  // the one before, and so are done with the one before that.
  Step steps[2];
  alignas(128) std::atomic<uint32_t> beat;  // changes as it works on a long step
  // How often its process gave shared memory back: what others mapped may be stale.
  std::atomic<uint32_t> freed;
  // Read by whoever finishes a step, written around sleep only.
  alignas(128) std::atomic<uint32_t> asleep;
  std::atomic<uint32_t> bell;   // what it sleeps on
  std::atomic<uint32_t> looks;  // how often it looked, asleep, and found that it must wait on
  std::atomic<uint32_t> kind;   // what it waits in: of the first operation of the group …
  std::atomic<uint64_t> group;  // … of this number
  std::atomic<uint64_t> heard;  // when it last knew that one it waits for was at work
  std::atomic<uint64_t> awaits[most_ranks / 64];  // whom it waited for when it last looked, one bit each
  // Rarely written.
  alignas(128) std::atomic<int32_t> process;  // 0: has not come
  std::atomic<uint32_t> inside;               // 1: in a group
  std::atomic<uint32_t> settled;              // 1: has looked at all others
  std::atomic<uint32_t> gone;                 // 1: destroyed its communicator
  int32_t descriptor;                         // of the segment in its process, for others to try
  uint64_t base;                              // of the segment in its process, for others to read
  system::Processors processors;

  // Changes with each step. [any-thread; does not block; cannot fail]
  uint32_t pace() const noexcept { return steps[0].number.load() + steps[1].number.load(); }
};

// Messages from one rank to another, one after the other; bytes flow through a ring where the receiver cannot reach them.
struct Channel {
  alignas(128) std::atomic<uint64_t> offered;  // messages
  std::atomic<uint64_t> filled;                // bytes put into the ring
  uint64_t count;                              // of the newest message
  uint32_t dtype;
  uint32_t streams;  // 1: through the ring
  Window window;
  alignas(128) std::atomic<uint64_t> taken;  // messages
  std::atomic<uint64_t> drained;             // bytes taken out of the ring
};

// The first failure of the communicator, for all ranks.
struct Failure {
  static constexpr size_t most_words = 400;
  // Makes this the failure; false when another came first. [any-thread; does not block; cannot fail]
  bool set(int32_t why, std::string_view said) noexcept;
  // Without words, where whoever came first ended before it had said why; false when it has. [any-thread; does not block; cannot fail]
  bool set_code(int32_t why) noexcept;
  std::atomic<uint32_t> claimed;
  std::atomic<uint32_t> code;  // set last; 0: none
  char words[most_words];
};

struct Header {
  static constexpr uint32_t empty = 0, building = 1, ready = 2, refused = 3;
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> size;     // ranks, as the one that came first was told
  std::atomic<uint32_t> first;    // that one …
  std::atomic<int32_t> builder;   // … and its process, which makes the memory; 0: nobody does
  std::atomic<uint32_t> arrived;  // ranks that have a slot
  std::atomic<uint32_t> settled;  // ranks that have looked at all others
  std::atomic<uint32_t> closed;   // 1: some rank cannot open another's memory
  std::atomic<uint32_t> unread;   // 1: some rank cannot read another's memory, or is told not to
  std::atomic<uint32_t> slow;     // 1: some rank reads another's memory slowly …
  std::atomic<uint32_t> slower;   // … and so slowly that it is never worth it
  std::atomic<uint32_t>
      unfenced;  // 1: some rank takes no part in fences of all, so each step is followed by one of its own
  std::atomic<uint64_t> nonce;  // the id's
  Failure failure;
};

// A rank's room for pieces under way, which is cut into equal parts.
struct Stages {
  uint64_t bytes;
  uint32_t parts;
};

// What lies where, for `size` ranks.
struct Layout {
  explicit Layout(uint32_t size) noexcept;
  uint64_t slots, boards, channels, rings, stages;  // offsets
  uint64_t bytes, far_bytes;  // the whole: of ranks on one host, and where some are on others
  uint64_t ring_bytes;        // of one pair
  Stages near, far;           // in one and the other
};

// A segment as this process maps it: once, however many ranks it has here.
class Segment {
 public:
  static constexpr uint32_t most_ranks = Slot::most_ranks;

  // An address range for far_bytes, of which `bytes` are there. TN_NO_MEMORY. [any-thread; may block; may fail]
  static Result<std::shared_ptr<Segment>> map(const system::Fd& memory, uint32_t size);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  uint32_t size() const noexcept { return size_; }
  const Layout& layout() const noexcept { return layout_; }
  Header& header() noexcept { return *at<Header>(0); }
  Slot& slot(uint32_t rank) noexcept { return at<Slot>(layout_.slots)[rank]; }
  Board& board(uint32_t rank, uint32_t turn) noexcept {
    return at<Board>(layout_.boards)[rank * 2 + turn % 2];
  }
  Channel& channel(uint32_t from, uint32_t to) noexcept {
    return at<Channel>(layout_.channels)[from * size_ + to];
  }
  std::byte* ring(uint32_t from, uint32_t to) noexcept {
    return base_ + layout_.rings + (uint64_t{from} * size_ + to) * layout_.ring_bytes;
  }
  // One of a rank's parts.
  std::byte* stage(uint32_t rank, uint32_t turn, const Stages& of) noexcept {
    return base_ + layout_.stages + rank * of.bytes + turn % of.parts * (of.bytes / of.parts);
  }
  // All of it; two hosts with as many ranks have the same parts at the same offsets.
  std::byte* base() noexcept { return base_; }

 private:
  Segment(std::byte* base, uint32_t size) noexcept : base_(base), size_(size), layout_(size) {}
  template <class T>
  T* at(uint64_t offset) noexcept {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_;
  uint32_t size_;
  Layout layout_;
};

}  // namespace tenon::cpu::comm
