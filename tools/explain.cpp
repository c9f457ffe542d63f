// SPDX-License-Identifier: Apache-2.0
// explain.cpp: `tenon explain GRAPH.tg`: how a graph would be cut for a device, and why; with --comm, when its gradients
// would leave.
#include "command.hpp"
#include "explain_comm.hpp"
#include "explain_passes.hpp"
#include "text_file.hpp"

#include <tenon/executor.hpp>
#include <tenon/passes.hpp>
#include <tenon/plan.hpp>
#include <tenon/runtime.hpp>
#include <tenon/strategy.hpp>

#include <charconv>
#include <cstdio>
#include <memory>

namespace tenon::tool {

namespace {

struct ExplainRequest {
  std::string file{}, device = "cpu", strategy{}, dot{}, svg{};
  bool bisect = false, effective = false, comm = false, compile = false;
  double bound = 1e-2;
  uint64_t seed = 1;
  std::vector<std::string> folders{}, options{}, settings{};
  CommQuestion question{};  // of --comm
};

void put_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<Graph> graph_of(const std::string& path, const std::string& text) {
  auto graph = Graph::parse(text);
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

// Around what is fused.
std::vector<Graph::Frame> frames_of(const FusionCut& cut) {
  std::vector<Graph::Frame> frames;
  for (const FusionGroup& group : cut.groups) {
    if (group.nodes.size() > 1) frames.push_back({group.rule, group.nodes});
  }
  return frames;
}

// The fusions that change a result. [may fail]
Result<int> tell_bisect(const ExplainRequest& asked, const passes::Rewritten& work, Device& device,
                        const PlanOptions& options) {
  const Graph& graph = work.graph;
  const FusionSuspect suspect = TN_TRY(bisect(work, device, options, asked.bound, asked.seed));
  std::printf("bisect: %llu runs on random inputs of seed %llu, bound %g\n",
              static_cast<unsigned long long>(suspect.runs), static_cast<unsigned long long>(asked.seed),
              asked.bound);
  if (suspect.groups.empty()) {
    std::printf("No fusion changes a result: the largest difference is %.3g.\n", suspect.difference);
    return exit_good;
  }
  std::printf("Output '%s' differs by %.3g. It is made by:\n", suspect.output.c_str(), suspect.difference);
  for (const FusionGroup& group : suspect.groups) {
    put_out("  " + group.rule + " of");
    for (const uint32_t node : group.nodes) {
      const Graph::Node& told = graph.nodes()[node];
      const uint32_t made = told.outputs.empty() ? TN_ABSENT : told.outputs.front();
      put_out(" " + std::string(name(told.op)) +
              (made == TN_ABSENT ? "" : " '" + graph.values()[made].name + "'"));
    }
    put_out("\n");
  }
  return exit_bad;
}

struct Opened {
  Runtime runtime;
  Device device;
};

Result<Opened> opened(const ExplainRequest& asked, const Strategy& strategy) {
  RuntimeOptions how{.search_path = asked.folders};
  how.options = TN_TRY(runtime_options(asked.options));
  how.options.merge(strategy.runtime());
  Runtime runtime = TN_TRY(Runtime::open(std::move(how)));
  Device device = TN_TRY(runtime.device(asked.device));
  return Opened{std::move(runtime), std::move(device)};
}

// Sources in the order in which a later one wins.
Result<Strategy> strategy_of(const ExplainRequest& asked) {
  Strategy strategy;
  if (!asked.strategy.empty()) TN_TRY(strategy.read_file(asked.strategy));
  TN_TRY(strategy.take_environment());
  for (const std::string& text : asked.settings) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return Status(TN_INVALID, "--set '" + text + "': write KEY=VALUE");
    TN_TRY(strategy.set(text.substr(0, equals), text.substr(equals + 1), "--set"));
  }
  return strategy;
}

// A list is known by not being a graph.
Result<CommStep> step_asked(const ExplainRequest& asked, const std::string& text, const Strategy& strategy) {
  if (!text.starts_with("tenon-graph")) return listed_step(text, asked.file);
  const Graph graph = TN_TRY(graph_of(asked.file, text));
  Opened on = TN_TRY(opened(asked, strategy));
  const FusionTarget target = TN_TRY(fusion_target(on.device));
  return step_of(graph, TN_TRY(fuse(graph, target, strategy.fusion(target))), on.device.name());
}

Result<int> tell_comm(const ExplainRequest& asked, const std::string& text, const Strategy& strategy) {
  CommStep step = TN_TRY(step_asked(asked, text, strategy));
  const SyncOptions sync = strategy.sync();
  step.profile.loss_scaling = sync.loss_scaling;
  step.profile.clip_global_norm = sync.clip_global_norm;
  step.profile.uneven_batches = sync.uneven_batches;
  step.profile.updates_wait = sync.updates_wait;
  const CommLink link = TN_TRY(link_of(asked.question));
  const CommPlan plan = TN_TRY(plan_communication(step.profile, link.target, strategy.overlap()));
  if (!asked.svg.empty()) TN_TRY(write_text(asked.svg, plan.svg()));
  put_out(told(step, link, plan));
  return exit_good;
}

// What passes made of the graph, and how that is cut.
Result<int> tell_cut(const ExplainRequest& asked, const passes::Rewritten& work, const Strategy& strategy,
                     Device& device) {
  const FusionTarget target = TN_TRY(fusion_target(device));
  const FusionOptions fusion = strategy.fusion(target);
  if (asked.bisect) return tell_bisect(asked, work, device, {.fusion = fusion});
  put_out(told_passes(work.notes));
  if (asked.compile) {
    const Plan made = TN_TRY(plan(work, device, {.fusion = fusion}));
    if (!asked.svg.empty()) TN_TRY(write_text(asked.svg, work.graph.svg(frames_of(made.cut()))));
    put_out(made.explain());
    return exit_good;
  }
  const FusionCut cut = TN_TRY(fuse(work.graph, target, fusion));
  if (!asked.svg.empty()) TN_TRY(write_text(asked.svg, work.graph.svg(frames_of(cut))));
  put_out(explain(work.graph, target, cut));
  return exit_good;
}

Result<int> explained(const ExplainRequest& asked) {
  const std::string text = TN_TRY(text_of(asked.file));
  const Strategy strategy = TN_TRY(strategy_of(asked));
  if (asked.comm) {
    if (asked.effective) put_out(strategy.explain());
    return tell_comm(asked, text, strategy);
  }
  const Graph written = TN_TRY(graph_of(asked.file, text));
  if (asked.effective) put_out(strategy.explain());
  Opened on = TN_TRY(opened(asked, strategy));
  const passes::Options options = TN_TRY(passes_for(written, strategy, on.device));
  const passes::Rewritten work = TN_TRY(passes::run(written, options));
  if (!asked.dot.empty()) TN_TRY(write_text(asked.dot, work.graph.dot()));
  return tell_cut(asked, work, strategy, on.device);
}

int run_explain(const ExplainRequest& asked) {
  if (asked.file.empty()) return usage_error("explain needs a graph. See `tenon explain --help`.");
  const auto told = explained(asked);
  return told.ok() ? *told : usage_error(std::string(told.message()));
}

// CLI::Range takes "nan", and spells every digit of its bounds.
CLI::Validator between(double least, double most, const std::string& in_words) {
  return {[=](const std::string& word) {
            double value = 0;
            const char* const end = word.data() + word.size();
            const auto read = std::from_chars(word.data(), end, value);
            const bool well = read.ec == std::errc() && read.ptr == end && value >= least && value <= most;
            return well ? std::string() : "'" + word + "' is no number from " + in_words;
          },
          ""};
}

void add_comm(CLI::App& app, const std::shared_ptr<ExplainRequest>& asked) {
  CLI::Option* const comm = app.add_flag(
      "--comm", asked->comm,
      "Plans when gradients leave: those of a training graph's updates, or of a list (docs/overlap.md)");
  app.add_option("--ranks", asked->question.link.ranks, "With --comm: how many ranks there are")
      ->needs(comm)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  CLI::Option* const costs = app.add_option("--costs", asked->question.costs,
                                            "With --comm: measured times, as lines COLLECTIVE BYTES US")
                                 ->needs(comm)
                                 ->type_name("FILE");
  app.add_option("--gbit", asked->question.link.gbit, "With --comm: Gbit/s of the modelled link")
      ->needs(comm)
      ->excludes(costs)
      ->check(between(0.001, 1e6, "0.001 to 1000000"))
      ->capture_default_str();
  app.add_option("--latency-us", asked->question.link.latency_us,
                 "With --comm: microseconds to a neighbour on the modelled link")
      ->needs(comm)
      ->excludes(costs)
      ->check(between(0, 1e9, "0 to 1000000000"))
      ->capture_default_str();
  for (const char* other : {"--bisect", "--compile", "--dot"}) comm->excludes(app.get_option(other));
}

}  // namespace

Command add_explain(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "explain", "Tells how a graph is fused for a device, or when its gradients leave, and why");
  const auto asked = std::make_shared<ExplainRequest>();
  app->add_option("GRAPH", asked->file, "A graph in text form (.tg); with --comm also a list");
  app->add_option("--device", asked->device, "The device, as \"cpu\", \"cuda:1\" or \"best\"")
      ->capture_default_str();
  app->add_option("--strategy", asked->strategy, "A strategy file")->type_name("FILE");
  app->add_option("--set", asked->settings,
                  "One option of the strategy, after file and environment, as \"mode=documents\"")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app->add_flag("--effective", asked->effective, "First what every option of the strategy comes to");
  app->add_option("--dot", asked->dot, "Writes a picture for Graphviz, of what passes made")
      ->type_name("FILE");
  app->add_flag("--compile", asked->compile,
                "Compiles it as well: who runs each launch, and what memory a run takes");
  CLI::Option* const svg =
      app->add_option("--svg", asked->svg,
                      "Writes a picture: a frame around what is fused, or the lanes of --comm")
          ->type_name("FILE");
  app->add_flag("--bisect", asked->bisect,
                "Runs the graph on random inputs and finds the fusion that changes a result")
      ->excludes(svg)
      ->excludes(app->get_option("--compile"));
  app->add_option("--bound", asked->bound,
                  "With --bisect: the difference, relative to 1 + |value|, that is let pass")
      ->check(between(0, 1e300, "0 on"))
      ->capture_default_str();
  app->add_option("--seed", asked->seed, "With --bisect: of the random inputs")
      ->check(between(0, 18446744073709549568.0, "0 to 2^64 - 1"))
      ->capture_default_str();
  app->add_option("--option", asked->options, "An option of the runtime or a plugin, as \"cpu.threads=2\"")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app->add_option("--plugin-path", asked->folders, "Folders to search for plugins first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  add_comm(*app, asked);
  return {app, [asked] { return run_explain(*asked); }};
}

}  // namespace tenon::tool
