// SPDX-License-Identifier: Apache-2.0
// card.cpp: ordered trouble, counted.
#include "card.hpp"

#include <tenon/author/text.hpp>

namespace tenon::sim {

using author::text;

Result<std::shared_ptr<Card>> Card::make(const Profile& profile, uint32_t ordinal) {
  auto arena = TN_TRY(Arena::make(profile.memory_bytes()));
  return std::shared_ptr<Card>(new Card(profile, ordinal, std::move(arena)));
}

Card::Card(const Profile& profile, uint32_t ordinal, std::unique_ptr<Arena> arena)
    : profile_(profile), ordinal_(ordinal), arena_(std::move(arena)), random_(profile.seed + ordinal) {}

Status Card::alive() const {
  if (profile_.thread_bound && !Bound::to(*this)) {
    return Status(TN_INTERNAL,
                  text("a thread came near device 'sim:", ordinal_,
                       "' without being bound to it: a defect of this plugin (sim.thread_bound)"));
  }
  if (!lost()) return {};
  return Status(TN_DEVICE_LOST, text("device 'sim:", ordinal_, "' was lost at its command ", profile_.lost_at,
                                     " (sim.lost_at): close it and open it again"));
}

Status Card::before_alloc(uint64_t bytes) {
  TN_TRY(alive());
  if (allocs_.fetch_add(1) + 1 != profile_.oom_at) return {};
  return Status(TN_NO_MEMORY, text("allocation ", profile_.oom_at, ", of ", bytes, " bytes with ",
                                   arena_->total() - arena_->used(), " of ", arena_->total(),
                                   " free, fails on purpose (sim.oom_at)"));
}

Status Card::before_command() {
  TN_TRY(alive());
  ++commands_;
  if (profile_.straggler_in != 0 && random_() % profile_.straggler_in == 0)
    driver::pass_time(profile_.straggler_us * 1000);
  if (commands_ == profile_.lost_at) lost_ = true;
  return alive();
}

void Card::after_launch(std::span<std::byte> output) {
  ++launches_;
  if (launches_ != profile_.corrupt_at || output.empty()) return;
  output[random_() % output.size()] ^= static_cast<std::byte>(1u << (random_() % 8));
}

void Card::travel(uint64_t bytes) {
  if (profile_.link_mib_per_s == 0) return;
  constexpr uint64_t shortest_ns =
      200'000;  // sleeps end some 50 µs late, a small copy's time many times over
  owed_ns_ += bytes * 1'000'000'000 / (profile_.link_mib_per_s << 20);
  if (owed_ns_ >= shortest_ns) driver::pass_time(std::exchange(owed_ns_, 0));
}

}  // namespace tenon::sim
