// SPDX-License-Identifier: Apache-2.0
// run_keeper.cpp: see run_keeper.hpp. One thread, one poll.
#include "run_keeper.hpp"

#include "run_cores.hpp"
#include "run_process.hpp"
#include "run_wire.hpp"

#include <tenon/version.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace tenon::tool::run {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t most_waiting = 1 << 20;
// Longer than this nothing is waited for that was killed, or for a launcher that reads nothing.
constexpr std::chrono::seconds last_wait(5);
constexpr const char* threads = "OMP_NUM_THREADS";

struct Rank {
  uint32_t number = 0;
  Program program{};
  pid_t pid = 0;
  bool ended = false;
  Fd output{}, errors{};
};

// Puts "NAME=value" over a variable of the same name.
void put(std::vector<std::string>& environment, const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name); });
  environment.push_back(variable);
}

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& one : environment) {
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  }
  return {};
}

class Keeper {
 public:
  Keeper(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {}

  int serve() {
    adopt_orphans();
    waiting_ = greeting;
    while (!over()) {
      listen();
      if (!signals_.take().empty()) stop();
      reap_all();
      if (started_ && living_ == 0) stop();
      if (silence_.count() > 0 && Clock::now() - heard_ > silence_) launcher_left();
      if (stopping_ && Clock::now() >= kill_at_) signal_descendants(SIGKILL);
    }
    flush();
    return 0;
  }

 private:
  // Nothing is left to keep, or what was killed will not go.
  bool over() const { return stopping_ && (childless() || Clock::now() >= kill_at_ + last_wait); }

  void listen() {
    Waiting waiting;
    const size_t in = waiting.reads(in_.get());
    waiting.reads(signals_.number());
    const size_t out = waiting.writes(waiting_.empty() ? -1 : out_.get());
    const bool room = waiting_.size() < most_waiting;
    std::vector<std::pair<size_t, size_t>> places;
    for (const Rank& rank : ranks_)
      places.emplace_back(waiting.reads(room ? rank.output.get() : -1),
                          waiting.reads(room ? rank.errors.get() : -1));
    waiting.wait(until_next());
    if (waiting.ready(out) && !write_some(out_.get(), waiting_)) launcher_left();
    for (size_t i = 0; i < places.size(); ++i) {
      if (waiting.ready(places[i].first)) pass_on(ranks_[i], ranks_[i].output, Word::output);
      if (waiting.ready(places[i].second)) pass_on(ranks_[i], ranks_[i].errors, Word::errors);
    }
    if (waiting.ready(in)) hear();
  }

  milliseconds until_next() const {
    if (!stopping_) return milliseconds(1000);
    const auto left = std::chrono::ceil<milliseconds>(kill_at_ - Clock::now());
    return std::clamp(left, milliseconds(10), milliseconds(1000));
  }

  void say(Word word, uint32_t rank = 0, std::string_view bytes = {}) {
    if (out_) waiting_ += framed(word, rank, bytes);
  }

  void pass_on(const Rank& rank, Fd& from, Word word) {
    std::string bytes;
    if (!read_some(from.get(), bytes)) from.reset();
    if (!bytes.empty()) say(word, rank.number, bytes);
  }

  void hear() {
    std::string bytes;
    if (!read_some(in_.get(), bytes)) return launcher_left();
    heard_ = Clock::now();
    frames_.add(bytes);
    for (;;) {
      auto frame = frames_.next();
      if (!frame.ok()) return launcher_left();
      if (!*frame) return;
      obey(**frame);
    }
  }

  void obey(const Frame& frame) {
    if (frame.word == Word::job) return take(frame.bytes);
    if (frame.word == Word::go) return go();
    if (frame.word == Word::stop) return stop();
    if (frame.word == Word::kill) {
      stop();
      kill_at_ = std::min(kill_at_, Clock::now());
    }
    if (frame.word == Word::beat) say(Word::beat);
  }

  void refuse(const std::string& why) {
    say(Word::refused, 0, why);
    stop();
  }

  void take(const std::string& bytes) {
    auto job = job_from(bytes);
    if (!job.ok()) return refuse(std::string(job.message()));
    if (job->version != version()) {
      return refuse("its tenon is " + std::string(version()) + ", and the launcher's " + job->version +
                    ": install the same on all hosts, or name it with --remote-tenon");
    }
    grace_ = milliseconds(job->grace_ms);
    silence_ = milliseconds(job->silence_ms);
    const auto shares = shares_of(usable_cores(), static_cast<uint32_t>(job->ranks.size()), job->bind);
    if (!shares.ok()) return refuse(std::string(shares.message()));
    std::vector<Place> places;
    for (size_t i = 0; i < job->ranks.size(); ++i)
      places.push_back(prepare(*job, job->ranks[i], (*shares)[i]));
    say(Word::ready, 0, packed(places));
  }

  Place prepare(const Job& job, const Job::Rank& asked, const Share& share) {
    Rank& rank = ranks_.emplace_back();
    rank.number = asked.rank;
    rank.program = {.command = job.command,
                    .environment = own_environment(),
                    .folder = job.folder,
                    .processors = share.processors,
                    .dies_with_parent = true};
    for (const std::string& variable : asked.variables) put(rank.program.environment, variable);
    Place out{.processors = ranges(share.processors), .threads = value_of(rank.program.environment, threads)};
    out.threads_given = !out.threads.empty();
    if (!out.threads_given) {
      out.threads = std::to_string(share.threads);
      put(rank.program.environment, std::string(threads) + "=" + out.threads);
    }
    return out;
  }

  void go() {
    started_ = true;
    for (Rank& rank : ranks_) {
      const auto done = start_rank(rank);
      if (done.ok()) continue;
      rank.ended = true;
      const uint32_t code = done.error().native_code == ENOENT && done.error().domain == "errno" ? 127 : 126;
      say(Word::broken, rank.number, packed(code, done.message()));
    }
  }

  Status start_rank(Rank& rank) {
    Pipe output = TN_TRY(make_pipe())
    , errors = TN_TRY(make_pipe());
    rank.program.output = output.write.get();
    rank.program.errors = errors.write.get();
    rank.pid = TN_TRY(start(rank.program));
    rank.output = std::move(output.read);
    rank.errors = std::move(errors.read);
    ++living_;
    return {};
  }

  void reap_all() {
    for (const Ended& end : reap()) {
      for (Rank& rank : ranks_) {
        if (rank.pid != end.pid || rank.ended) continue;
        rank.ended = true;
        --living_;
        take_rest(rank);
        say(Word::ended, rank.number, packed(static_cast<uint32_t>(end.status)));
      }
    }
  }

  // What it wrote before its end; what others that hold the same pipe write later still comes.
  void take_rest(Rank& rank) {
    for (const auto& [from, word] :
         {std::pair(&rank.output, Word::output), std::pair(&rank.errors, Word::errors)}) {
      std::string bytes;
      if (*from) read_rest(from->get(), bytes);
      if (!bytes.empty()) say(word, rank.number, bytes);
    }
  }

  void launcher_left() {
    in_.reset();
    out_.reset();
    waiting_.clear();
    silence_ = milliseconds(0);
    stop();
  }

  void stop() {
    if (stopping_) return;
    stopping_ = true;
    kill_at_ = Clock::now() + grace_;
    signal_descendants(SIGTERM);
  }

  void flush() {
    const auto limit = Clock::now() + last_wait;
    for (Rank& rank : ranks_) take_rest(rank);
    while (out_ && !waiting_.empty() && Clock::now() < limit) {
      Waiting waiting;
      const size_t out = waiting.writes(out_.get());
      waiting.wait(milliseconds(100));
      if (waiting.ready(out) && !write_some(out_.get(), waiting_)) return;
    }
  }

  Signals signals_{};
  Fd in_, out_;
  Frames frames_{};
  std::string waiting_{};  // for the launcher
  std::vector<Rank> ranks_{};
  size_t living_ = 0;
  bool started_ = false, stopping_ = false;
  milliseconds grace_{0}, silence_{0};
  Clock::time_point heard_ = Clock::now(), kill_at_{};
};

}  // namespace

int keep() {
  auto in = take_over(0), out = take_over(1);
  if (!in.ok() || !out.ok()) return 1;
  return Keeper(std::move(*in), std::move(*out)).serve();
}

}  // namespace tenon::tool::run
