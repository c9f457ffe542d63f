// SPDX-License-Identifier: Apache-2.0
// probe_cache.cpp: see probe_cache.hpp. An entry is four lines (format, code, timeout in ms, message) and one for
// each library that came with the plugin: its stamp, a space, its path.
#include "plugin/probe_cache.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <tenon/version.hpp>

#include <charconv>

namespace tenon::plugin {
namespace {

constexpr uint64_t most_bytes = 256 * 1024;
constexpr std::string_view format = "tenon probe 2";

std::optional<int64_t> number_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void take_library(std::string_view line, Remembered& verdict) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return;
  const std::string path(line.substr(space + 1));
  verdict.current = verdict.current && base::file_stamp(path) == line.substr(0, space);
  verdict.libraries.emplace_back(line);
}

}  // namespace

std::string entry_path(const std::string& cache, const Subject& subject) {
  return cache + "/" + subject.digest + "-abi" + to_text(subject.range.min) + "-" +
         to_text(subject.range.max) + "-lib" + version();
}

std::optional<Remembered> recall(const std::string& cache, const Subject& subject) {
  const std::string path = entry_path(cache, subject);
  if (cache.empty() || !base::is_own_file(path)) return std::nullopt;
  const auto text = base::read_file(path, most_bytes);
  if (!text.ok()) return std::nullopt;
  const auto lines = base::split(*text, '\n');
  if (lines.size() < 4 || lines[0] != format) return std::nullopt;
  const auto code = number_in(lines[1]), timeout = number_in(lines[2]);
  if (!code || !timeout) return std::nullopt;
  Remembered verdict{.timeout = std::chrono::milliseconds(*timeout)};
  if (*code != TN_OK) verdict.status = Status(static_cast<int32_t>(*code), lines[3]);
  for (size_t i = 4; i < lines.size(); ++i) take_library(lines[i], verdict);
  return verdict;
}

Status remember(const std::string& cache, const Subject& subject, const Remembered& verdict) {
  std::string text(format);
  for (const std::string& line :
       {std::to_string(verdict.status.code()), std::to_string(verdict.timeout.count()),
        base::printable(verdict.status.message(), 2000)}) {
    text.append("\n").append(line);
  }
  text += '\n';
  for (const std::string& library : verdict.libraries) {
    if (text.size() + library.size() < most_bytes) text.append(library).append("\n");
  }
  return base::write_file(entry_path(cache, subject), text);
}

}  // namespace tenon::plugin
