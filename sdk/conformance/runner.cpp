// SPDX-License-Identifier: Apache-2.0
// runner.cpp: selects, enters the plugin once to learn who it is, runs the rest, decides verdicts.
#include "conformance/runner.hpp"

#include "conformance/case.hpp"
#include "conformance/digest.hpp"
#include "conformance/journal.hpp"
#include "conformance/perf.hpp"
#include "conformance/process.hpp"
#include "conformance/protocol.hpp"
#include "conformance/random.hpp"
#include "conformance/schedule.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

namespace tenon::conform {

namespace {

// Runs first, whatever was selected: where it fails, no other case can say anything.
constexpr const char* entry_case = "abi: the entry returns a complete descriptor";

// Failures that are tried alone, and how long one may have taken: a plugin that fails everywhere is not run twice.
constexpr size_t most_tried_alone = 32;
constexpr double longest_tried_alone_ms = 2000;

// `whole`: the filter is a case's whole name and means that case alone.
bool selected_by(const std::string& filter, bool whole, std::string_view name) {
  if (whole) return filter == name;
  if (filter.find_first_of("*?[") != std::string::npos) return glob(filter, name);
  return name.find(filter) != std::string_view::npos;
}

// Whether the sample that was asked for has a case. What every other case stands on is never left out.
bool sampled(const Options& options, const Case& known) {
  return known.level == 0 || Random::of(options.seed, known.name, options.sample).chance(options.sample);
}

// As a POSIX shell reads it back.
std::string quoted(const std::string& text) {
  static constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The present moment, UTC: "2026-05-31T12:00:00Z".
std::string moment_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char out[32];
  return std::string(out, std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

// The vendor's file: as asked for, or beside tenon-NAME.so as NAME.capabilities.toml or, when it names it, capabilities.toml.
Result<Capabilities> find_capabilities(const Options& options) {
  if (!options.capabilities.empty()) return read_capabilities(options.capabilities);
  const std::filesystem::path library(options.plugin);
  const std::string name = name_in(options.plugin);
  std::error_code ignored;
  const auto own = library.parent_path() / (name + ".capabilities.toml");
  if (std::filesystem::exists(own, ignored)) return read_capabilities(own);
  const auto shared = library.parent_path() / "capabilities.toml";
  if (!std::filesystem::exists(shared, ignored)) return Capabilities{};
  Capabilities found = TN_TRY(read_capabilities(shared));
  return found.plugin == name ? found : Capabilities{};
}

// One run in progress.
class Run {
 public:
  Run(const Options& options, const Watch& watch) : watch_(watch) {
    report_.options = options;
    add_environment(report_.options, environ);
    report_.began = moment_now();
  }
  Status prepare();
  Status enter();
  Status rest();
  void measure();
  Report finish() &&;

 private:
  void take(CaseResult result, bool fresh);
  void try_alone(CaseResult& result);
  Status check_device() const;
  Status check_declared() const;
  Events events();
  size_t total() const { return wanted_.size() * report_.options.repeat; }

  const Watch& watch_;
  Report report_{};
  std::vector<const Case*> wanted_{};
  std::set<std::pair<std::string, uint32_t>> done_{};
  std::optional<Journal> journal_{};
  size_t tried_alone_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Status Run::prepare() {
  const Options& options = report_.options;
  report_.digest = TN_TRY(file_digest(options.plugin));
  report_.declared = TN_TRY(find_capabilities(options));
  report_.options.judging = judging_of(report_.declared, report_.today());
  wanted_ = select(options);
  if (wanted_.empty()) return Status(TN_INVALID, "no case is selected: see `tenon conform --list`");
  journal_.emplace(options, report_.digest);
  if (!options.resume) {
    journal_->clear();
    return {};
  }
  for (CaseResult& earlier : journal_->read()) {
    const bool wanted =
        std::any_of(wanted_.begin(), wanted_.end(), [&](const Case* c) { return earlier.name == c->name; });
    const bool asked = earlier.round >= options.round && earlier.round - options.round < options.repeat;
    if (!wanted || !asked || earlier.name == entry_case) continue;
    if (done_.contains({earlier.name, earlier.round})) continue;
    ++report_.resumed;
    take(std::move(earlier), false);
  }
  return {};
}

// A case that failed in a process it shared is tried in one of its own, so that the line that repeats it is true.
void Run::try_alone(CaseResult& result) {
  const Case* const wanted = find_case(result.name);
  if (wanted == nullptr || wanted->alone || tried_alone_ >= most_tried_alone) return;
  if (result.milliseconds > longest_tried_alone_ms) return;
  ++tried_alone_;
  std::optional<CaseResult> alone;
  const Status said = run_batches(report_.options, {{.round = result.round, .cases = {wanted}}}, false,
                                  {.done = [&](CaseResult found) { alone = std::move(found); }});
  if (!said.ok() || !alone || alone->finding.outcome == Outcome::failed) return;
  result.in_company = true;
  result.finding.warnings.push_back(
      "alone it passes: it depends on the cases before it in its process, or on chance; the line below "
      "runs them, too");
}

void Run::take(CaseResult result, bool fresh) {
  decide(result, report_.declared, report_.today());
  if (fresh && result.verdict == Verdict::failed) try_alone(result);
  done_.insert({result.name, result.round});
  if (fresh) journal_->append(result);
  const bool extra = result.name == entry_case &&
                     std::find(wanted_.begin(), wanted_.end(), find_case(entry_case)) == wanted_.end();
  if (extra && result.verdict == Verdict::passed)
    return;  // it was not asked for, and there is nothing to say
  if (watch_.finished) watch_.finished(result);
  report_.results.push_back(std::move(result));
}

Events Run::events() {
  return {.began = watch_.began,
          .done = [this](CaseResult result) { take(std::move(result), true); },
          .described =
              [this](Description found) {
                report_.plugin = std::move(found);
                if (watch_.started) watch_.started(report_, total());
              },
          .not_described =
              [this](const std::string& why) { report_.trouble = "the plugin could not be asked: " + why; }};
}

Status Run::enter() {
  const Case* const entry = find_case(entry_case);
  if (entry == nullptr) return {};
  TN_TRY(run_batches(report_.options, {{.round = report_.options.round, .cases = {entry}}}, true, events()));
  if (report_.plugin) {
    TN_TRY(check_device());
    return check_declared();
  }
  if (report_.trouble.empty()) report_.trouble = "the plugin could not be entered";
  for (const CaseResult& result : report_.results) {
    if (result.name == entry_case && !result.finding.failures.empty())
      report_.trouble = result.finding.failures.front();
  }
  if (watch_.started) watch_.started(report_, total());
  return {};
}

Status Run::check_device() const {
  const size_t count = report_.plugin->devices.size();
  if (report_.options.device == 0 || report_.options.device < count) return {};
  return Status(TN_INVALID, words("there is no device ", report_.options.device, ": the plugin counts ",
                                  count, "; --device takes 0 … N-1"));
}

// A vendor's file for another plugin would excuse what it should not.
Status Run::check_declared() const {
  const Capabilities& declared = report_.declared;
  if (declared.file.empty() || declared.plugin == report_.plugin->name) return {};
  return Status(TN_INVALID, words(declared.file, " declares for plugin '", declared.plugin,
                                  "', this one is '", report_.plugin->name, "': correct its [plugin] name"));
}

Status Run::rest() {
  const bool pointless = !report_.plugin;
  std::deque<Batch> queue;
  const uint32_t first = report_.options.round;
  for (uint32_t round = first; round - first < report_.options.repeat; ++round) {
    std::vector<const Case*> open;
    for (const Case* wanted : wanted_) {
      if (done_.contains({wanted->name, round})) continue;
      if (!pointless) {
        open.push_back(wanted);
        continue;
      }
      CaseResult result = not_run_yet(*wanted, round);
      result.finding.reason = report_.trouble;
      report_.results.push_back(std::move(result));
    }
    for (Batch& batch : batches(open, round, report_.options.together)) queue.push_back(std::move(batch));
  }
  return run_batches(report_.options, std::move(queue), false, events());
}

void Run::measure() {
  if (report_.options.perf && report_.plugin) {
    report_.performance = measure_apart(report_.options, watch_.measured);
  }
}

Report Run::finish() && {
  std::stable_sort(report_.results.begin(), report_.results.end(),
                   [](const CaseResult& a, const CaseResult& b) {
                     return std::tie(a.round, a.level, a.name) < std::tie(b.round, b.level, b.name);
                   });
  const Options& o = report_.options;
  const bool complete = report_.plugin && o.level < 0 && o.filters.empty() && o.sample == 1;
  report_.complaints = audit(report_.declared, report_.results, report_.today(), complete);
  if (o.verify) report_.remarks = idle_tolerances(report_.declared, report_.results, report_.today());
  report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return std::move(report_);
}

}  // namespace

size_t Report::count(Verdict verdict) const noexcept {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(),
                                           [&](const CaseResult& r) { return r.verdict == verdict; }));
}

size_t Report::executed() const noexcept {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(), [](const CaseResult& r) {
    return r.verdict != Verdict::skipped && r.verdict != Verdict::not_run;
  }));
}

bool Report::passed() const noexcept {
  if (options.verify && !complaints.empty()) return false;
  return executed() > 0 && std::none_of(results.begin(), results.end(), [&](const CaseResult& r) {
           return counts_as_failure(r.verdict, options.verify);
         });
}

std::string name_in(const std::string& library) {
  const std::string stem = std::filesystem::path(library).stem();
  return stem.starts_with("tenon-") ? stem.substr(6) : stem;
}

std::vector<const Case*> select(const Options& options) {
  std::vector<std::pair<std::string, bool>> filters;  // and whether each is a whole name
  for (const std::string& filter : options.filters)
    filters.emplace_back(filter, find_case(filter) != nullptr);
  std::vector<const Case*> out;
  for (const Case& known : all_cases()) {
    if (options.level >= 0 && known.level > options.level) continue;
    const bool wanted =
        filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const auto& filter) {
          return selected_by(filter.first, filter.second, known.name);
        });
    if (wanted && sampled(options, known)) out.push_back(&known);
  }
  return out;
}

void add_environment(Options& options, const char* const* environment) {
  const auto folded = [](std::string text, int (*fold)(int)) {
    for (char& c : text) c = c == '-' ? '_' : static_cast<char>(fold(static_cast<unsigned char>(c)));
    return text;
  };
  const std::string prefix = "TENON_" + folded(name_in(options.plugin), std::toupper) + "_";
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t sign = entry.find('=');
    if (!entry.starts_with(prefix) || sign == std::string_view::npos || sign == prefix.size()) continue;
    const std::string key(entry.substr(prefix.size(), sign - prefix.size()));
    options.options.try_emplace(folded(key, std::tolower), entry.substr(sign + 1));
  }
}

Result<Report> run(const Options& options, const Watch& watch) {
  Run going(options, watch);
  TN_TRY(going.prepare());
  TN_TRY(going.enter());
  TN_TRY(going.rest());
  going.measure();
  return std::move(going).finish();
}

namespace {

// Filters of the groups that share the process of a case.
std::vector<std::string> company_of(const Options& options, const CaseResult& result) {
  const auto filter = [](std::string_view name) { return words(name.substr(0, name.find(':')), ": *"); };
  for (const Batch& batch : batches(select(options), result.round, options.together)) {
    std::vector<std::string> out;
    bool here = false;
    for (const Case* member : batch.cases) {
      here |= member->name == result.name;
      if (out.empty() || out.back() != filter(member->name)) out.push_back(filter(member->name));
    }
    if (here) return out;
  }
  return {filter(result.name)};
}

}  // namespace

std::string reproduce_line(const Report& report, const CaseResult& result) {
  const Options& o = report.options;
  std::string out = words(quoted(o.program), " conform ", quoted(o.plugin));
  for (const std::string& filter : result.in_company ? company_of(o, result) : std::vector{result.name})
    out += words(" --filter ", quoted(filter));
  out += words(" --seed ", o.seed);
  if (result.in_company && o.together != 1) out += words(" --together ", o.together);
  if (result.round != 0) out += words(" --round ", result.round);
  if (o.quick) out += " --quick";
  if (o.verify) out += " --verify";
  if (o.device != 0) out += words(" --device ", o.device);
  if (o.deadline_s != default_deadline_s) out += words(" --deadline ", o.deadline_s);
  if (!o.capabilities.empty()) out += words(" --capabilities ", quoted(o.capabilities));
  for (const auto& [key, value] : o.options) out += words(" --option ", quoted(key + "=" + value));
  return out;
}

Result<Description> describe_apart(const Options& options) {
  Options asked = options;
  add_environment(asked, environ);
  Request request;
  request.settings.plugin = options.plugin;
  request.settings.options = asked.options;
  request.describe = true;
  Process process = TN_TRY(Process::start(options.worker, encode(request)));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.deadline_s);
  while (std::chrono::steady_clock::now() < limit) {
    while (auto text = process.receive()) {
      const Message message = TN_TRY(decode_message(*text));
      if (message.kind == Message::Kind::description) return message.description;
      if (!message.finding.failures.empty()) return Status(TN_INTERNAL, message.finding.failures.front());
    }
    if (const auto end = process.ended(); end && process.connection() < 0) {
      const std::string place = place_of(process.trail());
      return Status(TN_INTERNAL, words(end->exited ? words("the process ended with exit(", end->status, ")")
                                                   : words("the process died of ", signal_name(end->signal)),
                                       place.empty() ? "" : "; it was " + place));
    }
    wait_for_any({process.connection()}, 10);
  }
  return Status(TN_TIMEOUT, words("the plugin did not answer within ", options.deadline_s, " s; ",
                                  hang_of(process.trail(), options.deadline_s)));
}

}  // namespace tenon::conform
