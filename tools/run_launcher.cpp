// SPDX-License-Identifier: Apache-2.0
// run_launcher.cpp: see run_launcher.hpp. One thread, one poll; the store has a thread of its own.
#include "run_launcher.hpp"

#include "command.hpp"
#include "run_connection.hpp"
#include "text.hpp"

#include <tenon/comm.hpp>
#include <tenon/version.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>

namespace tenon::tool::run {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int code_timeout = 124;             // as of timeout(1)
constexpr std::chrono::seconds last_wait(3);  // for a keeper, once its ranks must be gone
// For the other ranks of a failed one to find out, and to write their flight records. A hierarchy waits up to two seconds for the
// answer of a rank before it says that it is lost.
constexpr std::chrono::seconds to_tell(4);

class Start {
 public:
  Start(const Launch& launch, Output& output, Signals& signals)
      : launch_(launch), plan_(launch.plan), output_(output), signals_(signals) {}

  Verdict run() {
    if (const Status begun = begin(); !begun.ok()) end({exit_bad, false, std::string(begun.message())});
    while (!over()) {
      listen();
      for (const int signal : signals_.take()) hear(signal);
      reap_all();
      look();
    }
    sweep();
    for (uint32_t rank = 0; rank < plan_.size; ++rank) output_.finish(rank);
    return verdict_.value_or(Verdict{});
  }

 private:
  Status begin() {
    meeting_.token = TN_TRY(secret());
    meeting_.restart = launch_.restart;
    if (const std::string& logs = launch_.asked.log_folder; !logs.empty())
      meeting_.flights = flights_in(logs);
    store_ = TN_TRY(Store::serve(launch_.address, meeting_.token));
    meeting_.address = store_.address();
    TN_TRY(output_.open_logs(launch_.restart));
    for (const Host& host : plan_.hosts) {
      connections_.push_back(TN_TRY(Connection::open(host, command_for(host))));
      connections_.back().send(Word::job, packed(job_for(host)));
    }
    return {};
  }

  // A folder of its own for each start, as a log is; what an earlier run left there is no part of this one's story.
  std::string flights_in(const std::string& logs) const {
    const std::string suffix = launch_.restart == 0 ? "" : ".restart-" + std::to_string(launch_.restart);
    const std::filesystem::path folder = std::filesystem::absolute(logs) / ("flight" + suffix);
    std::error_code absent;
    std::vector<std::filesystem::path> old;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
      if (entry.path().extension() == ".json") old.push_back(entry.path());
    for (const auto& record : old) std::filesystem::remove(record, absent);
    return folder.string();
  }

  std::vector<std::string> command_for(const Host& host) const {
    if (host.here) return {launch_.own_program, "run", "--keeper"};
    std::vector<std::string> out = plan_.ssh;
    const bool bare = host.name.starts_with('[');
    out.push_back(bare ? host.name.substr(1, host.name.size() - 2) : host.name);
    const std::string& there = launch_.asked.remote_tenon;
    out.push_back("exec " + shell_quoted(there.empty() ? launch_.own_program : there) + " run --keeper");
    return out;
  }

  Job job_for(const Host& host) const {
    std::error_code ignored;
    Job out{.version = version(),
            .folder = std::filesystem::current_path(ignored),
            .command = launch_.asked.program,
            .bind = plan_.bind,
            .grace_ms = static_cast<uint32_t>(plan_.grace.count())};
    if (!host.here) out.silence_ms = static_cast<uint32_t>(milliseconds(longest_silence).count());
    const std::vector<std::string> common = passed_on(own_environment(), launch_.asked.variables, host.here);
    for (uint32_t local = 0; local < host.count; ++local) {
      Job::Rank& rank = out.ranks.emplace_back();
      rank.rank = host.first + local;
      rank.variables = common;
      for (std::string& one : variables_of(plan_, host, local, meeting_))
        rank.variables.push_back(std::move(one));
    }
    return out;
  }

  void listen() {
    Waiting waiting;
    const size_t out = waiting.writes(output_.out.wants()), errors = waiting.writes(output_.errors.wants());
    waiting.reads(signals_.number());
    const bool reads = !output_.out.full() && !output_.errors.full();
    for (Connection& one : connections_) one.ask(waiting, reads);
    waiting.wait(until_next());
    if (waiting.ready(out)) output_.out.write();
    if (waiting.ready(errors)) output_.errors.write();
    for (Connection& one : connections_) {
      one.work(waiting, output_, obey_);
      one.beat(reads);
    }
  }

  milliseconds until_next() const {
    milliseconds out(1000);
    const auto sooner = [&](Clock::time_point at) {
      out = std::clamp(std::chrono::ceil<milliseconds>(at - Clock::now()), milliseconds(0), out);
    };
    if (launch_.deadline && !verdict_) sooner(*launch_.deadline);
    if (verdict_) sooner(limit_);
    if (stop_at_) sooner(*stop_at_);
    return out;
  }

  void obey(Connection& from, const Frame& frame) {
    if (frame.word == Word::output || frame.word == Word::errors)
      return output_.write(frame.rank, frame.word == Word::errors, frame.bytes);
    if (frame.word == Word::ready) return settle(from, frame);
    if (frame.word == Word::refused) {
      from.left = 0;
      return end({exit_usage, false, from.host().name + ": " + frame.bytes});
    }
    if (frame.word != Word::broken && frame.word != Word::ended) return;
    const auto what = number_from(frame.bytes);
    if (!what.ok()) return;
    from.left -= std::min(from.left, 1u);
    output_.finish(frame.rank);
    const std::string who = "rank " + std::to_string(frame.rank) + " on " + from.host().name;
    if (frame.word == Word::broken)
      return end({static_cast<int>(what->first), false, who + ": " + what->second});
    const int status = static_cast<int>(what->first), code = exit_code(status);
    const std::string log = output_.log_of(frame.rank);
    if (code != 0)
      end({code, true, who + " " + end_story(status) + (log.empty() ? "" : "; its log is " + log)});
  }

  // Ranks start when all keepers have said where theirs will run.
  void settle(Connection& from, const Frame& frame) {
    auto places = places_from(frame.bytes);
    if (!places.ok() || places->size() != from.host().count) return;
    from.places = std::move(*places);
    from.ready = true;
    const auto is_ready = [](const Connection& one) { return one.ready; };
    if (verdict_ || connections_.size() != plan_.hosts.size() ||
        !std::all_of(connections_.begin(), connections_.end(), is_ready))
      return;
    if (launch_.restart == 0 && !launch_.asked.quiet) tell_table();
    for (Connection& one : connections_) one.send(Word::go);
  }

  void tell_table() {
    std::vector<std::vector<std::string>> rows{
        {"TENON_RANK", "TENON_LOCAL_RANK", "host", "TENON_DEVICE", "cores", "OMP_NUM_THREADS"}};
    if (plan_.devices.empty()) rows[0].erase(rows[0].begin() + 3);
    for (const Connection& one : connections_) {
      for (uint32_t local = 0; local < one.host().count; ++local) {
        const Place& place = one.places[local];
        std::vector<std::string> row{std::to_string(one.host().first + local), std::to_string(local),
                                     one.host().name};
        if (!plan_.devices.empty()) row.push_back(device_of(plan_, local));
        row.push_back(place.processors.empty() ? "any" : place.processors);
        row.push_back(place.threads + (place.threads_given ? " (as it was set)" : ""));
        rows.push_back(std::move(row));
      }
    }
    output_.say("every rank gets TENON_SIZE=" + std::to_string(plan_.size) +
                ", TENON_LOCAL_SIZE, TENON_STORE=tcp://" + meeting_.address +
                ", TENON_STORE_SERVER=launcher, a secret TENON_STORE_TOKEN, TENON_RESTART, and");
    output_.errors.add(columns(rows));
  }

  void hear(int signal) {
    const std::string name = std::string("SIG") + sigabbrev_np(signal);
    if (!verdict_) return end({128 + signal, false, "got " + name});
    if (stop_at_) return stop();
    if (harsh_) return;
    harsh_ = true;
    output_.say("got " + name + ": killing what is left");
    limit_ = std::min(limit_, Clock::now() + last_wait);
    for (Connection& one : connections_) one.send(Word::kill);
  }

  void reap_all() {
    for (const Ended& ended : reap()) {
      for (Connection& one : connections_) {
        if (one.pid() == ended.pid && !one.over()) one.reaped(ended.status, output_, obey_);
      }
    }
  }

  void look() {
    if (stop_at_ && (Clock::now() >= *stop_at_ || !any_left())) stop();
    for (const Connection& one : connections_) {
      const std::string trouble = one.trouble();
      if (!trouble.empty()) end({exit_bad, true, "host " + one.host().name + ": " + trouble});
    }
    if (launch_.deadline && Clock::now() >= *launch_.deadline) {
      end({code_timeout, false,
           "the job has taken longer than --timeout " + launch_.asked.timeout + ": " + ranks_left() +
               " had not ended"});
    }
    if (output_.out.gone()) end({128 + SIGPIPE, false, "nobody reads the output any more"});
  }

  std::string ranks_left() const {
    uint32_t left = 0;
    for (const Connection& one : connections_) left += one.left;
    return std::to_string(left) + (left == 1 ? " rank" : " ranks");
  }

  // The first reason to end decides; what follows from it changes nothing.
  void end(Verdict why) {
    if (verdict_) return;
    verdict_ = std::move(why);
    output_.say(verdict_->story);
    const auto wait = verdict_->may_restart && any_left() ? milliseconds(to_tell) : milliseconds(0);
    limit_ = Clock::now() + wait + plan_.grace + last_wait;
    if (wait.count() == 0) return stop();
    stop_at_ = Clock::now() + wait;
  }

  void stop() {
    stop_at_.reset();
    if (any_left()) {
      const auto grace = plan_.grace.count();
      output_.say("ending " + ranks_left() + " with SIGTERM, what is left after " +
                  (grace % 1000 == 0 ? std::to_string(grace / 1000) + " s" : std::to_string(grace) + " ms") +
                  " with SIGKILL");
    }
    for (Connection& one : connections_) one.send(Word::stop);
  }

  bool any_left() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const Connection& one) { return one.left > 0; });
  }

  bool over() const {
    const bool all =
        std::all_of(connections_.begin(), connections_.end(), [](const Connection& c) { return c.over(); });
    return all || (verdict_ && Clock::now() >= limit_);
  }

  // What outlived its keeper, or a connection that does not end.
  void sweep() {
    const auto limit = Clock::now() + last_wait;
    while (!childless() && Clock::now() < limit) {
      signal_descendants(SIGKILL);
      Waiting waiting;
      waiting.reads(signals_.number());
      waiting.wait(milliseconds(10));
      for (const int signal : signals_.take()) hear(signal);
      reap_all();
    }
  }

  const Launch& launch_;
  const Plan& plan_;
  Output& output_;
  Signals& signals_;
  const Connection::Obey obey_ = [this](Connection& from, const Frame& frame) { obey(from, frame); };
  Meeting meeting_{};
  Store store_{};
  std::vector<Connection> connections_{};
  std::optional<Verdict> verdict_{};
  Clock::time_point limit_{};
  std::optional<Clock::time_point> stop_at_{};
  bool harsh_ = false;
};

}  // namespace

Verdict run_once(const Launch& launch, Output& output, Signals& signals) {
  return Start(launch, output, signals).run();
}

}  // namespace tenon::tool::run
