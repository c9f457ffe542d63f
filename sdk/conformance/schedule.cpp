// SPDX-License-Identifier: Apache-2.0
// schedule.cpp: one Worker per running batch; a loop that listens to all of them.
#include "conformance/schedule.hpp"

#include "conformance/process.hpp"
#include "conformance/protocol.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

namespace tenon::conform {

namespace {

using Clock = std::chrono::steady_clock;
// From the start of a process to its first case, and from its last to its end: the kit's own time, and what a plugin does
// when it is left. A plugin that is being entered has the deadline of a case.
constexpr auto start_deadline = std::chrono::seconds(20);

// One worker process and the batch it works through.
class Worker {
 public:
  Worker(const Options& options, const Events& events, Batch batch)
      : options_(options), events_(events), batch_(std::move(batch)) {}

  Status start(bool describe);
  int connection() const noexcept { return process_.connection(); }
  // Handles what there is; true when the process is gone and all is told.
  bool step();
  // What is left to do for another worker.
  Batch rest() && { return std::move(batch_); }

 private:
  void read_messages();
  void handle(const Message& message);
  void finish_case(Finding finding, double milliseconds);
  void settle(const End& end);
  void flush();
  // Of the case at work, or of the entry.
  double allowed_s() const {
    return options_.deadline_s * (describing_ ? 1 : batch_.cases.front()->deadlines);
  }
  void allow() {
    since_ = Clock::now();
    deadline_ = since_ + std::chrono::microseconds(static_cast<int64_t>(allowed_s() * 1e6));
  }
  std::string story_of(const End& end) const;
  double running_ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - since_).count();
  }

  const Options& options_;
  const Events& events_;
  Batch batch_;
  Process process_{};
  bool inside_ = false;             // a case has begun and not ended
  bool describing_ = false;         // the worker is entering the plugin for its description
  std::vector<CaseResult> held_{};  // the newest result, until the next case begins or the process ends
  Clock::time_point since_ = Clock::now(), deadline_ = Clock::now() + start_deadline;
};

Status Worker::start(bool describe) {
  Request request;
  request.settings.plugin = options_.plugin;
  request.settings.device = options_.device;
  request.settings.quick = options_.quick;
  request.settings.seed = options_.seed;
  request.settings.patience_ns = static_cast<uint64_t>(options_.deadline_s * 1e9 / 3);
  request.settings.options = options_.options;
  request.settings.judging = options_.judging;
  request.round = batch_.round;
  request.describe = describe;
  for (const Case* wanted : batch_.cases) request.cases.emplace_back(wanted->name);
  describing_ = describe;
  process_ = TN_TRY(Process::start(options_.worker, encode(request)));
  if (describing_) allow();
  return {};
}

void Worker::flush() {
  for (CaseResult& result : held_) events_.done(std::move(result));
  held_.clear();
}

void Worker::finish_case(Finding finding, double milliseconds) {
  CaseResult result = not_run_yet(*batch_.cases.front(), batch_.round);
  batch_.cases.pop_front();
  result.finding = std::move(finding);
  result.milliseconds = milliseconds;
  held_.push_back(std::move(result));
  inside_ = false;
  since_ = Clock::now();
  deadline_ = since_ + start_deadline;
}

void Worker::handle(const Message& message) {
  if (message.sender != process_.pid()) return;  // a child that the plugin forked
  if (message.kind == Message::Kind::description) {
    describing_ = false;
    deadline_ = Clock::now() + start_deadline;
    if (events_.described) events_.described(message.description);
    return;
  }
  if (message.kind == Message::Kind::begin) {
    flush();
    describing_ = false;
    inside_ = true;
    allow();
    if (events_.began) events_.began(message.name);
    return;
  }
  if (message.name.empty()) {
    const auto& why = message.finding.failures;
    if (events_.not_described && !why.empty()) events_.not_described(why.front());
    return;
  }
  finish_case(message.finding, message.milliseconds);
}

void Worker::read_messages() {
  while (auto text = process_.receive()) {
    const auto message = decode_message(*text);
    if (message.ok()) handle(*message);
  }
}

std::string Worker::story_of(const End& end) const {
  if (end.killed && inside_)
    return words("did not finish within ", allowed_s(), " s; ", hang_of(process_.trail(), allowed_s()));
  if (end.killed && describing_) {
    const std::string calls = calls_of(process_.trail());
    return calls.empty() ? words("the plugin was not entered within ", allowed_s(), " s")
                         : words(calls, " did not return within ", allowed_s(), " s: it hangs");
  }
  if (end.killed && !batch_.cases.empty() && held_.empty())
    return "the process did not come to its first case";
  if (end.killed) return "the process did not end after its last case: leaving the plugin's code hangs";
  if (!end.exited) return words("the process died of ", signal_name(end.signal));
  if (end.status == lost_connection_status) {
    return "the plugin closed file descriptors that it does not own: the connection to the runner is gone";
  }
  return words("the process ended with exit(", end.status, ") ", inside_ ? "in the middle of the case" : "");
}

// The process is gone: whoever was at work is to blame.
void Worker::settle(const End& end) {
  const bool clean = end.exited && end.status == 0 && !end.killed;
  if (!batch_.cases.empty() && (inside_ || held_.empty())) {
    Finding blame;
    blame.outcome = Outcome::failed;
    const std::string place = end.killed ? "" : place_of(process_.trail());
    blame.failures.push_back(words(inside_       ? ""
                                   : describing_ ? "while the plugin was being entered: "
                                                 : "before the case began: ",
                                   story_of(end),
                                   (inside_ || describing_) && !place.empty() ? "; it was " + place : ""));
    flush();
    finish_case(std::move(blame), running_ms());
  } else if (!clean && !held_.empty()) {
    Finding& last = held_.back().finding;
    last.outcome = Outcome::failed;
    last.failures.push_back("the case was over, and then: " + story_of(end));
  }
  if (held_.empty()) return;
  Finding& last = held_.back().finding;
  if (process_.left_others()) last.failures.push_back("a process started by the plugin outlived its host");
  if (!last.failures.empty()) last.outcome = Outcome::failed;
  if (!last.failures.empty()) held_.back().output = process_.errors();
  flush();
}

bool Worker::step() {
  read_messages();
  auto end = process_.ended();
  if (end) {
    read_messages();  // what it said last
  } else if (Clock::now() > deadline_) {
    process_.kill();
    end = process_.ended();
  }
  if (!end) return false;
  settle(*end);
  return true;
}

}  // namespace

CaseResult not_run_yet(const Case& wanted, uint32_t round) {
  CaseResult out;
  out.name = wanted.name;
  out.op = wanted.op;
  out.dtype = wanted.dtype;
  out.level = wanted.level;
  out.round = round;
  return out;
}

std::deque<Batch> batches(const std::vector<const Case*>& cases, uint32_t round, uint32_t together) {
  struct Open {
    size_t place = 0;  // in `out`
    size_t bytes = 0;  // of the names in it
  };
  std::deque<Batch> out;
  std::deque<Open> open;
  std::map<std::pair<int, std::string_view>, size_t> groups;  // in `open`
  for (const Case* wanted : cases) {
    if (wanted->alone) {
      out.push_back({.round = round, .cases = {wanted}});
      continue;
    }
    const size_t at =
        groups.try_emplace({wanted->level, wanted->group()}, groups.size() / together).first->second;
    if (at == open.size()) open.emplace_back();
    Open& mine = open[at];
    const size_t bytes = std::string_view(wanted->name).size();
    if (mine.bytes == 0 || mine.bytes + bytes > most_name_bytes) {
      mine = {.place = out.size()};
      out.push_back({.round = round, .cases = {}});
    }
    mine.bytes += bytes;
    out[mine.place].cases.push_back(wanted);
  }
  return out;
}

Status run_batches(const Options& options, std::deque<Batch> queue, bool describe, const Events& events) {
  std::vector<std::unique_ptr<Worker>> workers;
  while (!queue.empty() || !workers.empty()) {
    while (!queue.empty() && workers.size() < std::max<size_t>(options.jobs, 1)) {
      workers.push_back(std::make_unique<Worker>(options, events, std::move(queue.front())));
      queue.pop_front();
      TN_TRY(workers.back()->start(std::exchange(describe, false)));
    }
    std::vector<int> connections;
    for (const auto& worker : workers) connections.push_back(worker->connection());
    wait_for_any(connections, 10);
    for (size_t i = 0; i < workers.size();) {
      if (!workers[i]->step()) {
        ++i;
        continue;
      }
      Batch rest = std::move(*workers[i]).rest();
      if (!rest.cases.empty()) queue.push_front(std::move(rest));
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

}  // namespace tenon::conform
