// SPDX-License-Identifier: Apache-2.0
// strategy.cpp: `tenon strategy [FILE]`: what every option of a strategy comes to, who set it, and why it is not as asked.
#include "command.hpp"

#include <tenon/strategy.hpp>

#include <cstdio>
#include <memory>

namespace tenon::tool {

namespace {

struct StrategyRequest {
  std::string file{}, preset = "tenon", save{};
  std::vector<std::string> settings{};
  bool as_file = false;
};

// Sources in the order in which a later one wins.
Result<Strategy> strategy_of(const StrategyRequest& asked) {
  Strategy strategy = TN_TRY(Strategy::preset(asked.preset));
  if (!asked.file.empty()) TN_TRY(strategy.read_file(asked.file));
  TN_TRY(strategy.take_environment());
  for (const std::string& text : asked.settings) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return Status(TN_INVALID, "--set '" + text + "': write KEY=VALUE");
    TN_TRY(strategy.set(text.substr(0, equals), text.substr(equals + 1), "--set"));
  }
  return strategy;
}

Status tell(const StrategyRequest& asked) {
  const Strategy strategy = TN_TRY(strategy_of(asked));
  if (!asked.save.empty()) TN_TRY(strategy.save(asked.save));
  const std::string text = asked.as_file ? strategy.text() : strategy.explain();
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

int run_strategy(const StrategyRequest& asked) {
  const Status told = tell(asked);
  return told.ok() ? exit_good : usage_error(std::string(told.message()));
}

}  // namespace

Command add_strategy(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand("strategy", "Tells what every option of a strategy comes to, and why");
  const auto asked = std::make_shared<StrategyRequest>();
  app->add_option("FILE", asked->file, "A strategy file (.toml)");
  app->add_option("--preset", asked->preset, "What holds where nothing else is said: tenon or documents")
      ->capture_default_str();
  app->add_option("--set", asked->settings, "One option, after file and environment")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app->add_flag("--toml", asked->as_file, "Prints it as a file instead");
  app->add_option("--save", asked->save, "Writes it to a file, every option with its value")
      ->type_name("FILE");
  return {app, [asked] { return run_strategy(*asked); }};
}

}  // namespace tenon::tool
