// SPDX-License-Identifier: Apache-2.0
// member.cpp: spinning, sleeping, and telling a slow rank from a lost one.
//
// Sleeping: a rank announces itself in `asleep`, reads its bell, then looks once more; whoever finishes a step stores it,
// then looks at `asleep`. One of the two sees the other, because all four accesses are sequentially consistent.
// Invariant: a rank is blamed only after it was seen to be missing *after* it was seen to be gone.
#include "member.hpp"

#include "../engine/idle.hpp"

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
// Ranks that share processors give them to each other first: a barrier of 4 on 2 takes 1.2 µs so, and 7 with a futex.
constexpr uint32_t yields = 20;
// Some microseconds, which is what waking a worker takes.
constexpr uint32_t moment_turns = 256;

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

 private:
  bool behind(uint32_t rank) const noexcept {
    const uint32_t theirs = member_.slot(rank).epoch.load(std::memory_order_seq_cst);
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
  const auto processors = system::processors();
  std::copy(processors.begin(), processors.end(), own.processors);
  Header& header = segment_->header();
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
    if (system::has_ended(peer.watched, peer.process))
      return fail(TN_PEER_LOST, text(in_words(q), " ended while the communicator was made"));
  }
  return {};
}

void Member::look_at_processors() noexcept {
  std::array<uint64_t, system::processor_words> all{};
  for (const uint32_t q : mates_) {
    for (size_t i = 0; i < all.size(); ++i) all[i] |= slot(q).processors[i];
  }
  int count = 0;
  for (const uint64_t word : all) count += std::popcount(word);
  crowded_ = count < 2 || static_cast<size_t>(count) < mates_.size();
  open_ = segment_->header().closed.load() == 0;
  readable_ = segment_->header().unread.load() == 0;
  quickly_readable_ = readable_ && segment_->header().slow.load() == 0;
}

std::string Member::in_words(uint32_t rank) const {
  if (!is_here(rank)) return text("rank ", rank, " (", peers_[rank].abroad, ")");
  return text("rank ", rank, " (process ", peers_[rank].process, ")");
}

std::string Member::doing_in_words() const { return text("group ", sequence_, " (", what_, ")"); }

void Member::ring(uint32_t rank) noexcept {
  Slot& other = slot(rank);
  if (other.asleep.load(std::memory_order_seq_cst) == 0) return;
  other.bell.fetch_add(1, std::memory_order_seq_cst);
  system::wake_all(other.bell);
}

void Member::post() noexcept {
  slot(rank_).epoch.store(++epoch_, std::memory_order_seq_cst);
  for (const uint32_t q : mates_) {
    if (q != rank_) ring(q);
  }
}

Status Member::wait_all() {
  Everyone everyone(*this);
  return wait(everyone);
}

bool Member::all_are_here() noexcept {
  Everyone everyone(*this);
  for (uint32_t turn = 0; turn < (crowded_ ? 1 : moment_turns); ++turn) {
    if (everyone.met()) return true;
    driver::pause();
  }
  if (crowded_) driver::yield();
  return everyone.met();
}

Status Member::wait(Condition& condition) {
  const uint32_t turns = crowded_ ? 1 : spin_turns;
  for (uint32_t turn = 1; turn <= turns; ++turn) {
    if (condition.met()) return {};
    if (turn % yield_turns != 0) {
      driver::pause();
      continue;
    }
    if (failed()) break;
    driver::yield();
  }
  for (uint32_t turn = 0; turn < yields; ++turn) {
    driver::yield();
    if (condition.met()) return {};
  }
  return sleep(condition);
}

Status Member::sleep(Condition& condition) {
  Slot& own = slot(rank_);
  uint64_t seen = signs_of_life(), deadline = driver::deadline_after(timeout_);
  Status outcome;
  for (;;) {
    own.asleep.store(1, std::memory_order_seq_cst);
    const uint32_t bell = own.bell.load(std::memory_order_seq_cst);
    if (condition.met()) break;
    if (failed()) {
      outcome = failure();
      break;
    }
    if (const uint64_t signs = signs_of_life(); signs != seen) {
      seen = signs;
      deadline = driver::deadline_after(timeout_);
    }
    const uint64_t now = driver::now_ns();
    outcome = now >= deadline ? too_late(condition) : look_for_lost(condition);
    if (!outcome.ok()) break;
    system::sleep_on(own.bell, bell, std::min(deadline, now + look_ns));
  }
  own.asleep.store(0, std::memory_order_seq_cst);
  return outcome;
}

uint64_t Member::signs_of_life() noexcept {
  uint64_t sum = 0;
  for (const uint32_t q : mates_) {
    if (q == rank_) continue;
    sum += slot(q).epoch.load(std::memory_order_relaxed);
    sum += slot(q).beat.load(std::memory_order_relaxed);
  }
  return sum;
}

bool Member::lost(uint32_t rank) noexcept {
  if (slot(rank).gone.load() != 0) return true;
  return !same_process(rank) && system::has_ended(peers_[rank].watched, peers_[rank].process);
}

Status Member::look_for_lost(Condition& condition) {
  for (const uint32_t q : mates_) {
    if (q == rank_ || !condition.awaits(q) || !lost(q)) continue;
    if (condition.met() || !condition.awaits(q)) continue;  // it was there before it went
    const bool left = slot(q).gone.load() != 0;
    return fail(TN_PEER_LOST,
                text(in_words(q), left ? " destroyed its communicator" : " has ended", " while rank ", rank_,
                     " waited for it in ", doing_in_words(), ": make a communicator of those who are left"));
  }
  return {};
}

Status Member::too_late(const Condition& condition) {
  for (const uint32_t q : mates_) {
    if (q == rank_ || !condition.awaits(q)) continue;
    const char* where = slot(q).inside.load() != 0 ? " is in a group and does not go on" : " did not come";
    return fail(TN_TIMEOUT,
                text(in_words(q), where, "; rank ", rank_, " waited ", timeout_ / 1'000'000, " ms for it in ",
                     doing_in_words(), ": look what holds it up, or give more time"));
  }
  return fail(TN_TIMEOUT, text("rank ", rank_, " itself did not go on in ", doing_in_words()));
}

Status Member::enter() {
  slot(rank_).inside.store(1, std::memory_order_seq_cst);
  return failed() ? failure() : Status();
}

void Member::leave() noexcept {
  slot(rank_).inside.store(0, std::memory_order_seq_cst);
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
  return Status(code, text("communicator '", name_, "', rank ", rank_, ": ", failed.words));
}

Status Member::fail(int32_t code, const std::string& words) {
  Failure& failed = segment_->header().failure;
  uint32_t free = 0;
  if (failed.claimed.compare_exchange_strong(free, 1)) {
    const size_t n = std::min(words.size(), sizeof failed.words - 1);
    std::memcpy(failed.words, words.data(), n);
    failed.code.store(static_cast<uint32_t>(code), std::memory_order_seq_cst);
    for (const uint32_t q : mates_) ring(q);
  }
  // Whoever came first needs a moment to write; should it end in that moment, these words serve.
  for (uint32_t turn = 0; turn < 1000 && !this->failed(); ++turn) driver::yield();
  if (this->failed()) return failure();
  return Status(code, text("communicator '", name_, "', rank ", rank_, ": ", words));
}

}  // namespace tenon::cpu::comm
