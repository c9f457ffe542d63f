// SPDX-License-Identifier: Apache-2.0
// scout.hpp: does in a child process what may never come back, and tells how far it came.
//
// Invariant: what the child loads never enters this process; the child and what it started are ended when `scout` returns.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tenon::tool {

struct Scouted {
  std::string answer{};  // what the work returned
  std::string step{};    // the last that it told
  std::string end{};     // how the child ended ("was killed by SIGSEGV"); empty: it came back with the answer
};

// Takes the words of each step before it is taken, and how long it may last. Words hold no NUL.
using TellStep = std::function<void(const std::string& step, std::chrono::seconds patience)>;

// Calls `work` in a child process, which has a process group of its own. `patience` is for what comes before the first step.
// [no other thread may run yet; blocks; cannot fail]
Scouted scout(const std::function<std::string(const TellStep&)>& work, std::chrono::seconds patience);

}  // namespace tenon::tool
