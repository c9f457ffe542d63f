// SPDX-License-Identifier: Apache-2.0
// run_plan.hpp: what `tenon run` was asked for, checked, and which rank goes where with which variables.
//
// Invariant: ranks are numbered host by host in the order of --hosts; every refusal names the option, its value and the
// remedy.
#pragma once

#include "run_wire.hpp"

#include <chrono>
#include <optional>

namespace tenon::tool::run {

// The words of the command line, as they stand.
struct Asked {
  std::string ranks{}, devices{}, hosts{}, interface {
  }, log_folder{};
  std::string timeout = "0", grace = "5", restarts = "0", bind = "auto";
  std::string ssh{}, remote_tenon{};
  std::vector<std::string> variables{};
  bool quiet = false;
  std::vector<std::string> program{};
};

struct Host {
  std::string name{};
  bool here = false;  // this machine: no connection is needed
  uint32_t first = 0, count = 0;
};

struct Plan {
  uint32_t size = 0;
  std::vector<Host> hosts{};
  std::vector<std::string> devices{};
  std::chrono::milliseconds timeout{0}, grace{0};  // a timeout of 0: none
  uint32_t restarts = 0;
  Bind bind = Bind::automatic;
  std::vector<std::string> ssh{};
  bool far() const;  // whether any host is another one
};

// `this_host` is this machine's name. TN_INVALID. [any-thread; does not block; may fail]
Result<Plan> plan_of(const Asked& asked, const std::string& this_host);

// The store of one start of the job.
struct Meeting {
  std::string address{}, token{};
  uint32_t restart = 0;
  std::string flights{};  // folder for flight records; empty: where each rank puts them by itself
};
// The device that a rank of that number on its host is given, or "". [any-thread; does not block; cannot fail]
std::string device_of(const Plan& plan, uint32_t local_rank);
// What rank `local_rank` of `host` gets, as "NAME=value". [any-thread; does not block; cannot fail]
std::vector<std::string> variables_of(const Plan& plan, const Host& host, uint32_t local_rank,
                                      const Meeting& meeting);
// What of `own` ("NAME=value") goes to another host, --env on top: TENON_* and NCCL_*, and what --env names.
// [any-thread; does not block; cannot fail]
std::vector<std::string> passed_on(const std::vector<std::string>& own, const std::vector<std::string>& asked,
                                   bool here);

// One word of a POSIX shell that means `text`, whatever is in it. [any-thread; does not block; cannot fail]
std::string shell_quoted(const std::string& text);

}  // namespace tenon::tool::run
