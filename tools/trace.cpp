// SPDX-License-Identifier: Apache-2.0
// trace.cpp: `tenon trace RUN.json…`: what measured runs add up to, and their lanes as a page; and `tenon trace --flight
// FOLDER`: what ranks wrote down when their communicator failed.
#include "command.hpp"
#include "flight_story.hpp"
#include "text.hpp"
#include "text_file.hpp"
#include "trace_page.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

namespace tenon::tool {

namespace {

struct TraceRequest {
  std::vector<std::string> files{};
  std::string html{}, json{}, flights{};
};

// "no-overlap" for "runs/no-overlap.rank0.json".
std::string name_of(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  const size_t at = stem.rfind(".rank");
  return at == std::string::npos || at == 0 ? stem : stem.substr(0, at);
}

// Files of one run after the other: one that has a rank which the run has already begins another.
Result<std::vector<TraceRun>> runs_of(const std::vector<std::string>& files) {
  std::vector<std::vector<std::string>> paths;
  std::set<uint32_t> ranks;  // of the last
  for (const std::string& file : files) {
    const Trace part = TN_TRY(Trace::read({file}));
    const auto here = [&](const TraceLane& lane) { return ranks.contains(lane.rank); };
    const bool twice = !paths.empty() && std::count(paths.back().begin(), paths.back().end(), file) > 0;
    if (paths.empty() || (!twice && std::any_of(part.lanes.begin(), part.lanes.end(), here))) {
      paths.emplace_back();
      ranks.clear();
    }
    paths.back().push_back(file);
    for (const TraceLane& lane : part.lanes) ranks.insert(lane.rank);
  }
  std::vector<TraceRun> out;
  for (const std::vector<std::string>& of : paths) {
    TraceRun run{.name = name_of(of.front())};
    run.trace = TN_TRY(Trace::read(of));
    for (const std::string& file : of) run.files.push_back(std::filesystem::path(file).filename().string());
    out.push_back(std::move(run));
  }
  return out;
}

std::string figure(double number, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %s", number, unit);
  return text;
}

// The sums of all ranks, a line for each run, and then each run for itself.
std::string side_by_side(const std::vector<TraceRun>& runs) {
  std::vector<std::vector<std::string>> rows{
      {"run", "wall", "compute", "communication", "exposed", "overlap", "busy"}};
  std::string each;
  for (const TraceRun& run : runs) {
    const TraceSummary sums = summarize(run.trace);
    const TraceTotals& all = sums.all;
    rows.push_back({run.name, figure(all.wall_ns / 1e6, "ms"), figure(all.compute_ns / 1e6, "ms"),
                    figure(all.communication_ns / 1e6, "ms"), figure(all.exposed_ns / 1e6, "ms"),
                    figure(100 * all.overlap(), "%"), figure(100 * all.busy(), "%")});
    each += "\n" + run.name + "\n" + sums.text();
  }
  return columns(rows) + each;
}

Status traced(const TraceRequest& asked) {
  const std::vector<TraceRun> runs = TN_TRY(runs_of(asked.files));
  if (runs.size() > 1 && !asked.json.empty())
    return {TN_INVALID, "--json puts the ranks of one run together, and these files are of " +
                            std::to_string(runs.size()) + ": name those of one"};
  const std::string text = runs.size() == 1 ? summarize(runs[0].trace).text() : side_by_side(runs);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!asked.json.empty()) TN_TRY(runs[0].trace.write(asked.json));
  return asked.html.empty() ? Status() : write_text(asked.html, trace_page(runs));
}

Status told(const std::string& flights) {
  const std::string story = TN_TRY(tell_flight(flights));
  std::fwrite(story.data(), 1, story.size(), stdout);
  return {};
}

int run_trace(const TraceRequest& asked) {
  if (asked.files.empty() == asked.flights.empty()) {
    return usage_error(
        "trace needs the files that Timeline::write wrote, one for each rank, or --flight with a folder. See "
        "`tenon trace --help`.");
  }
  const Status done = asked.flights.empty() ? traced(asked) : told(asked.flights);
  return done.ok() ? exit_good : usage_error(std::string(done.message()));
}

}  // namespace

Command add_trace(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "trace",
      "Adds a measured run up: exposed communication, overlap, predicted against actual; as a page, too");
  const auto asked = std::make_shared<TraceRequest>();
  app->add_option("FILES", asked->files,
                  "What Timeline::write wrote, one for each rank; of several runs, one run after the other");
  app->add_option("--html", asked->html,
                  "Writes one page with the lanes and the sums, runs one over the other")
      ->type_name("FILE");
  app->add_option("--json", asked->json, "Writes all ranks into one file, for ui.perfetto.dev")
      ->type_name("FILE");
  app->add_option("--flight", asked->flights, "Tells from the flight records in a folder who waited for whom")
      ->type_name("FOLDER");
  return {app, [asked] { return run_trace(*asked); }};
}

}  // namespace tenon::tool
