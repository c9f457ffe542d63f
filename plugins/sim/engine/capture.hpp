// SPDX-License-Identifier: Apache-2.0
// capture.hpp: work that is collected instead of run, by one stream and those that join it.
//
// A stream joins by waiting for a captured value, and has rejoined when the first stream has, directly or not, waited for
// all of its work. Each stream keeps a vector clock of what it has seen; that is all the bookkeeping there is.
// Invariant: steps stand in an order in which they may run. Work that cannot be captured breaks the capture, and `end`
// says why.
#pragma once

#include <tenon/result.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace tenon::sim {

class Capturing;

class Recording {
 public:
  explicit Recording(const Capturing& first) : first_(&first) { members_.insert(&first); }

  // `owner` is kept for as long as the recording may be replayed.
  void add(const Capturing& member, std::function<Status()> step, std::shared_ptr<const void> owner);
  void mark(const Capturing& member, uint64_t value);
  // Whether `value` of `other` was captured here; then `member` has seen what it stands for.
  bool see(const Capturing& member, const Capturing& other, uint64_t value);
  void break_off(const std::string& why);
  void leave(const Capturing& member);
  // TN_INVALID when work was not capturable or a member has not rejoined.
  Status close();
  bool led_by(const Capturing& member) const { return first_ == &member; }
  // Whether all of its work is `owner`'s.
  bool belongs_to(const void* owner) const;
  bool closed() const;
  // Runs all steps. [scheduler's thread]
  Status run() const;

 private:
  using Clock = std::map<const Capturing*, uint64_t>;

  mutable std::mutex mutex_;
  const Capturing* first_;
  std::set<const Capturing*> members_{};
  std::map<const Capturing*, Clock> clocks_{};
  std::map<std::pair<const Capturing*, uint64_t>, Clock> marks_{};
  std::vector<std::function<Status()>> steps_{};
  std::set<std::shared_ptr<const void>> owners_{};
  std::string broken_{};
  bool closed_ = false;
};

// A stream's part in a capture; other streams look at it when they wait.
class Capturing {
 public:
  std::shared_ptr<Recording> recording() const;  // the open one, or nullptr
  void join(std::shared_ptr<Recording> recording);

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Recording> recording_{};
};

}  // namespace tenon::sim
