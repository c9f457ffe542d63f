// SPDX-License-Identifier: Apache-2.0
// inquest.hpp: finds out, through the store, whether ranks that stand still have not submitted the same, or wait in a circle.
//
// A rank that has stood still for half a second opens a round: a key. All that stand still in it write there what they have submitted;
// who opened it reads that and judges. A thread that submits to a communicator may be held on a stream of another one: then it writes,
// too, but opens nothing. Rounds are opened anew when something has changed, and every few seconds, as who judged may have gone on.
// Invariant: who goes on, computes or has nothing to do writes nothing.
#pragma once

#include "comm/membership.hpp"
#include "comm/order_check.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon::comm {

class Inquest {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Verdict {
    std::string message{};            // a TN_MISMATCH
    std::vector<std::string> keys{};  // of the communicators that it ends
  };

  // For a rank of `comm`, which notes its groups in `flight`. Both outlive this.
  Inquest(const detail::CommState& comm, const Flight& flight);

  // The next group goes on `line`, and this thread submits it. [stream's thread; does not block; cannot fail]
  void attend(runtime::Timeline& line) noexcept {
    if (submits_ != std::this_thread::get_id() || line.collects.load(std::memory_order_relaxed)) [[unlikely]]
      note_submit(line);
  }
  // On `line`, which carries that group, `other` was before. [stream's thread; may block; cannot fail]
  void comes_behind(const Membership& other, const runtime::Timeline& line) noexcept;
  // The next group was refused. [stream's thread; may block; cannot fail]
  void refused() noexcept;

  // Whether the store is to be asked now, as a stream of this one `stands` still, or its thread is held.
  // [the relay's thread; does not block; cannot fail]
  bool is_time(bool stands, Time now) noexcept;
  // Takes part in the round, and judges where it is this one's. [the relay's thread; may block; may throw std::bad_alloc]
  std::optional<Verdict> hold(Time now);

  // Whether this rank has said in some round what it waits for. [any-thread; does not block; cannot fail]
  bool has_said() const noexcept { return has_said_.load(std::memory_order_acquire); }
  // Adds to `late`, the end of this rank's waiting, who did not come. [any-thread; does not block; may throw std::bad_alloc]
  void name_absent(Error& late) const;

  Membership membership;

 private:
  void note_submit(runtime::Timeline& line) noexcept;
  std::optional<Standing> standing(Time now);
  std::optional<runtime::Stay::Place> place() const noexcept;
  void say(const Standing& own, Time now);
  std::optional<Verdict> judge();
  void find_absent();
  bool read(Assembly& assembly, uint64_t round) const;
  std::vector<Assembly> with_others();
  uint64_t newest(const std::string& key, uint64_t known) const;
  std::chrono::nanoseconds patience() const noexcept;

  const detail::CommState& comm_;
  const Flight& flight_;
  std::thread::id submits_ = std::this_thread::get_id();  // whoever submitted last

  mutable std::mutex mutex_;
  std::shared_ptr<runtime::Stay> stay_;       // of that thread
  std::array<Membership::Mark, 64> marks_{};  // the last ones, by the order of streams
  size_t marked_ = 0;                         // so far
  std::vector<uint32_t> absent_{};            // had written nothing when half of the timeout was over
  std::atomic<bool> has_said_{false};
  std::atomic<bool> captured_{false};  // groups that may run as often as they like, so nobody can count them

  // The relay's thread alone.
  std::optional<Time> since_{}, held_since_{};
  uint64_t held_ = 0, notes_ = 0;  // the number of a stay, and of what was noted
  Time notes_since_{}, said_at_{};
  uint64_t round_ = 0;   // the newest
  uint64_t said_ = 0;    // the last that was written to
  uint64_t judges_ = 0;  // the last that was opened here
  bool asked_absent_ = false;
  uint64_t told_ = 0;  // how often it wrote
  std::chrono::nanoseconds again_{};
  Standing own_{};
  Assembly assembly_{};
  std::map<std::string, uint64_t> rounds_{};  // of other communicators
};

}  // namespace tenon::comm
