// SPDX-License-Identifier: Apache-2.0
// run_wire.hpp: what the launcher and the keeper on each host say to each other, over the keeper's standard streams.
//
// Invariant: strings of any bytes pass unchanged, so nothing in a job's variables or arguments is ever quoted; what is cut
// off, too large or of another version is refused, never guessed.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool::run {

// What a keeper's output begins with. A remote shell may have written something of its own before.
inline constexpr std::string_view greeting = "\ntenon-run-keeper 1\n";

enum class Word : char {
  // launcher → keeper
  job = 'J',   // a Job
  go = 'G',    // start the ranks
  stop = 'S',  // end them: SIGTERM, after the grace time SIGKILL
  kill = 'K',  // end them now
  // both ways, so that each side knows that the other is there
  beat = 'B',
  // keeper → launcher
  ready = 'R',    // Places
  refused = 'X',  // text: the job cannot run here
  output = 'O',   // bytes of `rank`'s standard output
  errors = 'E',   // of its standard error
  broken = 'F',   // a number, 126 or 127, and text: `rank` could not be started
  ended = 'D',    // a number: `rank`'s status as of waitpid
};

struct Frame {
  Word word{};
  uint32_t rank = 0;
  std::string bytes{};
};

std::string framed(Word word, uint32_t rank = 0, std::string_view bytes = {});

// Takes frames off a stream of bytes.
class Frames {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  // The next whole one, if it is there. TN_INVALID for what is none. [one thread; does not block; may fail]
  Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
};

enum class Bind : uint32_t { automatic, none, core, numa };

// What a keeper is to do.
struct Job {
  std::string version{};  // of the launcher's Tenon: the keeper's must be the same
  std::string folder{};
  std::vector<std::string> command{};
  Bind bind = Bind::automatic;
  uint32_t grace_ms = 0;
  uint32_t silence_ms =
      0;  // a launcher that says nothing for so long is gone; 0: the end of the stream says so
  struct Rank {
    uint32_t rank = 0;
    std::vector<std::string> variables{};  // "NAME=value", over the keeper's own
  };
  std::vector<Rank> ranks{};
};

// Where a rank will run.
struct Place {
  std::string processors{};    // "0-3"; empty: not bound
  std::string threads{};       // OMP_NUM_THREADS
  bool threads_given = false;  // by the user
};

std::string packed(const Job& job);
Result<Job> job_from(std::string_view bytes);
std::string packed(const std::vector<Place>& places);
Result<std::vector<Place>> places_from(std::string_view bytes);
// A number and a text.
std::string packed(uint32_t number, std::string_view text = {});
Result<std::pair<uint32_t, std::string>> number_from(std::string_view bytes);

}  // namespace tenon::tool::run
