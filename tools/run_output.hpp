// SPDX-License-Identifier: Apache-2.0
// run_output.hpp: what ranks write, as whole lines with a prefix on the terminal and as it is in files.
//
// Invariant: lines of two ranks never mix, and a terminal that takes nothing for a while holds no one up but the ranks that
// write: the launcher itself never waits for it.
#pragma once

#include "run_process.hpp"

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool::run {

// Cuts a stream of bytes into lines.
class Lines {
 public:
  static constexpr size_t longest = 1 << 20;
  using Take = std::function<void(std::string_view line)>;

  // Hands each line that is complete to `take`, without its end; of a line that was written over with carriage returns (a
  // progress bar), what stands there last. One longer than `longest` comes in pieces. [one thread; cannot fail]
  void add(std::string_view bytes, const Take& take);
  // What is there of a last line without an end.
  void finish(const Take& take);

 private:
  std::string open_;
};

// One of the standard descriptors, written to when it is ready.
class Screen {
 public:
  explicit Screen(int descriptor);
  void add(std::string_view text) {
    if (!gone_) waiting_ += text;
  }
  bool coloured() const noexcept { return coloured_; }
  // -1 when there is nothing to write.
  int wants() const noexcept { return waiting_.empty() || gone_ ? -1 : descriptor_; }
  bool full() const noexcept { return waiting_.size() > (1 << 20) && !gone_; }
  // Whether nobody reads it any more.
  bool gone() const noexcept { return gone_; }
  // Once it is ready. [one thread; does not block; cannot fail]
  void write();
  // All that is left, for as long as someone takes it. [one thread; blocks; cannot fail]
  void flush(const std::function<bool()>& give_up);

 private:
  int descriptor_;
  bool coloured_, gone_ = false;
  std::string waiting_;
};

// Where everything that is written goes.
class Output {
 public:
  Screen out, errors;
  // Log files go to `folder`, unless it is empty.
  Output(std::string folder, uint32_t ranks);

  // Makes the folder and one new file for each rank. TN_INVALID with the path. [one thread; may block; may fail]
  Status open_logs(uint32_t restart);
  // What `rank` wrote; `to_errors`: to its standard error. [one thread; may block for a file; cannot fail]
  void write(uint32_t rank, bool to_errors, std::string_view bytes);
  // What a host's connection wrote, and what stands open at a rank's end.
  void write_host(const std::string& host, std::string_view bytes);
  void finish(uint32_t rank);
  // A line of the launcher's own, on standard error.
  void say(const std::string& text) { errors.add("tenon: " + text + "\n"); }
  // The log file of a rank, or "".
  std::string log_of(uint32_t rank) const;

 private:
  struct Rank {
    Lines lines[2];
    std::string path{};
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> log{nullptr, std::fclose};
  };
  void show(Screen& screen, const std::string& who, size_t colour, std::string_view line);

  std::string folder_;
  std::vector<Rank> ranks_;
  std::map<std::string, Lines> hosts_;
  size_t digits_;
  bool log_failed_ = false;
};

}  // namespace tenon::tool::run
