// SPDX-License-Identifier: Apache-2.0
// probe.cpp: see probe.hpp. The parent's side: starts the child, reads its end as words, remembers.
//
// The child is the program tenon-probe beside libtenon. Where that is missing this process forks: legal, but a lock held
// by another thread at that moment can make an innocent library seem to hang, so such a verdict is not remembered.
#include "plugin/probe.hpp"

#include "base/child.hpp"
#include "base/file.hpp"
#include "base/library.hpp"
#include "base/text.hpp"
#include "plugin/open.hpp"
#include "plugin/probe_cache.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tenon::plugin {
namespace {

constexpr std::string_view option_prefix = "probe.";
constexpr std::string_view option_names[] = {"probe.timeout_ms", "probe.helper", "probe.cache"};
constexpr int64_t longest_timeout_ms = 3'600'000;

Result<std::chrono::milliseconds> timeout_from(const std::string& text) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc() && end == text.data() + text.size() && value > 0 && value <= longest_timeout_ms) {
    return std::chrono::milliseconds(value);
  }
  return Status(TN_INVALID, "option probe.timeout_ms is " + base::quoted(text, 40) +
                                ": give whole milliseconds, 1 to " + std::to_string(longest_timeout_ms));
}

Status take_option(const std::string& key, const std::string& value, ProbeSettings& settings) {
  if (key == "probe.timeout_ms") {
    settings.timeout = TN_TRY(timeout_from(value));
    return {};
  }
  if (key != "probe.helper" && key != "probe.cache") {
    return Status(TN_INVALID,
                  "there is no option " + base::quoted(key, 80) + base::did_you_mean(key, option_names));
  }
  if (!value.empty() && !base::is_absolute(value)) {
    return Status(TN_INVALID, "option " + key + " is " + base::quoted(value) +
                                  ": give an absolute path, or \"\" for none");
  }
  (key == "probe.helper" ? settings.helper : settings.cache) = value;
  return {};
}

std::string default_cache(const base::Environment& environment) {
  const std::string cache = environment.get("XDG_CACHE_HOME").value_or("");
  if (base::is_absolute(cache)) return cache + "/tenon/probe";
  const std::string home = environment.get("HOME").value_or("");
  return base::is_absolute(home) ? home + "/.cache/tenon/probe" : "";
}

// What the child said (probe_child.cpp).
struct Report {
  Stage stage = Stage::open;
  bool whole = false;
  int32_t code = TN_OK;
  std::string message{};
  std::vector<std::string> libraries{};  // each with its stamp
};

void take_record(std::string_view record, Report& report) {
  if (record.empty()) return;
  const char kind = record.front();
  if (kind == 'l') {
    report.libraries.emplace_back(record.substr(1));
  } else if (kind != '=') {
    const size_t stage = stage_letters.find(kind);
    if (stage != std::string_view::npos) report.stage = static_cast<Stage>(stage);
  } else if (const size_t line = record.find('\n'); line != std::string_view::npos) {
    report.whole = std::from_chars(record.data() + 1, record.data() + line, report.code).ec == std::errc();
    report.message = record.substr(line + 1);
  }
}

Report read_report(std::string_view text) {
  Report report;
  for (size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
    take_record(text.substr(0, end), report);
    text.remove_prefix(end + 1);
  }
  return report;
}

const char* stage_words(Stage stage) {
  switch (stage) {
    case Stage::open:
      return "while it was being opened (in a static initialiser, or in a library it needs)";
    case Stage::entry:
      return "in " TN_PLUGIN_ENTRY_NAME;
    case Stage::tables:
      return "while its tables were read";
    case Stage::devices:
      return "while its devices were counted";
  }
  return "";
}

// The end of what it printed on standard error, where reasons stand.
std::string last_words(const std::string& errors) {
  std::string text = base::printable(errors, errors.size());
  constexpr size_t limit = 160;
  if (text.size() > limit) text = "…" + text.substr(text.find(' ', text.size() - limit) + 1);
  return text.empty() ? "" : " (last words: '" + text + "')";
}

std::string noise_words(const base::ChildEnd& end) {
  return "wrote " + base::counted(end.output_bytes, "byte") + " to standard output (" +
         base::quoted(end.output, 60) +
         "), which belongs to the program: print nothing; log through tn_host.log";
}

class Trial {
 public:
  Trial(const Subject& subject, const ProbeSettings& settings)
      : subject_(subject), settings_(settings), file_(base::name_of(subject.path)) {}

  Remembered run(bool& keep) {
    auto end = start();
    if (!end.ok())
      return {.status = Status(TN_INTERNAL, file_ + " could not be tried: " + std::string(end.message()))};
    return judge(*end, keep);
  }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  Result<base::ChildEnd> start() {
    if (!settings_.helper.empty()) {
      auto end = base::run_program(
          settings_.helper,
          {subject_.path, subject_.name, to_text(subject_.range.min), to_text(subject_.range.max)},
          settings_.timeout);
      if (end.code() != TN_NOT_FOUND) return end;
      warnings_.push_back(std::string(end.message()) + ": it was tried in a fork instead; reinstall Tenon");
    }
    forked_ = true;
    return base::run_forked([this] { run_probe_child(subject_.path, subject_.name, subject_.range); },
                            settings_.timeout);
  }

  // `keep`: whether the verdict is about the file, so that the next process need not try again.
  Remembered judge(const base::ChildEnd& end, bool& keep) {
    Report report = read_report(end.answer);
    Remembered verdict = judge(end, report, keep);
    verdict.libraries = std::move(report.libraries);
    return verdict;
  }

  Remembered judge(const base::ChildEnd& end, const Report& report, bool& keep) {
    keep = !report.whole || report.code == TN_OK;
    if (report.whole && report.code != TN_OK) return {.status = Status(report.code, report.message)};
    if (report.whole && end.output_bytes != 0)
      return {.status = Status(TN_INVALID, file_ + " " + noise_words(end))};
    if (report.whole) return {};
    const std::string where = stage_words(report.stage);
    switch (end.how) {
      case base::ChildEnd::How::timed_out:
        keep = !forked_;
        return {.status = Status(TN_TIMEOUT, file_ + " hangs: it did not come back within " +
                                                 std::to_string(settings_.timeout.count()) + " ms " + where +
                                                 " and was stopped; option probe.timeout_ms gives it longer"),
                .timeout = settings_.timeout};
      case base::ChildEnd::How::signalled:
        return {.status = Status(TN_INTERNAL, file_ + " crashes with " + base::signal_name(end.code) + " " +
                                                  where + last_words(end.errors) + ": tell its vendor")};
      case base::ChildEnd::How::exited:
        return {.status =
                    Status(TN_INTERNAL, file_ + " ends the process with exit code " +
                                            std::to_string(end.code) + " " + where + last_words(end.errors) +
                                            ": a plugin returns errors, it never exits")};
      case base::ChildEnd::How::unknown:
        break;
    }
    keep = false;
    return {.status = Status(TN_INTERNAL,
                             file_ + " could not be tried: the child's end was taken by somebody else's "
                                     "waitpid; wait for your own children only")};
  }

  const Subject& subject_;
  const ProbeSettings& settings_;
  std::string file_;
  bool forked_ = false;
  std::vector<std::string> warnings_;
};

bool still_counts(const Remembered& found, const ProbeSettings& settings) {
  const bool given_longer = found.timeout > found.timeout.zero() && settings.timeout > found.timeout;
  return found.current && !given_longer;
}

Verdict verdict_of(const Remembered& found, const Subject& subject, const ProbeSettings& settings) {
  Verdict verdict{.how = "remembered"};
  if (!found.status.ok()) {
    verdict.status =
        Status(found.status.code(), std::string(found.status.message()) + " (remembered; delete " +
                                        entry_path(settings.cache, subject) + " to try it again)");
  }
  return verdict;
}

std::string_view path_in(std::string_view library) {
  return library.substr(std::min(library.find(' '), library.size() - 1) + 1);
}

// What came the last time and not this time, because it died before, or found it gone, may be why: it is watched as it is now.
void watch_on(const Remembered& before, Remembered& now) {
  for (const std::string& library : before.libraries) {
    const std::string path(path_in(library));
    const bool again = std::any_of(now.libraries.begin(), now.libraries.end(),
                                   [&](const std::string& one) { return path_in(one) == path; });
    if (!again && !path.empty()) now.libraries.push_back(base::file_stamp(path) + " " + path);
  }
}

}  // namespace

Result<ProbeSettings> probe_settings(const RuntimeOptions& options, const base::Environment& environment) {
  ProbeSettings settings{.mode = options.probe, .cache = default_cache(environment)};
  const std::string own = base::own_folder();
  if (!own.empty() && base::file_kind(own + "/tenon/tenon-probe") == base::FileKind::file) {
    settings.helper = own + "/tenon/tenon-probe";
  }
  for (const auto& [key, value] : options.options) {
    if (key.starts_with(option_prefix)) TN_TRY(take_option(key, value, settings));
  }
  return settings;
}

Verdict probe(const Subject& subject, const ProbeSettings& settings) {
  if (settings.mode == Probe::off) return {.how = "off"};
  const std::optional<Remembered> before = recall(settings.cache, subject);
  if (before && still_counts(*before, settings)) return verdict_of(*before, subject, settings);
  Trial trial(subject, settings);
  bool keep = false;
  Remembered result = trial.run(keep);
  if (before) watch_on(*before, result);
  Verdict verdict{.how = "child", .warnings = trial.take_warnings()};
  if (keep && !settings.cache.empty()) {
    const Status stored = remember(settings.cache, subject, result);
    if (!stored.ok()) {
      verdict.warnings.push_back(std::string(stored.message()) + ": it is tried again each time");
    }
  }
  verdict.status = std::move(result.status);
  return verdict;
}

}  // namespace tenon::plugin
