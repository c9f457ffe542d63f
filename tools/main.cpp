// SPDX-License-Identifier: Apache-2.0
// main.cpp: the `tenon` command: understands the line, then runs one subcommand.
//
// Invariant: a word that is not understood ends with exit code 2 and the nearest known word; nothing is half done.
#include "command.hpp"
#include "run_keeper.hpp"
#include "text.hpp"

#include "conformance/protocol.hpp"
#include "conformance/worker.hpp"

#include <tenon/abi.h>
#include <tenon/version.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

namespace tenon::tool {

namespace {

constexpr const char* footer =
    "Start with `tenon doctor`: it says what was found on this machine and what was not, and why.";

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> out{"help"};
  for (const Command& command : commands) out.push_back(command.app->get_name());
  return out;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

int unknown_word(const std::string& word, const std::string& what, const std::vector<std::string>& known,
                 const std::string& help) {
  const std::string guess = nearest(word, known);
  return usage_error(what + " '" + word + "'" + (guess.empty() ? "" : ": did you mean '" + guess + "'?") +
                     " See `" + help + "`.");
}

// `tenon help [SUBCOMMAND]`.
int help(const CLI::App& tool, const std::vector<Command>& commands, const std::vector<std::string>& words) {
  if (words.size() < 2) {
    std::fputs(tool.help().c_str(), stdout);
    return exit_good;
  }
  for (const Command& command : commands) {
    if (command.app->get_name() != words[1]) continue;
    std::fputs(command.app->help(tool.get_name()).c_str(), stdout);
    return exit_good;
  }
  return unknown_word(words[1], "there is no subcommand", names_of(commands), "tenon help");
}

int run(CLI::App& tool, const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const auto extra = command.app->remaining();
    if (extra.empty()) return command.run();
    const std::string own = "tenon " + command.app->get_name() + " --help";
    const bool option = extra.front().starts_with("-");
    return unknown_word(extra.front().substr(0, extra.front().find('=')),
                        option ? "unknown option" : "unexpected word",
                        option ? options_of(*command.app) : std::vector<std::string>{}, own);
  }
  std::fputs(tool.help().c_str(), stdout);
  return exit_good;
}

// Takes what stands behind the first `--` of `tenon run` off the line: not a word of it is this program's.
std::vector<std::string> cut_program(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return {};
  char** const end = argv + argc;
  char** const at = std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  if (at == end) return {};
  argc = static_cast<int>(at - argv);
  return {at + 1, end};
}

int understand(int argc, char** argv) {
  CLI::App tool("Loads accelerator plugins and says what they can do.", "tenon");
  tool.footer(footer);
  tool.set_version_flag("--version", std::string("tenon ") + tenon::version() + ", plugin ABI " +
                                         std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR));
  const std::vector<std::string> program = cut_program(argc, argv);
  const std::vector<Command> commands{add_doctor(tool),       add_info(tool),       add_explain(tool),
                                      add_conform(tool),      add_new_plugin(tool), add_replay(tool),
                                      add_run(tool, program), add_strategy(tool),   add_trace(tool)};
  for (const Command& command : commands) command.app->allow_extras();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") return help(tool, commands, words);
  const auto known = names_of(commands);
  if (!words.empty() && !words[0].starts_with("-") &&
      std::find(known.begin(), known.end(), words[0]) == known.end()) {
    return unknown_word(words[0], "there is no subcommand", known, "tenon help");
  }
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return unknown_word(words.empty() ? "" : words[0], "unknown option", options_of(tool), "tenon --help");
  } catch (const CLI::Success& asked) {  // --help, --version
    return tool.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    return usage_error(wrong.what());
  }
  return run(tool, commands);
}

}  // namespace

int usage_error(const std::string& story) {
  std::fprintf(stderr, "tenon: %s\n", story.c_str());
  return exit_usage;
}

}  // namespace tenon::tool

int main(int argc, char** argv) {
  const auto is = [&](std::string_view first, std::string_view second) {
    return argc == 3 && argv[1] == first && argv[2] == second;
  };
  if (is("conform", "--worker")) return tenon::conform::serve(tenon::conform::worker_descriptor);
  if (is("run", "--keeper")) return tenon::tool::run::keep();
  try {
    return tenon::tool::understand(argc, argv);
  } catch (const std::exception& escaped) {
    std::fprintf(stderr, "tenon: a defect of this program, please report it: %s\n", escaped.what());
    return tenon::tool::exit_bad;
  }
}
