// SPDX-License-Identifier: Apache-2.0
// run_connection.hpp: the launcher's end of one keeper.
//
// Invariant: it is over only when the process that carries it was reaped, and all that it wrote was read.
#pragma once

#include "run_output.hpp"
#include "run_plan.hpp"

#include <functional>

namespace tenon::tool::run {

class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  using Obey = std::function<void(Connection&, const Frame&)>;

  // Starts the keeper: `command` is this program, or what reaches another host. TN_NOT_FOUND, TN_INVALID.
  // [one thread; may block; may fail]
  static Result<Connection> open(const Host& host, std::vector<std::string> command);

  const Host& host() const noexcept { return *host_; }
  void send(Word word, std::string_view bytes = {});
  // Adds what it waits for; `reads`: whether more output is welcome now.
  void ask(Waiting& waiting, bool reads);
  // What `ask` waited for. Text that is no frame goes to `output`. [one thread; does not block; cannot fail]
  void work(const Waiting& waiting, Output& output, const Obey& obey);
  // Its process ended; takes the rest. [one thread; does not block; cannot fail]
  void reaped(int status, Output& output, const Obey& obey);
  // Asks for a sign of life every few seconds, of other hosts only.
  void beat(bool reads);

  bool over() const noexcept { return over_; }
  pid_t pid() const noexcept { return pid_; }
  // Why nothing more is to be expected although ranks have not ended, or "".
  std::string trouble() const;

  uint32_t left = 0;  // ranks that have not ended
  std::vector<Place> places{};
  bool ready = false;

 private:
  void understand(std::string_view bytes, Output& output, const Obey& obey);
  void take_frames(const Obey& obey);

  const Host* host_ = nullptr;
  pid_t pid_ = 0;
  Fd to_{}, from_{}, errors_{};
  size_t to_place_ = 0, from_place_ = 0, errors_place_ = 0;
  std::string waiting_{}, before_{};
  Frames frames_{};
  bool greeted_ = false, over_ = false, nonsense_ = false;
  int status_ = 0;
  Clock::time_point opened_ = Clock::now(), heard_ = opened_, beaten_ = opened_;
};

// A keeper of another host that hears nothing for so long ends its ranks; so does the launcher.
inline constexpr std::chrono::seconds longest_silence(30);

}  // namespace tenon::tool::run
