// SPDX-License-Identifier: Apache-2.0
// peer.hpp: a process that measures when it is asked to, one figure at a time, so that its runs stand between those of others.
//
// Both sides speak in lines. The first line of the peer is "ready ABOUT", or why it cannot be asked; then each line it is sent
// is answered by one: a figure, words, or "! WHY".
// Invariant: a peer that is missing, ends or hangs costs its figures and says so; it never ends or hangs the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace bench {

class Peer {
 public:
  using Command = std::vector<std::string>;  // a program and its arguments
  using Settings = std::vector<std::pair<std::string, std::string>>;

  // A script by the peers' own Python (build/peers), or the system's where there is none.
  static Command python(const std::string& script, const std::vector<std::string>& arguments = {});

  // Starts `command` with `settings` in its environment. From here on a broken pipe is an error of a call of this process, not a
  // signal. [one thread; blocks]
  explicit Peer(Command command, const Settings& settings = {});
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Why it cannot be asked; "" when it can.
  const std::string& why() const noexcept { return why_; }
  // What it says of itself: version, threads, settings.
  const std::string& about() const noexcept { return about_; }
  // Its answer, or "! WHY". [blocks]
  std::string ask(const std::string& line);
  // The two halves of it, for several that answer at the same time.
  void say(const std::string& line);
  std::string hear();
  // Its answer as a figure; negative when it is none.
  double figure(const std::string& line);

 private:
  bool start(const std::vector<char*>& words, const std::vector<char*>& variables);
  std::string read_line();
  void give_up(const std::string& why);

  std::string why_{}, about_{}, unread_{};
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace bench
