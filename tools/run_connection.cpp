// SPDX-License-Identifier: Apache-2.0
// run_connection.cpp: see run_connection.hpp.
#include "run_connection.hpp"

#include <algorithm>

namespace tenon::tool::run {

namespace {

constexpr std::chrono::seconds longest_start(60), between_beats(5);

}  // namespace

Result<Connection> Connection::open(const Host& host, std::vector<std::string> command) {
  Connection out;
  out.host_ = &host;
  out.left = host.count;
  Pipe to = TN_TRY(make_pipe())
  , from = TN_TRY(make_pipe())
  , errors = TN_TRY(make_pipe());
  const Program program{.command = std::move(command),
                        .environment = own_environment(),
                        .input = to.read.get(),
                        .output = from.write.get(),
                        .errors = errors.write.get()};
  out.pid_ = TN_TRY(start(program));
  out.to_ = std::move(to.write);
  out.from_ = std::move(from.read);
  out.errors_ = std::move(errors.read);
  return out;
}

void Connection::send(Word word, std::string_view bytes) {
  if (to_) waiting_ += framed(word, 0, bytes);
}

void Connection::ask(Waiting& waiting, bool reads) {
  to_place_ = waiting.writes(waiting_.empty() ? -1 : to_.get());
  from_place_ = waiting.reads(reads ? from_.get() : -1);
  errors_place_ = waiting.reads(reads ? errors_.get() : -1);
}

void Connection::work(const Waiting& waiting, Output& output, const Obey& obey) {
  if (waiting.ready(to_place_) && !write_some(to_.get(), waiting_)) {
    to_.reset();
    waiting_.clear();
  }
  std::string bytes;
  if (waiting.ready(errors_place_) && !read_some(errors_.get(), bytes)) errors_.reset();
  if (!bytes.empty()) output.write_host(host_->name, bytes);
  bytes.clear();
  if (waiting.ready(from_place_) && !read_some(from_.get(), bytes)) from_.reset();
  if (!bytes.empty()) understand(bytes, output, obey);
}

void Connection::reaped(int status, Output& output, const Obey& obey) {
  status_ = status;
  std::string bytes, errors;
  if (from_) read_rest(from_.get(), bytes);
  if (errors_) read_rest(errors_.get(), errors);
  if (!errors.empty()) output.write_host(host_->name, errors);
  if (!bytes.empty()) understand(bytes, output, obey);
  over_ = true;
  to_.reset();
  from_.reset();
  errors_.reset();
  waiting_.clear();
}

void Connection::beat(bool reads) {
  const auto now = Clock::now();
  if (!reads) heard_ = now;  // it may well have said something that was not read
  if (host_->here || now - beaten_ < between_beats) return;
  beaten_ = now;
  send(Word::beat);
}

std::string Connection::trouble() const {
  if (nonsense_) return "it sent what no keeper of ranks sends";
  if (over_ && left > 0) {
    return "the connection is lost: " +
           std::string(host_->here ? "the keeper of its ranks " : "its command ") + end_story(status_) +
           (greeted_ || host_->here ? ""
                                    : "; it never started `tenon run` there: see --remote-tenon and --ssh");
  }
  if (!over_ && !ready && Clock::now() - opened_ > longest_start)
    return "it did not answer within " + std::to_string(longest_start.count()) + " s";
  if (!over_ && !host_->here && greeted_ && Clock::now() - heard_ > longest_silence)
    return "it has been silent for " + std::to_string(longest_silence.count()) + " s";
  return {};
}

// Before the greeting stands what a remote shell's start-up files print.
void Connection::understand(std::string_view bytes, Output& output, const Obey& obey) {
  heard_ = Clock::now();
  if (greeted_) {
    frames_.add(bytes);
    return take_frames(obey);
  }
  before_ += bytes;
  const size_t at = before_.find(greeting);
  if (at == std::string::npos) {
    nonsense_ = before_.size() > (1 << 20);
    return;
  }
  greeted_ = true;
  if (at > 0) output.write_host(host_->name, before_.substr(0, at) + (before_[at - 1] == '\n' ? "" : "\n"));
  frames_.add(std::string_view(before_).substr(at + greeting.size()));
  before_.clear();
  take_frames(obey);
}

void Connection::take_frames(const Obey& obey) {
  while (!nonsense_) {
    const auto frame = frames_.next();
    nonsense_ = !frame.ok();
    if (nonsense_ || !*frame) return;
    obey(*this, **frame);
  }
}

}  // namespace tenon::tool::run
