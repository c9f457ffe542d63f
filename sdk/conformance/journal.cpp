// SPDX-License-Identifier: Apache-2.0
// journal.cpp: append-only; a line that was cut by a crash is passed over.
#include "conformance/journal.hpp"

#include "conformance/json.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon::conform {

namespace {

std::filesystem::path cache_folder() {
  if (const char* set = std::getenv("XDG_CACHE_HOME"); set != nullptr && set[0] == '/') return set;
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::filesystem::path(home) / ".cache";
  }
  return {};
}

}  // namespace

Journal::Journal(const Options& options, const std::string& digest) {
  const auto folder = cache_folder();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder / "tenon" / "conform", error);
  if (error) return;
  file_ = folder / "tenon" / "conform" /
          words(digest.substr(0, 16), "-", options.seed, "-", options.device, options.quick ? "-quick" : "",
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
