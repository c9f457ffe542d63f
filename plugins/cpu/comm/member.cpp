// SPDX-License-Identifier: Apache-2.0
// member.cpp: arriving, meeting, steps, and failing together; waiting.cpp has what a rank does until others are there.
//
// Invariant: what a rank stores is visible to the others before the step, or the bell, that tells them of it.
#include "member.hpp"

#include <tenon/author/comm_checks.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace tenon::cpu::comm {

using author::text;

namespace {

// How long a failed rank waits for others, of other processes, to take their hands off its memory.
constexpr uint64_t hands_off_ns = 1'000'000'000;
// Some microseconds, which is what handing a group to a worker and back takes; ranks that share processors give them to each other
// for so long.
constexpr uint32_t moment_turns = 512;
constexpr uint64_t moment_ns = 20'000;
// Of those of a crowded wait, each with a look at the clock: some microseconds, in which ranks that share another processor take
// turns there. Where only such are awaited, giving this one away would bring them no sooner, and this rank back later.
constexpr uint32_t switch_turns = 64;

}  // namespace

// All ranks have finished as many steps as this one.
class Member::Everyone final : public Condition {
 public:
  explicit Everyone(Member& member) noexcept : member_(member) {}
  bool met() override {
    if (member_.meanwhile_ != nullptr) (void)member_.meanwhile_->advance();
    for (; next_ < member_.mates_.size(); ++next_) {
      if (behind(member_.mates_[next_])) return false;
    }
    return true;
  }
  bool awaits(uint32_t rank) const override { return behind(rank); }  // asked of mates
  // Whether one that is awaited may be waiting for this thread's processor.
  bool awaits_neighbour() const noexcept {
    for (size_t i = next_; i < member_.mates_.size(); ++i) {
      const uint32_t q = member_.mates_[i];
      if (member_.peers_[q].neighbour && behind(q)) return true;
    }
    return false;
  }

 private:
  bool behind(uint32_t rank) const noexcept {
    const uint32_t theirs = member_.step_of(rank).number.load(std::memory_order_seq_cst);
    return static_cast<int32_t>(theirs - member_.epoch_) < 0;
  }
  Member& member_;
  size_t next_ = 0;  // mates before it have been seen to be there
};

Member::Member(std::shared_ptr<Segment> segment, uint32_t rank, uint64_t timeout_ns, std::string name)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->size()),
      timeout_(timeout_ns),
      name_(std::move(name)),
      process_(system::process()),
      peers_(size_),
      mates_(size_) {
  std::iota(mates_.begin(), mates_.end(), 0u);
}

Member::~Member() {
  if (!arrived_) return;
  slot(rank_).gone.store(1);
  for (const uint32_t q : mates_) ring(q);
}

Status Member::arrive(const system::Fd& memory) {
  Slot& own = slot(rank_);
  int32_t free = 0;
  if (!own.process.compare_exchange_strong(free, process_)) {
    return Status(TN_INVALID, text("rank ", rank_, " has joined already, as process ", free,
                                   ": give each rank its own number, and each communicator its own id"));
  }
  arrived_ = true;
  own.descriptor = memory.get();
  own.base = reinterpret_cast<uint64_t>(segment_->base());
  own.processors = system::processors();
  Header& header = segment_->header();
  if (!system::take_part_in_fences()) header.unfenced.store(1);
  header.arrived.fetch_add(1);
  system::wake_all(header.arrived);
  return {};
}

void Member::keep_to_mates(const std::vector<std::string>& abroad) {
  mates_.clear();
  for (uint32_t q = 0; q < size_; ++q) {
    peers_[q].abroad = abroad[q];
    if (is_here(q)) mates_.push_back(q);
  }
}

Status Member::meet() {
  one_process_ = true;
  for (const uint32_t q : mates_) {
    Peer& peer = peers_[q];
    peer.process = slot(q).process.load();
    if (peer.process == process_) continue;
    one_process_ = false;
    peer.watched = system::watch(peer.process);
    watches_all_ = watches_all_ && peer.watched;
    if (system::has_ended(peer.watched, peer.process))
      return fail(TN_PEER_LOST, text(in_words(q), " ended while the communicator was made"));
  }
  return {};
}

void Member::settle() noexcept {
  slot(rank_).settled.store(1);
  Header& header = segment_->header();
  header.settled.fetch_add(1);
  system::wake_all(header.settled);
}

system::Processors Member::processors() noexcept {
  system::Processors all{};
  for (const uint32_t q : mates_) {
    for (size_t i = 0; i < all.size(); ++i) all[i] |= slot(q).processors[i];
  }
  return all;
}

void Member::look_around(size_t ranks) noexcept {
  size_t count = 0;
  for (const uint64_t word : processors()) count += static_cast<size_t>(std::popcount(word));
  crowded_ = count < 2 || count < ranks;
  for (const uint32_t q : mates_) {
    for (size_t i = 0; q != rank_ && i < system::processor_words; ++i) {
      if ((slot(q).processors[i] & slot(rank_).processors[i]) != 0) peers_[q].neighbour = true;
    }
  }
  open_ = segment_->header().closed.load() == 0;
  unfenced_ = segment_->header().unfenced.load() != 0;
  readable_ = segment_->header().unread.load() == 0;
  if (readable_ && segment_->header().slower.load() == 0)
    read_from_ = segment_->header().slow.load() == 0 ? 0 : past_caches;
}

std::string Member::in_words(uint32_t rank) const {
  if (!is_here(rank)) return text("rank ", rank, " (", peers_[rank].abroad, ")");
  return text("rank ", rank, " (process ", peers_[rank].process, ")");
}

std::string Member::doing_in_words() const {
  return text("group ", sequence_, " (", author::kind_name(kind_), ")");
}

void Member::tell(uint32_t rank) noexcept {
  ++deeds_;
  ring(rank);
}

void Member::ring(uint32_t rank) noexcept {
  Slot& other = slot(rank);
  if (other.asleep.load(std::memory_order_seq_cst) == 0) return;
  other.bell.fetch_add(1, std::memory_order_seq_cst);
  system::wake_all(other.bell);
}

void Member::post(bool noted) noexcept {
  Step& step = next_step();
  step.noted = noted ? 1 : 0;
  step.number.store(++epoch_, std::memory_order_release);
  if (unfenced_)
    std::atomic_thread_fence(std::memory_order_seq_cst);
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);
  for (const uint32_t q : mates_) {
    if (q != rank_) tell(q);
  }
}

Status Member::wait_all() {
  Everyone everyone(*this);
  return wait(everyone);
}

bool Member::all_are_here() noexcept {
  Everyone everyone(*this);
  if (everyone.met()) return true;
  if (crowded_) {
    uint64_t end = driver::never;  // known after the first turn, which mostly is enough
    for (uint32_t kept = 0;;) {
      if (kept++ < switch_turns && !everyone.awaits_neighbour()) {
        driver::pause();
      } else {
        kept = 0;
        driver::yield();
      }
      if (everyone.met()) return true;
      const uint64_t now = driver::now_ns();
      if (now >= end) return false;
      if (end == driver::never) end = now + moment_ns;
    }
  }
  for (uint32_t turn = 0; turn < moment_turns; ++turn) {
    driver::pause();
    if (everyone.met()) return true;
  }
  return false;
}

bool Member::lost(uint32_t rank) noexcept {
  if (slot(rank).gone.load() != 0) return true;
  return !same_process(rank) && system::has_ended(peers_[rank].watched, peers_[rank].process);
}

// Whoever failed waits for those that may touch its memory: either it sees that they are in, or they see that it failed. Of others
// it may see late that they are out, and then looks again.
Status Member::enter(uint32_t freed, bool reaches) {
  if (freed != freed_) slot(rank_).freed.store(freed_ = freed, std::memory_order_relaxed);
  reaches_ = reaches;
  slot(rank_).inside.store(1, reaches ? std::memory_order_seq_cst : std::memory_order_relaxed);
  return failed() ? failure() : Status();
}

void Member::leave() noexcept {
  slot(rank_).inside.store(0, reaches_ ? std::memory_order_seq_cst : std::memory_order_release);
  if (!failed()) [[likely]]
    return;
  system::wake_all(slot(rank_).inside);
  // A rank that gave no sign of life in all that time is stopped, and will not leave either.
  const bool late = segment_->header().failure.code.load() == static_cast<uint32_t>(TN_TIMEOUT);
  const uint64_t patience =
      driver::deadline_after(late ? std::min(hands_off_ns, timeout_ / 32) : hands_off_ns);
  for (const uint32_t q : mates_) {
    Slot& other = slot(q);
    while (other.inside.load(std::memory_order_seq_cst) != 0) {
      if (!same_process(q) && (lost(q) || driver::now_ns() >= patience)) break;
      system::sleep_on(other.inside, 1, driver::deadline_after(look_ns / 4));
    }
  }
}

Status Member::failure() {
  const Failure& failed = segment_->header().failure;
  const auto code = static_cast<int32_t>(failed.code.load());
  const char* const words = failed.words[0] != '\0' ? failed.words : "a rank ended before it had said why";
  return Status(code, text("communicator '", name_, "', rank ", rank_, ": ", words));
}

Status Member::fail(int32_t code, const std::string& words) {
  if (segment_->header().failure.set(code, words)) {
    for (const uint32_t q : mates_) ring(q);
  }
  // Whoever came first needs a moment to write; should it end in that moment, this code serves, so that all know of an end.
  for (uint32_t turn = 0; turn < 1000 && !failed(); ++turn) driver::yield();
  if (segment_->header().failure.set_code(code)) {
    for (const uint32_t q : mates_) ring(q);
  } else {
    return failure();
  }
  return Status(code, text("communicator '", name_, "', rank ", rank_, ": ", words));
}

}  // namespace tenon::cpu::comm
