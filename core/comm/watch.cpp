// SPDX-License-Identifier: Apache-2.0
// watch.cpp: see watch.hpp.
#include "comm/watch.hpp"

#include "base/text.hpp"
#include "comm/words.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tenon::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 20ms;
constexpr uint32_t ticks_per_look = 10;        // at the store, which may be a network away
constexpr uint32_t ticks_after_failure = 100;  // for one that does not answer
constexpr auto longest_look = 500ms;
constexpr size_t kept_notes = 64, longest_words = 400, most_carried = 1024;
constexpr const char* same_order = ": all ranks must submit the same in the same order";
constexpr auto ending = 2s;  // for a verdict that is being written
constexpr std::string_view left = "left";

std::string words(const tn_comm_op& op, Route route) {
  const std::string kind(kind_name(op.kind)), how(reduction_name(op.reduce));
  if (op.kind == TN_COMM_BARRIER) return kind;
  return kind + (how.empty() ? "" : " " + how) + " of " + std::to_string(op.count) + " " +
         std::string(name(static_cast<DType>(op.dtype))) + ", " + std::string(name(route));
}

std::string differ(uint64_t number, uint32_t rank, const std::string& group, const std::string& other_rank,
                   const std::string& other) {
  return "in group " + std::to_string(number) + " of collectives rank " + std::to_string(rank) + " has " +
         group + ", rank " + other_rank + " has " + other;
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

// What ranks answered: what they saw, how many groups with collectives they have submitted, and the last of them in words.
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
          return differ(number, rank, *group, std::to_string(first_rank), *first);
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

Watch::Watch(const detail::CommState& whole, std::string key, std::optional<uint32_t> keeper)
    : store_(whole.store),
      key_(std::move(key)),
      name_(whole.options.name),
      rank_(whole.rank),
      size_(whole.size),
      keeper_(keeper),
      grace_(std::clamp<std::chrono::nanoseconds>(whole.options.timeout / 2, 500ms, 2s)),
      pace_(whole.options.timeout / 2) {}

Watch::~Watch() { leave(); }

void Watch::start(std::vector<Part> watched) {
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
  if (alone_) return;
  try {
    static_cast<void>(tell(key("here", rank_), left));
  } catch (const std::bad_alloc&) {  // then others find this rank silent
  }
}

void Watch::note(std::span<const CommOp> group, std::span<const Route> routes) {
  std::string all;
  for (size_t i = 0; i < group.size(); ++i)
    if (!is_message(group[i].abi.kind)) all += (all.empty() ? "" : "; ") + words(group[i].abi, routes[i]);
  const std::lock_guard lock(mutex_);
  noted_ = !all.empty();
  if (!noted_) return;
  ++submitted_;
  notes_.push_back(base::printable(all));
  if (notes_.size() > kept_notes) notes_.pop_front();
}

void Watch::refused() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(noted_, false)) return;
  --submitted_;
  notes_.pop_back();
}

void Watch::carried(const Stream& stream, uint64_t value) {
  runtime::Timeline& line = runtime::timeline_of(stream);
  const std::lock_guard lock(mutex_);
  if (!noted_ || line.collects.load(std::memory_order_relaxed))
    return;  // what is captured runs later, if at all
  if (carried_.size() == most_carried) return;
  carried_.push_back(
      {.number = submitted_, .value = value, .stream = runtime::Hold(&line), .words = notes_.back()});
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

// Of what ended, that which is least a consequence of the rest. A part numbers its ranks itself.
Status Watch::first_trouble() const {
  const std::lock_guard lock(parts_mutex_);
  Status worst;
  for (const Part& part : watched_) {
    const Status health = part.comm->health();
    if (health.ok() || (!worst.ok() && consequence(health.code()) >= consequence(worst.code()))) continue;
    Error error = health.error();
    if (!part.ranks.empty())
      error.message += " (its ranks are " + listed(part.ranks) + " of '" + name_ + "')";
    worst = Status(std::move(error));
  }
  return worst;
}

// Within the time for answers, so that a store that does not answer costs no more than ranks that do not.
Status Watch::tell(const std::string& what, std::string_view value) {
  return store_.set(what, value, grace_);
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

// The first group that has not ended; forgets those that have.
std::optional<Watch::Carried> Watch::oldest() {
  for (;;) {
    Carried front;
    {
      const std::lock_guard lock(mutex_);
      if (carried_.empty()) return std::nullopt;
      front = carried_.front();
    }
    if (!runtime::finished(*front.stream, front.value, runtime::Deadline::glance())) return front;
    const std::lock_guard lock(mutex_);
    carried_.pop_front();
  }
}

// What ranks have as one group, where that takes long: others may have taken another route, and wait elsewhere. TN_MISMATCH with both
// sides.
Status Watch::compare_oldest() {
  const auto now = std::chrono::steady_clock::now();
  const std::optional<Carried> own = oldest();
  const uint64_t number = own ? own->number : 0;
  if (!pace_.is_long(number, now)) return {};
  const std::string place = key("at") + "/" + std::to_string(number);
  const Status told = tell(place, std::to_string(rank_) + "\n" + own->words);
  if (!told.ok() && told.code() != TN_INVALID) {
    pace_.put_off(now + ticks_after_failure * tick);
    return {};
  }
  pace_.asked();
  if (told.ok()) return {};
  const auto said = store_.state()->look(place, base::Deadline(longest_look));
  if (!said.ok() || !*said) return {};
  const size_t line = (*said)->find('\n');
  const std::string words = line == std::string::npos ? "" : (*said)->substr(line + 1);
  if (words == own->words) return {};
  difference_ = differ(number, rank_, own->words, (*said)->substr(0, line), words);
  return Status(TN_MISMATCH, difference_);
}

// Until the next tick; false when the watch is over.
bool Watch::pause() {
  std::unique_lock lock(mutex_);
  wakes_.wait_for(lock, tick, [this] { return stopping_ || woken_; });
  woken_ = false;
  return !stopping_ || (asked_ && !verdict_);  // an end that was asked for is told even by who leaves
}

void Watch::run() {
  for (uint32_t ticks = 0; pause();) {
    std::optional<Error> asked;
    {
      const std::lock_guard lock(mutex_);
      asked = asked_;
    }
    if (asked) {
      const bool first = tell(key("verdict"), packed(*asked)).code() != TN_INVALID;
      static_cast<void>(tell(key("alarm"), std::to_string(rank_)));
      return settle(first ? *std::move(asked) : verdict_of_others(Status(*asked)));
    }
    if (const Status seen = first_trouble(); !seen.ok()) return settle(found_out(seen));
    if (const Status seen = compare_oldest(); !seen.ok()) return settle(found_out(seen));
    if (ticks-- > 0) continue;
    const auto alarm = store_.state()->look(key("alarm"), base::Deadline(longest_look));
    if (alarm.ok() && *alarm) return settle(found_out({}));
    ticks = alarm.ok() ? ticks_per_look : ticks_after_failure;
  }
}

Status Watch::answer() {
  const Status seen = first_trouble();
  std::string said =
      std::to_string(seen.code()) + "\n" + base::printable(seen.message(), longest_words) + "\n";
  {
    const std::lock_guard lock(mutex_);
    said += std::to_string(submitted_);
    for (const std::string& group : notes_) said += "\n" + group;
  }
  return tell(key("here", rank_), said);
}

// The cause, with the others. `seen` is what this rank saw itself; well: it heard the alarm. A key that is there already is
// no trouble: somebody was first.
Error Watch::found_out(const Status& seen) {
  const auto helpless = [](const Status& told) { return !told.ok() && told.code() != TN_INVALID; };
  Status told = answer();
  if (helpless(told)) return alone(seen, told);
  if (seen.ok()) return verdict_of_others(seen);
  told = tell(key("alarm"), std::to_string(rank_));
  if (helpless(told)) return alone(seen, told);
  if (!told.ok()) return verdict_of_others(seen);
  const auto answers = hear();
  if (!answers.ok()) return alone(seen, Status(answers.error()));
  Error cause = judged(seen, *answers);
  told = tell(key("verdict"), packed(cause));
  if (helpless(told)) return alone(seen, told);
  return told.ok() ? cause : verdict_of_others(seen);
}

Error Watch::verdict_of_others(const Status& seen) {
  const auto said = store_.state()->await(key("verdict"), base::Deadline(grace_ + ending));
  if (!said.ok()) return alone(seen, Status(said.error()));
  if (*said) return unpacked(**said);
  if (!seen.ok()) return seen.error();
  const auto who = store_.state()->look(key("alarm"), base::Deadline(longest_look));
  return {.code = TN_PEER_LOST,
          .message = "communicator '" + name_ + "': " + (who.ok() && *who ? "rank " + **who : "a rank") +
                     " raised an alarm, and did not say why in time"};
}

// What this rank makes of it without the store, which failed with `store`. Who serves it went with it or is as silent; an abort
// that was seen is a consequence.
Error Watch::alone(const Status& seen, const Status& store) {
  {
    const std::lock_guard lock(mutex_);
    alone_ = true;
  }
  const bool silent = store.code() == TN_TIMEOUT;
  const std::string served = "the store " + store_.address();
  const std::string what =
      (keeper_ ? "rank " + std::to_string(*keeper_) + ", which serves " + served + "," : served) +
      (silent ? " does not answer" : " is gone");
  const bool consequent =
      seen.ok() || seen.code() == TN_ABORTED || seen.code() == TN_TIMEOUT || seen.code() == TN_PEER_LOST;
  return {.code = !consequent || (!keeper_ && !seen.ok()) ? seen.code()
                  : silent                                ? TN_TIMEOUT
                                                          : TN_PEER_LOST,
          .message = "communicator '" + name_ + "': " + what + ", so ranks cannot agree on the cause; rank " +
                     std::to_string(rank_) +
                     " saw: " + (seen.ok() ? "the alarm of another rank" : std::string(seen.message()))};
}

// TN_PEER_LOST, TN_TIMEOUT: the store's own.
Result<Watch::Answers> Watch::hear() {
  Answers answers;
  const base::Deadline deadline(grace_);
  for (uint32_t q = 0; q < size_; ++q) {
    const auto text = TN_TRY(store_.state()->await(key("here", q), deadline));
    if (!text)
      answers.silent.push_back(q);
    else if (*text == left)
      answers.gone.push_back(q);
    else
      answers.said.emplace_back(q, Answers::read(*text));
  }
  return answers;
}

// Who is the cause of what this rank, or one that answers, saw.
Error Watch::judged(const Status& seen, const Answers& answers) const {
  if (!difference_.empty())
    return {.code = TN_MISMATCH, .message = "communicator '" + name_ + "': " + difference_ + same_order};
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
    who = difference + same_order;
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
  for (const Part& part : watched_) static_cast<void>(part.comm->give_up());
}

}  // namespace tenon::comm
