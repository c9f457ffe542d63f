// SPDX-License-Identifier: Apache-2.0
// run_output.cpp: see run_output.hpp.
#include "run_output.hpp"

#include "text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tenon::tool::run {

namespace {

// What a terminal would show of the line.
std::string_view shown(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);
}

// The length of the longest beginning that is at most `limit` and cuts no UTF-8 character.
size_t cut(std::string_view text, size_t limit) {
  size_t end = limit;
  while (end + 4 > limit && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

// Of the eight colours those that are read on black and on white.
constexpr std::array colours{"\033[32m", "\033[36m", "\033[35m", "\033[34m", "\033[33m", "\033[31m"};
constexpr const char* plain = "\033[0m";

}  // namespace

void Lines::add(std::string_view bytes, const Take& take) {
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    open_ += bytes.substr(0, end);
    take(shown(open_));
    open_.clear();
    bytes.remove_prefix(end + 1);
  }
  open_ += bytes;
  if (open_.size() > longest) open_ = open_.substr(open_.rfind('\r') + 1);
  while (open_.size() > longest) {
    const size_t end = cut(open_, longest);
    take(std::string_view(open_).substr(0, end));
    open_.erase(0, end);
  }
}

void Lines::finish(const Take& take) {
  if (!open_.empty()) take(shown(open_));
  open_.clear();
}

Screen::Screen(int descriptor) : descriptor_(descriptor), coloured_(wants_colours(descriptor)) {}

void Screen::write() {
  if (gone_ || write_some(descriptor_, waiting_)) return;
  gone_ = true;
  waiting_.clear();
}

void Screen::flush(const std::function<bool()>& give_up) {
  while (wants() >= 0 && !give_up()) {
    Waiting waiting;
    const size_t here = waiting.writes(descriptor_);
    waiting.wait(std::chrono::milliseconds(50));
    if (waiting.ready(here)) write();
  }
}

Output::Output(std::string folder, uint32_t ranks)
    : out(1),
      errors(2),
      folder_(std::move(folder)),
      ranks_(ranks),
      digits_(std::to_string(std::max(ranks, 1u) - 1).size()) {}

Status Output::open_logs(uint32_t restart) {
  if (folder_.empty()) return {};
  std::error_code trouble;
  std::filesystem::create_directories(folder_, trouble);
  if (trouble)
    return Status(TN_INVALID,
                  "--log-dir is '" + folder_ + "': cannot make that folder: " + trouble.message());
  const std::string suffix = restart == 0 ? "" : ".restart-" + std::to_string(restart);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].path = folder_ + "/rank-" + std::to_string(r) + suffix + ".log";
    ranks_[r].log.reset(std::fopen(ranks_[r].path.c_str(), "we"));
    if (ranks_[r].log == nullptr) {
      return Status(TN_INVALID, "--log-dir is '" + folder_ + "': cannot write " + ranks_[r].path + ": " +
                                    std::strerror(errno) + ": name a folder that you may write to");
    }
  }
  return {};
}

void Output::write(uint32_t rank, bool to_errors, std::string_view bytes) {
  if (rank >= ranks_.size()) return;
  Rank& one = ranks_[rank];
  if (one.log != nullptr && !log_failed_) {
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), one.log.get()) == bytes.size() &&
                         std::fflush(one.log.get()) == 0;
    log_failed_ = !written;
    if (!written) say("cannot write " + one.path + ": " + std::strerror(errno) + "; no more is logged");
  }
  std::string who = std::to_string(rank);
  who.insert(0, digits_ - std::min(digits_, who.size()), ' ');
  Screen& screen = to_errors ? errors : out;
  one.lines[to_errors].add(bytes, [&](std::string_view line) { show(screen, who, rank, line); });
}

void Output::write_host(const std::string& host, std::string_view bytes) {
  hosts_[host].add(bytes, [&](std::string_view line) { show(errors, host, 0, line); });
}

void Output::finish(uint32_t rank) {
  if (rank >= ranks_.size()) return;
  std::string who = std::to_string(rank);
  who.insert(0, digits_ - std::min(digits_, who.size()), ' ');
  ranks_[rank].lines[0].finish([&](std::string_view line) { show(out, who, rank, line); });
  ranks_[rank].lines[1].finish([&](std::string_view line) { show(errors, who, rank, line); });
}

std::string Output::log_of(uint32_t rank) const { return rank < ranks_.size() ? ranks_[rank].path : ""; }

void Output::show(Screen& screen, const std::string& who, size_t colour, std::string_view line) {
  std::string text;
  if (screen.coloured()) text += colours[colour % colours.size()];
  text += "[" + who + "]";
  if (screen.coloured()) text += plain;
  text.append(" ").append(line).append("\n");
  screen.add(text);
}

}  // namespace tenon::tool::run
