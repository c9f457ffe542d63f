// SPDX-License-Identifier: Apache-2.0
// search_cache.cpp: the file.
#include "search_cache.hpp"

#include "../driver.hpp"

#include <tenon/author/text.hpp>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace tenon::cpu {

using author::text;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view heading = "tenon cpu search 1 ";
constexpr size_t checksum_digits = 16;
constexpr size_t most_findings = 4096;  // more than a program has shapes; a file that is full starts anew

// FNV-1a.
std::string checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  char out[checksum_digits + 1];
  std::snprintf(out, sizeof out, "%016" PRIx64, hash);
  return out;
}

std::string file_in(const std::string& folder) { return (fs::path(folder) / "search").string(); }

// What follows a heading that fits it, or nothing.
std::optional<std::string_view> checked(std::string_view file) {
  const size_t begin = heading.size() + checksum_digits + 1;
  if (file.size() < begin || !file.starts_with(heading) || file[begin - 1] != '\n') return {};
  const std::string_view rest = file.substr(begin);
  if (file.substr(heading.size(), checksum_digits) != checksum(rest)) return {};
  return rest;
}

}  // namespace

void SearchCache::tell_once(bool& told, int32_t level, const std::string& words) const {
  if (!std::exchange(told, true)) host_.log(level, words);
}

SearchCache::Findings SearchCache::read() {
  Findings out;
  std::ifstream in(file_in(folder_), std::ios::binary);
  if (!in) return out;
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto lines = checked(file);
  if (!lines) {
    tell_once(told_damage_, TN_LOG_WARN,
              text("search: ", file_in(folder_),
                   " is damaged: it is ignored, and written anew by the next search"));
    return out;
  }
  // way, ns, key: the key is the rest of the line.
  std::istringstream all{std::string(*lines)};
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    Finding finding{};
    std::string key;
    if (words >> finding.way >> finding.ns && std::getline(words >> std::ws, key)) out[key] = finding;
  }
  return out;
}

bool SearchCache::write(const Findings& findings) const {
  std::ostringstream lines;
  for (const auto& [key, finding] : findings) lines << finding.way << ' ' << finding.ns << ' ' << key << '\n';
  const std::string file = file_in(folder_), part = text(file, ".", driver::process_number());
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << heading << checksum(lines.str()) << '\n' << lines.str();
    out.close();
    if (!out) return false;
  }
  std::error_code trouble;
  fs::rename(part, file, trouble);
  if (!trouble) return true;
  fs::remove(part, trouble);
  return false;
}

std::optional<Finding> SearchCache::find(const std::string& key) {
  if (const auto here = known_.find(key); here != known_.end()) return here->second;
  if (folder_.empty()) return {};
  for (auto& [other, finding] : read()) known_.insert_or_assign(other, finding);
  const auto now = known_.find(key);
  return now != known_.end() ? std::optional(now->second) : std::nullopt;
}

void SearchCache::keep(const std::string& key, const Finding& finding) {
  known_.insert_or_assign(key, finding);
  if (folder_.empty()) return;
  std::error_code trouble;
  if (fs::create_directories(folder_, trouble)) fs::permissions(folder_, fs::perms::owner_all, trouble);
  // Between reading and replacing nobody else may replace it, or their findings would be lost.
  const driver::FolderLock lock(folder_);
  Findings all = read();
  if (all.size() >= most_findings) all.clear();
  all.insert_or_assign(key, finding);
  if (!write(all))
    tell_once(told_trouble_, TN_LOG_INFO,
              text("search: what is found is not kept: ", folder_, " cannot be written to"));
}

}  // namespace tenon::cpu
