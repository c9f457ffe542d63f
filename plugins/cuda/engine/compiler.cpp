// SPDX-License-Identifier: Apache-2.0
// compiler.cpp: the cache folder, and what goes in and out of it.
#include "compiler.hpp"

#include <tenon/author/text.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace tenon::cuda {

using author::text;
namespace fs = std::filesystem;

namespace {

// The environment is not asked in a process that runs with more rights than its user.
fs::path default_cache() {
  if (const char* folder = secure_getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/')
    return fs::path(folder) / "tenon" / "cuda";
  if (const char* home = secure_getenv("HOME"); home != nullptr && home[0] == '/')
    return fs::path(home) / ".cache" / "tenon" / "cuda";
  return {};
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Under another name first, so that nobody reads half of it.
bool write_file(const fs::path& file, std::string_view bytes) {
  static std::atomic<unsigned> count{0};
  std::error_code trouble;
  fs::create_directories(file.parent_path(), trouble);
  if (!trouble) fs::permissions(file.parent_path(), fs::perms::owner_all, trouble);
  const fs::path part = fs::path(file) += text(".", getpid(), ".", count.fetch_add(1));
  std::ofstream out(part, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) fs::rename(part, file, trouble);
  if (out && !trouble) return true;
  fs::remove(part, trouble);
  return false;
}

}  // namespace

Compiler::Compiler(author::Host host) : host_(host) {
  const char* const folder = host.option("cache");
  if (folder == nullptr) {
    cache_ = default_cache();
  } else if (std::string_view(folder) != "off") {
    cache_ = folder;
  }
  if (const char* const keep = host.option("keep")) keep_ = keep;
}

Result<const Nvrtc*> Compiler::nvrtc(int driver_version) const {
  return Nvrtc::open(driver_version, host_.option("nvrtc"));
}

Result<Bundle> Compiler::expect(std::string source, uint32_t sm, int driver_version) const {
  const Nvrtc* const nvrtc = TN_TRY(this->nvrtc(driver_version));
  return Bundle{.sm = sm,
                .compiler = static_cast<uint32_t>(nvrtc->version()),
                .driver = static_cast<uint32_t>(driver_version),
                .source = std::move(source)};
}

Result<Bundle> Compiler::compile(std::string source, uint32_t sm, int driver_version) const {
  Bundle bundle = TN_TRY(expect(std::move(source), sm, driver_version));
  if (bundle.source.empty()) return bundle;
  if (!keep_.empty()) write_file(keep_ / (bundle.key() + ".cu"), bundle.source);
  if (recall(bundle)) return bundle;
  const std::string name = bundle.key() + ".cu";
  bundle.image = TN_TRY(TN_TRY(nvrtc(driver_version))->compile(bundle.source, name.c_str(), sm));
  remember(bundle);
  return bundle;
}

bool Compiler::recall(Bundle& bundle) const {
  if (cache_.empty()) return false;
  const std::string kept = read_file(cache_ / (bundle.key() + ".bundle"));
  return bundle.read(std::as_bytes(std::span(kept))).ok();
}

void Compiler::remember(const Bundle& bundle) const {
  if (cache_.empty()) return;
  std::string out(bundle.bytes(), '\0');
  bundle.write(std::as_writable_bytes(std::span(out)));
  if (!write_file(cache_ / (bundle.key() + ".bundle"), out))
    host_.log(TN_LOG_INFO,
              text("the compiled kernel is not kept: ", cache_.string(), " cannot be written to"));
}

}  // namespace tenon::cuda
