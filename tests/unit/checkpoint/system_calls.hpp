// SPDX-License-Identifier: Apache-2.0
// system_calls.hpp: the calls by which this program changes files, counted, and one of them made to go wrong.
//
// The program is linked with --wrap for each of them. Invariant: where nothing is planned the system does what it was asked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::test {

enum class Fate {
  passes,
  fails,           // with `error`, and nothing is done
  is_short,        // half of what was to be written is
  ends_process,    // by SIGKILL, before anything is done
  ends_it_halfway  // by SIGKILL, after half of what was to be written is; what is not a write is done whole
};

struct SystemCalls {
  uint64_t planned = 0;  // the call that meets `fate`, from 1; 0: none does
  Fate fate = Fate::passes;
  int error = 0;
  std::function<void()> before{};   // is called before that call
  std::vector<std::string> made{};  // by name, as long as `counts`
  bool counts = false;
};

// [one thread]
SystemCalls& system_calls() noexcept;

// Lets something happen at call number `planned` of those that are made while it lives.
class Planned {
 public:
  Planned(uint64_t planned, Fate fate, int error = 0) {
    system_calls() = {.planned = planned, .fate = fate, .error = error, .counts = true};
  }
  Planned(uint64_t planned, std::function<void()> before) {
    system_calls() = {.planned = planned, .before = std::move(before), .counts = true};
  }
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
  ~Planned() { system_calls() = {}; }

  const std::vector<std::string>& made() const noexcept { return system_calls().made; }
  bool was_met() const noexcept { return made().size() >= system_calls().planned; }
};

}  // namespace tenon::test
