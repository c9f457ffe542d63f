// SPDX-License-Identifier: Apache-2.0
// fibers.cpp: a block's threads take turns: each runs until it ends, or waits at a barrier or for its warp.
//
// A fiber takes one thread after the other, so a kernel without barriers is a plain loop; only a thread that waits keeps
// its fiber, and the next ones get another. Compiled without sanitizers: they follow one stack per thread of the host.
// Invariant: a waiting thread goes on only when all it waits for are there; when nobody can go on, the block has failed.
#include "fibers.hpp"

#include "switch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fakecuda {
namespace {

constexpr size_t stack_bytes = 128 << 10, guard_bytes = 4096;
constexpr unsigned warp = 32;

enum class State { ready, at_barrier, at_meeting, ended };

struct Fiber;

// A thread of the block.
struct Lane {
  Thread view{};
  State state = State::ready;
  Fiber* fiber = nullptr;
  const char* what = nullptr;  // the meeting it is at
  unsigned mask = 0;
  uint64_t in = 0;
  uint64_t* out = nullptr;
};

struct Fiber {
  Side side{};
  void* memory = nullptr;
  Fiber() {
    memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(memory, guard_bytes, PROT_NONE);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() { munmap(memory, stack_bytes + guard_bytes); }
  void prepare(void (*begin)()) {
    side.prepare(static_cast<char*>(memory) + guard_bytes, stack_bytes, begin);
  }
};

class Block {
 public:
  std::string run(const Entry& entry, const void* parameters, const Thread& view, bool backwards);
  void wait(State state) {
    Lane& lane = *lane_;
    lane.state = state;
    lane.fiber->side.leave_for(scheduler_);
  }
  void meet(const char* what, unsigned mask, uint64_t in, uint64_t* out);
  [[noreturn]] void fail(std::string why) {
    failure_ = std::move(why);
    lane_->fiber->side.leave_for(scheduler_);
    __builtin_unreachable();  // what failed is not entered again
  }

 private:
  static void begin();
  void take_threads(Fiber& fiber);
  void start_all();
  void go_on(bool backwards);
  bool release_barrier();
  bool release_meetings(size_t first);
  void enter(Fiber& fiber, Lane* lane);
  std::string stuck() const;

  std::vector<std::unique_ptr<Fiber>> fibers_;  // kept from block to block
  std::vector<Lane> lanes_;
  size_t fibers_used_ = 0, started_ = 0, ended_ = 0;
  Side scheduler_;
  Lane* lane_ = nullptr;  // the one that runs
  const Thread** place_ = nullptr;
  const Entry* entry_ = nullptr;
  const void* parameters_ = nullptr;
  std::string failure_;
};

thread_local Block block_here;

// The first thing on a fiber's stack; it never returns.
void Block::begin() {
  Block& block = block_here;
  Fiber& fiber = *block.fibers_[block.fibers_used_ - 1];
  block.take_threads(fiber);
  fiber.side.leave_for(block.scheduler_);
  __builtin_unreachable();
}

void Block::take_threads(Fiber& fiber) {
  while (started_ < lanes_.size()) {
    Lane& lane = lanes_[started_++];
    lane.fiber = &fiber;
    lane_ = &lane;
    *place_ = &lane.view;
    entry_->run(parameters_);
    lane.state = State::ended;
    ++ended_;
  }
}

void Block::enter(Fiber& fiber, Lane* lane) {
  lane_ = lane;
  if (lane != nullptr) *place_ = &lane->view;
  scheduler_.leave_for(fiber.side);
}

// Every thread as far as it gets by itself.
void Block::start_all() {
  while (started_ < lanes_.size() && failure_.empty()) {
    if (fibers_used_ == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers_[fibers_used_++];
    fiber.prepare(&Block::begin);
    enter(fiber, nullptr);
  }
}

void Block::go_on(bool backwards) {
  const size_t count = lanes_.size();
  for (size_t i = 0; i < count && failure_.empty(); ++i) {
    Lane& lane = lanes_[backwards ? count - 1 - i : i];
    if (lane.state == State::ready) enter(*lane.fiber, &lane);
  }
}

bool Block::release_barrier() {
  for (const Lane& lane : lanes_)
    if (lane.state != State::ended && lane.state != State::at_barrier) return false;
  for (Lane& lane : lanes_)
    if (lane.state == State::at_barrier) lane.state = State::ready;
  return true;
}

// One warp's lanes that are all at the same place go on with each other's values.
bool Block::release_meetings(size_t first) {
  const size_t lanes = std::min<size_t>(warp, lanes_.size() - first);
  unsigned released = 0;
  for (size_t i = 0; i < lanes; ++i) {
    const Lane& asked = lanes_[first + i];
    if (asked.state != State::at_meeting || (released >> i & 1) != 0) continue;
    const unsigned there = lanes == warp ? asked.mask : asked.mask & ((1u << lanes) - 1);
    bool all = true;
    for (size_t j = 0; j < lanes && all; ++j) {
      const Lane& other = lanes_[first + j];
      if ((there >> j & 1) != 0)
        all = other.state == State::at_meeting && other.mask == asked.mask && other.what == asked.what;
    }
    if (!all) continue;
    for (size_t j = 0; j < lanes; ++j)
      for (size_t k = 0; k < lanes && (there >> j & 1) != 0; ++k)
        lanes_[first + j].out[k] = lanes_[first + k].in;
    released |= there;
  }
  for (size_t j = 0; j < lanes; ++j)
    if ((released >> j & 1) != 0) lanes_[first + j].state = State::ready;
  return released != 0;
}

std::string Block::stuck() const {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    if (lane.state == State::ended) continue;
    const std::string where = lane.state == State::at_barrier ? "__syncthreads" : lane.what;
    return "thread " + std::to_string(i) + " waits at " + where + " for threads that never come there";
  }
  return {};
}

void Block::meet(const char* what, unsigned mask, uint64_t in, uint64_t* out) {
  Lane& lane = *lane_;
  const auto index = static_cast<size_t>(lane_ - lanes_.data()) % warp;
  if ((mask >> index & 1) == 0) fail(std::string(what) + ": the calling lane is not in its own mask");
  lane.what = what;
  lane.mask = mask;
  lane.in = in;
  lane.out = out;
  wait(State::at_meeting);
}

std::string Block::run(const Entry& entry, const void* parameters, const Thread& view, bool backwards) {
  entry_ = &entry;
  parameters_ = parameters;
  place_ = entry.current();
  failure_.clear();
  fibers_used_ = started_ = ended_ = 0;
  lanes_.assign(size_t{view.block_size.x} * view.block_size.y * view.block_size.z, Lane{});
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].view = view;
    const auto index = static_cast<unsigned>(i), plane = view.block_size.x * view.block_size.y;
    lanes_[i].view.thread_index = {index % view.block_size.x, index / view.block_size.x % view.block_size.y,
                                   index / plane};
  }
  start_all();
  while (ended_ < lanes_.size() && failure_.empty()) {
    bool released = release_barrier();
    for (size_t first = 0; first < lanes_.size(); first += warp) released |= release_meetings(first);
    if (!released) return stuck();
    go_on(backwards);
  }
  return failure_;
}

void barrier() { block_here.wait(State::at_barrier); }
void meet(const char* what, unsigned mask, uint64_t in, uint64_t* out) {
  block_here.meet(what, mask, in, out);
}
void trap(const char* why) { block_here.fail(why); }

constexpr Services the_services{&barrier, &meet, &trap};

}  // namespace

const Services* services() { return &the_services; }

// A module's shared memory and its place for the current thread are its own: its grids take turns.
static std::mutex& turn_of(const Entry& entry) {
  static std::mutex mutex;
  static std::map<const void*, std::mutex> turns;
  const std::lock_guard lock(mutex);
  return turns[entry.current()];
}

std::string run_grid(const Entry& entry, const void* parameters, Dim3 grid, Dim3 block) {
  const std::lock_guard turn(turn_of(entry));
  Thread view{{0, 0, 0}, {0, 0, 0}, block, grid};
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        view.block_index = {x, y, z};
        // Blocks differ in who goes on first after a barrier.
        std::string failure = block_here.run(entry, parameters, view, (x + y + z) % 2 == 1);
        if (!failure.empty())
          return "block (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) +
                 "): " + failure;
      }
    }
  }
  return {};
}

}  // namespace fakecuda
