// SPDX-License-Identifier: Apache-2.0
// watch.cpp: see watch.hpp.
#include "comm/watch.hpp"

#include "base/text.hpp"
#include "comm/grouping.hpp"
#include "comm/words.hpp"

#include <algorithm>
#include <charconv>

namespace tenon::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 20ms;
constexpr uint32_t ticks_per_look = 10;  // at the store, which may be a network away
constexpr size_t kept_notes = 64, longest_words = 400;
constexpr auto ending = 2s;  // for a verdict that is being written
constexpr std::string_view left = "left";

std::string rank_words(std::span<const uint32_t> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(ranks);
}

std::string words(const tn_comm_op& op, Route route) {
  const std::string kind(kind_name(op.kind)), how(reduction_name(op.reduce));
  if (op.kind == TN_COMM_BARRIER) return kind;
  return kind + (how.empty() ? "" : " " + how) + " of " + std::to_string(op.count) + " " +
         std::string(name(static_cast<DType>(op.dtype))) + ", " + std::string(name(route));
}

// How far an end is from its cause: a stream that failed in one part passes over its groups of the others, which then say
// that they were aborted.
int consequence(int32_t code) noexcept {
  return code == TN_MISMATCH    ? 0
         : code == TN_PEER_LOST ? 1
         : code == TN_TIMEOUT   ? 2
         : code == TN_ABORTED   ? 4
                                : 3;
}

// The code in front, then the message.
std::string packed(const Error& error) { return std::to_string(error.code) + "\n" + error.message; }
Error unpacked(const std::string& text) {
  Error error;
  const size_t line = text.find('\n');
  std::from_chars(text.data(), text.data() + std::min(line, text.size()), error.code);
  error.message = line == std::string::npos ? text : text.substr(line + 1);
  return error;
}

}  // namespace

// What ranks answered: what they saw, how many groups they have submitted, and the last of them in words.
struct Watch::Answers {
  struct Said {
    int32_t code = TN_OK;  // of what it saw
    std::string seen{};
    uint64_t submitted = 0;
    std::vector<std::string> notes{};  // the last one is of group `submitted`
    const std::string* group(uint64_t number) const {
      const uint64_t back = submitted - number;
      return number == 0 || number > submitted || back >= notes.size() ? nullptr
                                                                       : &notes[notes.size() - 1 - back];
    }
  };
  std::vector<uint32_t> silent{}, gone{};
  std::vector<std::pair<uint32_t, Said>> said{};

  static Said read(const std::string& text) {
    std::vector<std::string> lines = base::split(text, '\n');
    lines.resize(std::max<size_t>(lines.size(), 3));
    Said out{.seen = lines[1]};
    std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), out.code);
    std::from_chars(lines[2].data(), lines[2].data() + lines[2].size(), out.submitted);
    out.notes.assign(lines.begin() + 3, lines.end());
    return out;
  }

  // The first group that two ranks submitted differently, in words; empty when there is none.
  std::string difference() const {
    uint64_t most = 0;
    for (const auto& [rank, own] : said) most = std::max(most, own.submitted);
    for (uint64_t number = most < kept_notes ? 1 : most - kept_notes; number <= most; ++number) {
      const std::string* first = nullptr;
      uint32_t first_rank = 0;
      for (const auto& [rank, own] : said) {
        const std::string* group = own.group(number);
        if (group == nullptr) continue;
        if (first != nullptr && *group != *first)
          return "in group " + std::to_string(number) + " rank " + std::to_string(rank) + " has " + *group +
                 ", rank " + std::to_string(first_rank) + " has " + *first;
        if (first == nullptr) first_rank = rank;
        first = group;
      }
    }
    return {};
  }
  // The ranks that have submitted least, unless all have submitted the same.
  std::vector<uint32_t> late() const {
    uint64_t most = 0, least = UINT64_MAX;
    for (const auto& [rank, own] : said) {
      most = std::max(most, own.submitted);
      least = std::min(least, own.submitted);
    }
    std::vector<uint32_t> ranks;
    for (const auto& [rank, own] : said)
      if (own.submitted == least && least < most) ranks.push_back(rank);
    return ranks;
  }
};

Watch::Watch(Store store, std::string key, std::string name, uint32_t rank, uint32_t size, Timeout timeout)
    : store_(std::move(store)),
      key_(std::move(key)),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      grace_(std::clamp<std::chrono::nanoseconds>(timeout / 2, 500ms, 2s)) {}

Watch::~Watch() { leave(); }

void Watch::start(std::vector<std::shared_ptr<detail::CommState>> watched) {
  watched_ = std::move(watched);
  thread_ = std::thread([this] { run(); });
}

void Watch::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  {
    const std::lock_guard lock(parts_mutex_);
    watched_.clear();
  }
  try {
    static_cast<void>(store_.set(key("here", rank_), left));
  } catch (const std::bad_alloc&) {  // then others find this rank silent
  }
}

void Watch::note(std::span<const CommOp> group, std::span<const Route> routes) {
  std::string all;
  for (size_t i = 0; i < group.size(); ++i) all += (i == 0 ? "" : "; ") + words(group[i].abi, routes[i]);
  const std::lock_guard lock(mutex_);
  ++submitted_;
  notes_.push_back(base::printable(all));
  if (notes_.size() > kept_notes) notes_.pop_front();
}

void Watch::end(Error cause) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_ || verdict_) return;
    asked_ = std::move(cause);
    woken_ = true;
  }
  wakes_.notify_all();
}

std::optional<Error> Watch::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_ ? verdict_ : asked_;
}

// Of what ended, that which is least a consequence of the rest.
Status Watch::first_trouble() const {
  const std::lock_guard lock(parts_mutex_);
  Status worst;
  for (const auto& part : watched_) {
    Status health = part->health();
    if (!health.ok() && (worst.ok() || consequence(health.code()) < consequence(worst.code())))
      worst = std::move(health);
  }
  return worst;
}

bool Watch::trouble() const {
  {
    const std::lock_guard lock(mutex_);
    if (verdict_ || asked_) return true;
    if (stopping_) return false;
  }
  return !first_trouble().ok();
}

void Watch::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wakes_.notify_all();
}

std::optional<Error> Watch::await_verdict() {
  if (!trouble()) return std::nullopt;
  wake();
  const base::Deadline deadline(grace_ + 2 * ending);
  while (!deadline.passed()) {
    if (auto known = verdict()) return known;
    std::this_thread::sleep_for(200us);
  }
  return first_trouble().ok() ? std::nullopt : std::optional(first_trouble().error());
}

// Until the next tick; false when the watch is over.
bool Watch::pause() {
  std::unique_lock lock(mutex_);
  wakes_.wait_for(lock, tick, [this] { return stopping_ || woken_; });
  woken_ = false;
  return !stopping_ || (asked_ && !verdict_);  // an end that was asked for is told even by who leaves
}

void Watch::run() {
  for (uint32_t round = 1; pause(); ++round) {
    std::optional<Error> asked;
    {
      const std::lock_guard lock(mutex_);
      asked = asked_;
    }
    if (asked) {
      const bool first = store_.set(key("verdict"), packed(*asked)).code() != TN_INVALID;
      static_cast<void>(store_.set(key("alarm"), std::to_string(rank_)));
      return settle(first ? *std::move(asked) : verdict_of_others(Status(*asked)));
    }
    if (const Status seen = first_trouble(); !seen.ok()) return inquire(seen);
    if (round % ticks_per_look == 0 && store_.get(key("alarm"), tick).ok()) return inquire({});
  }
}

void Watch::answer() {
  const Status seen = first_trouble();
  std::string said =
      std::to_string(seen.code()) + "\n" + base::printable(seen.message(), longest_words) + "\n";
  {
    const std::lock_guard lock(mutex_);
    said += std::to_string(submitted_);
    for (const std::string& group : notes_) said += "\n" + group;
  }
  static_cast<void>(store_.set(key("here", rank_), said));
}

// `seen` is what this rank saw itself; well: it heard the alarm.
void Watch::inquire(const Status& seen) {
  answer();
  Status raised =
      seen.ok() ? Status(TN_INVALID, "by another rank") : store_.set(key("alarm"), std::to_string(rank_));
  if (raised.code() == TN_INVALID) return settle(verdict_of_others(seen));
  if (!raised.ok()) {
    Error own = seen.error();
    own.message +=
        "; the store, where ranks would agree on the cause, is gone: " + std::string(raised.message());
    return settle(std::move(own));
  }
  Error cause = judged(seen);
  // Somebody may have ended everything meanwhile, and then that is the cause.
  if (store_.set(key("verdict"), packed(cause)).code() == TN_INVALID) cause = verdict_of_others(seen);
  settle(std::move(cause));
}

Error Watch::verdict_of_others(const Status& seen) {
  const auto said = store_.get(key("verdict"), grace_ + ending);
  if (said.ok()) return unpacked(*said);
  if (!seen.ok()) return seen.error();
  const auto who = store_.get(key("alarm"), tick);
  return {.code = TN_PEER_LOST,
          .message = "communicator '" + name_ + "': " + (who.ok() ? "rank " + *who : "a rank") +
                     " raised an alarm, and did not say why: " + std::string(said.message())};
}

Watch::Answers Watch::hear() {
  Answers answers;
  const base::Deadline deadline(grace_);
  for (uint32_t q = 0; q < size_; ++q) {
    const auto text = store_.get(key("here", q), std::max<std::chrono::nanoseconds>(deadline.left(), tick));
    if (!text.ok()) {
      answers.silent.push_back(q);
      continue;
    }
    if (*text == left) {
      answers.gone.push_back(q);
      continue;
    }
    answers.said.emplace_back(q, Answers::read(*text));
  }
  return answers;
}

// Who is the cause of what this rank, or one that answers, saw.
Error Watch::judged(const Status& seen) {
  const Answers answers = hear();
  Error cause = seen.error();
  uint32_t witness = rank_;
  for (const auto& [rank, own] : answers.said) {
    if (own.code == TN_OK || consequence(own.code) >= consequence(cause.code)) continue;
    cause = {.code = own.code, .message = own.seen};
    witness = rank;
  }
  const bool waited = cause.code == TN_TIMEOUT || cause.code == TN_PEER_LOST || cause.code == TN_MISMATCH;
  const std::string difference = waited ? answers.difference() : "";
  const std::vector<uint32_t> late = answers.late();
  std::string who;
  if (!answers.silent.empty()) {
    if (cause.code != TN_TIMEOUT) cause.code = TN_PEER_LOST;
    who = rank_words(answers.silent) + (answers.silent.size() == 1 ? " gives" : " give") + " no sign of life";
  } else if (waited && !answers.gone.empty()) {
    cause.code = TN_PEER_LOST;
    who = rank_words(answers.gone) + " destroyed the communicator";
  } else if (!difference.empty()) {
    cause.code = TN_MISMATCH;
    who = difference;
  } else if (waited && !late.empty()) {
    who = rank_words(late) + (late.size() == 1 ? " has" : " have") + " submitted less than others";
  } else {
    who = "one of its parts ended";
  }
  cause.message =
      "communicator '" + name_ + "': " + who + "; rank " + std::to_string(witness) + " saw: " + cause.message;
  return cause;
}

void Watch::settle(Error cause) {
  {
    const std::lock_guard lock(mutex_);
    verdict_ = std::move(cause);
  }
  for (const auto& part : watched_) static_cast<void>(part->abort());
}

}  // namespace tenon::comm
