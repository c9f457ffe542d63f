// SPDX-License-Identifier: Apache-2.0
// store.cpp: one file for each key; waiting is looking again.
#include "conformance/comm/store.hpp"

#include "conformance/words.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tenon::conform {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr auto look_again = std::chrono::microseconds(200);

int32_t told(const Status& said, tn_error* error) {
  if (said.ok()) return TN_OK;
  if (error != nullptr) {
    error->code = said.code();
    std::strncpy(error->domain, "kit", sizeof error->domain - 1);
    std::strncpy(error->message, said.error().message.c_str(), sizeof error->message - 1);
  }
  return said.code();
}

// The end of a wait; a timeout that no clock holds is an hour.
Clock::time_point end_of(uint64_t timeout_ns) {
  constexpr uint64_t most = uint64_t{3600} * 1'000'000'000;
  return Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, most));
}

}  // namespace

Result<MeetingPlace> MeetingPlace::make() {
  std::string pattern = (fs::temp_directory_path() / "tenon-conform-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return Status(TN_INTERNAL, words("no folder for ranks to meet in, of the form ", pattern,
                                     ": set TMPDIR to a folder that can be written"));
  }
  MeetingPlace out;
  out.folder_ = std::move(pattern);
  return out;
}

MeetingPlace::~MeetingPlace() {
  std::error_code ignored;  // what cannot be removed is left to whoever tidies the folder of temporary files
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

FolderStore::FolderStore(std::string folder) : folder_(std::move(folder)) {
  table_.header = {.size = sizeof(tn_store), .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR};
  table_.context = this;
  table_.set = [](void* context, const char* key, const void* data, uint64_t bytes, tn_error* error) {
    const auto* const from = static_cast<const std::byte*>(data);
    return told(static_cast<FolderStore*>(context)->set(key, {from, from + bytes}), error);
  };
  table_.get = [](void* context, const char* key, void* data, uint64_t capacity, uint64_t* bytes,
                  uint64_t timeout_ns, tn_error* error) {
    const auto found = static_cast<FolderStore*>(context)->get(key, timeout_ns);
    if (!found.ok()) return told(Status(found.error()), error);
    *bytes = found->size();
    std::copy_n(found->data(), std::min<uint64_t>(capacity, *bytes), static_cast<std::byte*>(data));
    return int32_t{TN_OK};
  };
}

std::string FolderStore::file_of(const std::string& key) const {
  std::string name = "key-";
  for (const char c : key) name += words(hex(static_cast<unsigned char>(c)).substr(2), ".");
  return folder_ + "/" + name;
}

Status FolderStore::set(const std::string& key, const std::vector<std::byte>& value) const {
  static std::atomic<uint64_t> drafts{0};
  const std::string file = file_of(key);
  const std::string draft = words(file, "draft-", getpid(), "-", ++drafts);
  std::ofstream out(draft, std::ios::binary);
  out.write(reinterpret_cast<const char*>(value.data()), static_cast<std::streamsize>(value.size()));
  out.close();
  if (!out) return Status(TN_INTERNAL, words("'", draft, "' cannot be written"));
  std::error_code failed;
  fs::create_hard_link(draft, file, failed);  // unlike a rename it fails where the file is there
  std::error_code ignored;
  fs::remove(draft, ignored);
  if (!failed) return {};
  return Status(TN_INVALID, words("key '", key, "' was set before: ", failed.message()));
}

Result<std::vector<std::byte>> FolderStore::get(const std::string& key, uint64_t timeout_ns) const {
  const std::string file = file_of(key);
  const auto end = end_of(timeout_ns);
  while (!fs::exists(file)) {
    if (Clock::now() >= end)
      return Status(TN_TIMEOUT, words("no rank set '", key, "' within ", timeout_ns / 1'000'000, " ms"));
    std::this_thread::sleep_for(look_again);
  }
  std::ifstream in(file, std::ios::binary);
  std::vector<std::byte> out(fs::file_size(file));
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  if (!in) return Status(TN_INTERNAL, words("'", file, "' cannot be read"));
  return out;
}

}  // namespace tenon::conform
