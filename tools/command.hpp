// SPDX-License-Identifier: Apache-2.0
// command.hpp: what a subcommand of `tenon` is.
//
// Invariant: a subcommand only describes its options when it is added; it runs after the whole line was understood.
// Exit codes: 0 done, 1 the thing asked about is bad, 2 the question is wrong.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tenon::tool {

inline constexpr int exit_good = 0, exit_bad = 1, exit_usage = 2;

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run{};
};

Command add_conform(CLI::App& tool);
Command add_doctor(CLI::App& tool);
Command add_explain(CLI::App& tool);
Command add_info(CLI::App& tool);
Command add_new_plugin(CLI::App& tool);
Command add_replay(CLI::App& tool);
// `program`: what stands behind `--`.
Command add_run(CLI::App& tool, const std::vector<std::string>& program);
Command add_strategy(CLI::App& tool);
Command add_trace(CLI::App& tool);

// Tells `story` on standard error and returns exit_usage.
int usage_error(const std::string& story);

}  // namespace tenon::tool
