// SPDX-License-Identifier: Apache-2.0
// conform.cpp: `tenon conform`: runs the conformance kit and shows what it says.
#include "command.hpp"
#include "machine.hpp"
#include "places.hpp"
#include "progress.hpp"
#include "text.hpp"

#include "conformance/case.hpp"
#include "conformance/report.hpp"

#include <tenon/abi.h>
#include <tenon/version.hpp>

#include <fstream>
#include <iostream>
#include <memory>

namespace tenon::tool {

namespace {

struct ConformRequest {
  conform::Options options{};
  std::string wanted{}, json{}, junit{}, html{};
  std::vector<std::string> folders{};
  std::vector<std::string> assignments{};  // "threads=2"
  bool list = false;
};

int list_cases(const conform::Options& options) {
  const auto chosen = conform::select(options);
  for (const conform::Case* known : chosen)
    std::cout << "level " << known->level << "  " << known->name << "\n";
  return chosen.empty() ? usage_error("no case matches") : exit_good;
}

Status write_file(const std::string& file, const std::string& text) {
  if (file.empty()) return {};
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : Status(TN_INVALID, "'" + file + "' cannot be written");
}

// "cpu.threads", as a host calls it, is option "threads" of the plugin in tenon-cpu.so.
std::string own_key(const std::string& key, const std::string& plugin) {
  const std::string group = conform::name_in(plugin) + ".";
  return key.starts_with(group) && key != group ? key.substr(group.size()) : key;
}

Status read_assignments(ConformRequest& asked) {
  for (const std::string& text : asked.assignments) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0) {
      return Status(TN_INVALID, "--option takes KEY=VALUE, not '" + text + "'");
    }
    asked.options.options[own_key(text.substr(0, sign), asked.options.plugin)] = text.substr(sign + 1);
  }
  return {};
}

// What a report says about where it was made: the machine, and the variables that change what a plugin does.
std::vector<std::pair<std::string, std::string>> environment() {
  const Machine m = this_machine();
  std::vector<std::pair<std::string, std::string>> out{
      {"tenon", std::string(tenon::version()) + ", ABI " + std::to_string(TN_ABI_MAJOR) + "." +
                    std::to_string(TN_ABI_MINOR)},
      {"host", m.host},
      {"system", m.system},
      {"cpu", m.cpu},
      {"isa", listed(m.isa)},
      {"cores", std::to_string(m.cores_usable) + " usable of " + std::to_string(m.cores_online)},
      {"memory", bytes_text(m.memory_bytes)}};
  for (const auto& variable : environment_that_matters()) out.push_back(variable);
  return out;
}

conform::Watch watch(Progress& progress, const conform::Report& report, const conform::Style& style) {
  return {.started =
              [&progress, style](const conform::Report& so_far, size_t total) {
                progress.clear();
                progress.total(total);
                conform::print_header(std::cout, so_far, total, style);
              },
          .began = [&progress](const std::string& name) { progress.show(name); },
          .finished =
              [&progress, &report, style](const conform::CaseResult& result) {
                progress.clear();
                progress.count(conform::counts_as_failure(result.verdict, report.options.verify));
                const bool told = conform::noteworthy(result);
                if (!progress.shown() || told) conform::print_line(std::cout, result, style);
                if (told) conform::print_trouble(std::cout, report, result, style);
                std::cout << std::flush;
              },
          .measured = [&progress](const std::string& name) { progress.show("measured: " + name); }};
}

Result<conform::Report> judge(const ConformRequest& asked) {
  const conform::Style style{.colours = wants_colours(1)};
  Progress progress;
  conform::Report frame;  // what reproduce lines are made from
  frame.options = asked.options;
  auto report = conform::run(asked.options, watch(progress, frame, style));
  progress.clear();
  if (report.ok()) {
    if (!report->trouble.empty()) {
      std::cout << "The plugin could not be entered, so no other case was run: " << report->trouble << "\n";
    }
    conform::print_summary(std::cout, *report, style);
    std::cout << std::flush;
  }
  return report;
}

Status conform_plugin(ConformRequest& asked, bool& passed) {
  asked.options.plugin = TN_TRY(plugin_file(asked.wanted, plugin_folders(asked.folders)));
  TN_TRY(read_assignments(asked));
  asked.options.worker = {executable(), "conform", "--worker"};
  asked.options.program = invoked_as();
  asked.options.environment = environment();
  const conform::Report report = TN_TRY(judge(asked));
  TN_TRY(write_file(asked.json, conform::report_json(report)));
  TN_TRY(write_file(asked.junit, conform::report_junit(report)));
  TN_TRY(write_file(asked.html, conform::report_html(report)));
  passed = report.passed();
  return {};
}

int run_conform(ConformRequest& asked) {
  if (asked.list) return list_cases(asked.options);
  if (asked.wanted.empty())
    return usage_error("conform needs a plugin: a file or a name. See `tenon conform --help`.");
  bool passed = false;
  const Status said = conform_plugin(asked, passed);
  if (!said.ok()) return usage_error(std::string(said.message()));
  return passed ? exit_good : exit_bad;
}

}  // namespace

Command add_conform(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand("conform", "Holds a plugin against the contract, case by case");
  const auto asked = std::make_shared<ConformRequest>();
  conform::Options& o = asked->options;
  app->footer("Exit codes: 0 it conforms; 1 it does not, or no case was executed; 2 the question is wrong.");
  app->add_option("PLUGIN", asked->wanted, "A library file, or the name of an installed plugin");
  app->add_flag("--list", asked->list, "Name the cases that would run, and run none");
  app->add_option("--level", o.level,
                  "Run levels 0 … N: 0 memory and streams, 1 ops, 2 fused fragments, 3 collectives, "
                  "4 whole graphs and capture")
      ->type_name("N")
      ->check(CLI::Range(0, 4));
  app->add_option("--filter", o.filters, "Run cases whose name matches a glob, or contains a text")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app->add_flag("--quick", o.quick, "Small sizes and counts: under a minute");
  app->add_option("--seed", o.seed, "Where the random numbers start (1)")->type_name("S");
  app->add_option("--sample", o.sample, "Of the levels above 0 run one case in N, drawn by the seed")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  app->add_option("--repeat", o.repeat, "Run everything N times with numbers of their own")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000000u));
  app->add_option("--round", o.round, "Begin with round R of them (0)")->type_name("R");
  app->add_option("--jobs", o.jobs, "Processes at once (1)")->type_name("N")->check(CLI::Range(1u, 256u));
  app->add_option("--together", o.together,
                  "Groups of cases to a process (1): more where opening a device takes long")
      ->type_name("N")
      ->check(CLI::Range(1u, 10000u));
  app->add_flag("--resume", o.resume, "Go on where a run of the same library and seed was stopped");
  app->add_flag("--verify", o.verify,
                "Unexplained gaps, unexpected passes and declarations out of date fail too");
  app->add_flag("--perf", o.perf, "Measure calls, latencies, copies and kernels too; decides no verdict");
  app->add_option("--device", o.device, "Ordinal of the device to test (0)")->type_name("N");
  app->add_option("--deadline", o.deadline_s, "Seconds that one case may take (30)")
      ->type_name("S")
      ->check(CLI::PositiveNumber);
  app->add_option("--capabilities", o.capabilities, "The vendor's declarations (beside the library)")
      ->type_name("FILE");
  app->add_option("--option", asked->assignments, "An option for the plugin, KEY=VALUE")
      ->type_name("K=V")
      ->allow_extra_args(false);
  app->add_option("--plugin-path", asked->folders, "Folders to search for NAME first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app->add_option("--junit", asked->junit, "Write a JUnit report")->type_name("FILE");
  app->add_option("--json", asked->json, "Write a JSON report")->type_name("FILE");
  app->add_option("--html", asked->html, "Write a report as one page")->type_name("FILE");
  return {app, [asked] { return run_conform(*asked); }};
}

}  // namespace tenon::tool
