// SPDX-License-Identifier: Apache-2.0
// journal.cpp: append-only; a line that was cut by a crash is passed over.
#include "conformance/journal.hpp"

#include "conformance/digest.hpp"
#include "conformance/json.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

namespace tenon::conform {

namespace {

std::filesystem::path cache_folder() {
  if (const char* set = std::getenv("XDG_CACHE_HOME"); set != nullptr && set[0] == '/') return set;
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::filesystem::path(home) / ".cache";
  }
  return {};
}

// What makes two runs the same: where one of these differs, a result of the other means nothing.
std::string key_of(const Options& options, const std::string& digest) {
  std::string out = words(digest, '\n', options.seed, '\n', options.device, '\n', options.quick, '\n');
  for (const auto& [key, value] : options.options) out += words(key, '=', value, '\n');
  out += to_json(options.judging).dump() + '\n';
  if (options.worker.empty()) return out;
  std::error_code ignored;
  const std::filesystem::path kit = options.worker.front();
  return out + words(std::filesystem::file_size(kit, ignored), '\n',
                     std::filesystem::last_write_time(kit, ignored).time_since_epoch().count());
}

}  // namespace

Journal::Journal(const Options& options, const std::string& digest) {
  const auto folder = cache_folder();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder / "tenon" / "conform", error);
  if (error) return;
  const std::string key = key_of(options, digest);
  const auto bytes = std::as_bytes(std::span(key));
  file_ =
      folder / "tenon" / "conform" /
      (conform::digest({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}).substr(0, 32) +
       ".jsonl");
}

std::vector<CaseResult> Journal::read() const {
  std::vector<CaseResult> out;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    try {
      out.push_back(result_from(Json::parse(line)));
    } catch (const std::exception&) {
      continue;
    }
  }
  return out;
}

void Journal::clear() const {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

void Journal::append(const CaseResult& result) const {
  if (file_.empty()) return;
  std::ofstream(file_, std::ios::app)
      << to_json(result).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace tenon::conform
