// SPDX-License-Identifier: Apache-2.0
// explain.cpp: `tenon explain GRAPH.tg`: how a graph would be cut for a device, and why.
#include "command.hpp"

#include <tenon/plan.hpp>
#include <tenon/runtime.hpp>
#include <tenon/strategy.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

namespace tenon::tool {

namespace {

struct Asked {
  std::string file{}, device = "cpu", strategy{}, dot{}, svg{};
  bool bisect = false, effective = false;
  double bound = 1e-2;
  uint64_t seed = 1;
  std::vector<std::string> folders{}, options{};
};

void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(TN_NOT_FOUND, "'" + path + "' does not open: name a graph in text form (docs/graph.md)");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Graph> graph_of(const std::string& path) {
  auto graph = Graph::parse(TN_TRY(contents(path)));
  if (!graph.ok()) return Status(graph.code(), path + ": " + std::string(graph.message()));
  return graph;
}

Result<std::map<std::string, std::string>> runtime_options(const std::vector<std::string>& given) {
  std::map<std::string, std::string> options;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return Status(TN_INVALID, "--option '" + text + "': write KEY=VALUE");
    options[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return options;
}

Status write(const std::string& path, const std::string& picture) {
  std::ofstream file(path);
  file << picture;
  return file.flush() ? Status() : Status(TN_INVALID, "'" + path + "' cannot be written");
}

// Around what is fused.
std::vector<Graph::Frame> frames_of(const FusionCut& cut) {
  std::vector<Graph::Frame> frames;
  for (const FusionGroup& group : cut.groups) {
    if (group.nodes.size() > 1) frames.push_back({group.rule, group.nodes});
  }
  return frames;
}

// The fusions that change a result. [may fail]
Result<int> tell_bisect(const Asked& asked, const Graph& graph, Device& device, const PlanOptions& options) {
  const FusionSuspect suspect = TN_TRY(bisect(graph, device, options, asked.bound, asked.seed));
  std::printf("bisect: %llu runs on random inputs of seed %llu, bound %g\n",
              static_cast<unsigned long long>(suspect.runs), static_cast<unsigned long long>(asked.seed),
              asked.bound);
  if (suspect.groups.empty()) {
    std::printf("No fusion changes a result: the largest difference is %.3g.\n", suspect.difference);
    return exit_good;
  }
  std::printf("Output '%s' differs by %.3g. It is made by:\n", suspect.output.c_str(), suspect.difference);
  for (const FusionGroup& group : suspect.groups) {
    say("  " + group.rule + " of");
    for (const uint32_t node : group.nodes) {
      const Graph::Node& told = graph.nodes()[node];
      const uint32_t made = told.outputs.empty() ? TN_ABSENT : told.outputs.front();
      say(" " + std::string(name(told.op)) +
          (made == TN_ABSENT ? "" : " '" + graph.values()[made].name + "'"));
    }
    say("\n");
  }
  return exit_bad;
}

Result<int> explained(const Asked& asked) {
  const Graph graph = TN_TRY(graph_of(asked.file));
  Strategy strategy;
  if (!asked.strategy.empty()) TN_TRY(strategy.read_file(asked.strategy));
  TN_TRY(strategy.take_environment());
  if (asked.effective) say(strategy.explain());
  if (!asked.dot.empty()) TN_TRY(write(asked.dot, graph.dot()));
  RuntimeOptions how{.search_path = asked.folders};
  how.options = TN_TRY(runtime_options(asked.options));
  how.options.merge(strategy.runtime());
  Runtime runtime = TN_TRY(Runtime::open(std::move(how)));
  Device device = TN_TRY(runtime.device(asked.device));
  const FusionTarget target = TN_TRY(fusion_target(device));
  const FusionOptions fusion = strategy.fusion(target);
  if (asked.bisect) return tell_bisect(asked, graph, device, {.fusion = fusion});
  const FusionCut cut = TN_TRY(fuse(graph, target, fusion));
  if (!asked.svg.empty()) TN_TRY(write(asked.svg, graph.svg(frames_of(cut))));
  say(explain(graph, target, cut));
  return exit_good;
}

int run_explain(const Asked& asked) {
  if (asked.file.empty()) return usage_error("explain needs a graph. See `tenon explain --help`.");
  const auto told = explained(asked);
  return told.ok() ? *told : usage_error(std::string(told.message()));
}

}  // namespace

Command add_explain(CLI::App& tool) {
  CLI::App* app =
      tool.add_subcommand("explain", "Tells how a graph is fused for a device, and why not otherwise");
  const auto asked = std::make_shared<Asked>();
  app->add_option("GRAPH", asked->file, "A graph in text form (.tg)");
  app->add_option("--device", asked->device, "The device, as \"cpu\", \"cuda:1\" or \"best\"")
      ->capture_default_str();
  app->add_option("--strategy", asked->strategy, "A strategy file")->type_name("FILE");
  app->add_flag("--effective", asked->effective, "First what every option of the strategy comes to");
  app->add_option("--dot", asked->dot, "Writes a picture for Graphviz")->type_name("FILE");
  CLI::Option* const svg =
      app->add_option("--svg", asked->svg, "Writes a picture with a frame around what is fused")
          ->type_name("FILE");
  app->add_flag("--bisect", asked->bisect,
                "Runs the graph on random inputs and finds the fusion that changes a result")
      ->excludes(svg);
  app->add_option("--bound", asked->bound,
                  "With --bisect: the difference, relative to 1 + |value|, that is let pass")
      ->capture_default_str();
  app->add_option("--seed", asked->seed, "With --bisect: of the random inputs")->capture_default_str();
  app->add_option("--option", asked->options, "An option of the runtime or a plugin, as \"cpu.threads=2\"")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app->add_option("--plugin-path", asked->folders, "Folders to search for plugins first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  return {app, [asked] { return run_explain(*asked); }};
}

}  // namespace tenon::tool
