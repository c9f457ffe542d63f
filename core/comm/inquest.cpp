// SPDX-License-Identifier: Apache-2.0
// inquest.cpp: see inquest.hpp.
#include "comm/inquest.hpp"

#include "comm/words.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace tenon::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds first_patience = 500ms, longest_patience = 8s;
constexpr uint64_t patient_after = 64;  // statements: what is slow by nature leaves fewer and fewer of them
constexpr std::chrono::nanoseconds first_again = 2s, longest_again = 8s;
constexpr std::chrono::nanoseconds soonest_again = 400ms;  // after something has changed
constexpr std::chrono::nanoseconds surely_taken = 1s;      // who refuses a group does so before it waits
constexpr std::chrono::nanoseconds surely_written = 2s;    // by who stands still, too
constexpr std::chrono::nanoseconds longest_reply = 500ms;
constexpr size_t most_assemblies = 8;

std::string place_of(const std::string& key, uint64_t round) {
  return key + "/standing/" + std::to_string(round);
}
std::string place_of(const std::string& key, uint64_t round, uint32_t rank) {
  return place_of(key, round) + "/" + std::to_string(rank);
}

std::string begin_of(const std::string& name) { return "communicator '" + name + "': "; }

}  // namespace

Inquest::Inquest(const detail::CommState& comm, const Flight& flight)
    : membership(comm, flight), comm_(comm), flight_(flight), stay_(runtime::Stay::of_this_thread()) {}

void Inquest::note_submit(runtime::Timeline& line) noexcept try {
  if (line.collects.load(std::memory_order_relaxed)) captured_.store(true);
  if (submits_ == std::this_thread::get_id()) return;
  submits_ = std::this_thread::get_id();
  const std::lock_guard lock(mutex_);
  stay_ = nullptr;
  stay_ = runtime::Stay::of_this_thread();
} catch (const std::bad_alloc&) {  // then it is not known where the thread is held
}

void Inquest::comes_behind(const Membership& other, const runtime::Timeline& line) noexcept {
  auto mark = other.before(flight_.groups() + 1, line, membership);
  if (!mark) return;
  const std::lock_guard lock(mutex_);
  marks_[marked_++ % marks_.size()] = *std::move(mark);
}

void Inquest::refused() noexcept {
  const uint64_t groups = flight_.groups();
  const std::lock_guard lock(mutex_);
  for (Membership::Mark& mark : marks_)
    if (mark.group > groups) mark = {};
}

std::optional<runtime::Stay::Place> Inquest::place() const noexcept {
  const std::lock_guard lock(mutex_);
  return stay_ ? stay_->place() : std::nullopt;
}

std::chrono::nanoseconds Inquest::patience() const noexcept {
  const uint64_t doublings = std::min<uint64_t>(told_ / patient_after, 10);
  return std::min<std::chrono::nanoseconds>(first_patience * (1 << doublings), longest_patience);
}

bool Inquest::is_time(bool stands, Time now) noexcept {
  if (const uint64_t notes = flight_.notes(); std::exchange(notes_, notes) != notes) notes_since_ = now;
  if (!stands && since_) {
    since_.reset();
    asked_absent_ = false;
    const std::lock_guard lock(mutex_);
    absent_.clear();
  }
  if (stands && !since_) since_ = now;
  const auto held = place();
  if (const uint64_t number = held ? held->number : 0; std::exchange(held_, number) != number || number == 0)
    held_since_ = number == 0 ? std::nullopt : std::optional(now);
  if (captured_.load()) return false;
  const auto is_long = [&](const std::optional<Time>& since) { return since && now - *since >= patience(); };
  return is_long(since_) || is_long(held_since_);
}

// None: the thread that was held has gone on meanwhile. It is held while groups are read, so what it submits next comes behind them.
std::optional<Standing> Inquest::standing(Time now) {
  const auto held = place();
  std::vector<Standing::Behind> behind;
  const Flight::Noted noted = flight_.noted();
  const bool may_be_refused = noted.notes != notes_ || now - notes_since_ < surely_taken;
  Standing out = Standing::of(noted, may_be_refused);
  if (held) behind = membership.behind(noted.groups + 1, *held);
  {
    const std::lock_guard lock(mutex_);
    for (const Membership::Mark& mark : marks_)
      if (mark.member && mark.group <= out.groups) out.behind.push_back(mark.words());
  }
  if (behind.empty()) return out;
  const auto still = place();
  if (!still || still->number != held->number) return std::nullopt;
  out.behind.insert(out.behind.end(), behind.begin(), behind.end());
  return out;
}

// Rounds are opened one after the other, so their number is looked for in strides.
uint64_t Inquest::newest(const std::string& key, uint64_t known) const {
  const auto opened = [&](uint64_t round) {
    const auto found = comm_.store.state()->look(place_of(key, round), base::Deadline(longest_reply));
    return found.ok() && *found;
  };
  uint64_t stride = 1;
  for (; opened(known + stride); stride *= 2) known += stride;
  while ((stride /= 2) != 0)
    if (opened(known + stride)) known += stride;
  return known;
}

// Writes to the newest round, once; opens another where that is over.
void Inquest::say(const Standing& own, Time now) {
  round_ = newest(comm_.key, round_);
  const bool stands = since_ && now - *since_ >= patience();
  const bool changed = own != own_;
  const auto due = changed ? soonest_again : again_;
  if (said_ == round_ && stands && (round_ == 0 || now - said_at_ >= due)) {
    const Status opened = comm_.store.state()->set(place_of(comm_.key, round_ + 1),
                                                   std::to_string(comm_.rank), base::Deadline(longest_reply));
    if (!opened.ok() && opened.code() != TN_INVALID) return;
    ++round_;
    if (opened.ok()) judges_ = round_;
  }
  if (said_ == round_) return;
  // Who takes part in a round leaves it time, whoever opened it: a newer one would have another judge.
  again_ = changed ? first_again : std::clamp(2 * again_, first_again, longest_again);
  own_ = own;
  said_at_ = now;
  said_ = round_;
  ++told_;
  has_said_.store(true, std::memory_order_release);
  static_cast<void>(comm_.store.state()->set(place_of(comm_.key, round_, comm_.rank), own.text(),
                                             base::Deadline(longest_reply)));
  assembly_ = {.key = comm_.key, .name = comm_.options.name, .size = comm_.size};
  assembly_.ranks.emplace(comm_.rank, own);
}

std::optional<Inquest::Verdict> Inquest::hold(Time now) {
  const auto own = standing(now);
  if (!own) return std::nullopt;
  say(*own, now);
  const auto late = std::max<std::chrono::nanoseconds>(comm_.options.timeout / 2, surely_written);
  if (!asked_absent_ && since_ && now - *since_ >= late) find_absent();
  return judges_ != 0 && judges_ == round_ ? judge() : std::nullopt;
}

// Asked once, by every rank: each has an error of its own when its time is over.
void Inquest::find_absent() {
  asked_absent_ = true;
  Assembly came{.key = comm_.key, .name = {}, .size = comm_.size, .ranks = {}};
  if (!read(came, round_)) return;
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < comm_.size; ++rank)
    if (!came.ranks.contains(rank)) absent.push_back(rank);
  const std::lock_guard lock(mutex_);
  absent_ = std::move(absent);
}

void Inquest::name_absent(Error& late) const {
  const std::lock_guard lock(mutex_);
  if (absent_.empty()) return;
  const std::string who = "; " + rank_words(absent_) + (absent_.size() == 1 ? " has" : " have") +
                          " not said to wait, too: computing, stopped, or gone";
  if (!late.message.ends_with(who)) late.message += who;
}

// What ranks have written that is not known yet. False: the store does not answer.
bool Inquest::read(Assembly& assembly, uint64_t round) const {
  for (uint32_t rank = 0; rank < assembly.size; ++rank) {
    if (assembly.ranks.contains(rank)) continue;
    const auto said =
        comm_.store.state()->look(place_of(assembly.key, round, rank), base::Deadline(longest_reply));
    if (!said.ok()) return false;
    if (!*said) continue;
    if (auto standing = Standing::read(**said)) assembly.ranks.emplace(rank, *std::move(standing));
  }
  return true;
}

// This communicator, and those that its ranks' groups come behind.
std::vector<Assembly> Inquest::with_others() {
  std::vector<Assembly> all{assembly_};
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Standing::Behind> named;
    for (const auto& [rank, standing] : all[i].ranks)
      named.insert(named.end(), standing.behind.begin(), standing.behind.end());
    for (const Standing::Behind& behind : named) {
      const bool known = std::ranges::find(all, behind.key, &Assembly::key) != all.end();
      if (known || all.size() == most_assemblies) continue;
      uint64_t& round = rounds_[behind.key];
      round = newest(behind.key, round);
      all.push_back({.key = behind.key, .name = behind.name, .size = behind.size});
      if (round != 0) read(all.back(), round);
    }
  }
  return all;
}

std::optional<Inquest::Verdict> Inquest::judge() {
  read(assembly_, round_);
  if (const std::string differ = difference(assembly_); !differ.empty())
    return Verdict{.message = begin_of(comm_.options.name) + differ, .keys = {comm_.key}};
  const std::vector<Assembly> all = with_others();
  const Circle found = circle(all);
  if (found.words.empty()) return std::nullopt;
  Verdict out{.message = begin_of(all[found.assemblies.front()].name) + found.words};
  for (const size_t each : found.assemblies) out.keys.push_back(all[each].key);
  return out;
}

}  // namespace tenon::comm
