// SPDX-License-Identifier: Apache-2.0
// manifest.cpp: see manifest.hpp.
#include "plugin/manifest.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <sstream>

namespace tenon::plugin {
namespace {

using Keys = std::span<const std::string_view>;
constexpr int64_t schema = 1;
constexpr uint64_t largest_manifest = 64 * 1024;
constexpr std::string_view top_keys[] = {"manifest", "name",    "version", "vendor",
                                         "license",  "library", "abi",     "requires"};
constexpr std::string_view abi_keys[] = {"min", "max"};
constexpr std::string_view requires_keys[] = {"arch", "os", "isa"};

Status bad(const std::string& path, const std::string& text) {
  return Status(TN_INVALID, path + ": " + text);
}

std::string shown(const toml::node& value) {
  std::ostringstream text;
  value.visit([&](const auto& node) { text << node; });
  return base::printable(text.str(), 80);
}

void warn_unknown_keys(const toml::table& table, const std::string& prefix, Keys known, Manifest& manifest) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    manifest.warnings.push_back(manifest.path + ": unknown key '" + prefix + base::printable(key.str(), 64) +
                                "'" + base::did_you_mean(key.str(), known) + ": it has no effect");
  }
}

// The text at `key`, or `fallback` when it is missing; without a fallback it is required.
Result<std::string> text_at(const std::string& path, const toml::table& table, const std::string& prefix,
                            std::string_view key, const char* fallback) {
  const toml::node* value = table.get(key);
  const std::string full = prefix + std::string(key);
  if (value == nullptr && fallback != nullptr) return std::string(fallback);
  if (value == nullptr) return bad(path, "key '" + full + "' is missing: add " + full + " = \"…\"");
  const auto text = value->value_exact<std::string>();
  if (!text) return bad(path, full + " = " + shown(*value) + " is not a string: put it in double quotes");
  if (text->empty()) return bad(path, full + " is empty: fill it in or leave it out");
  return *text;
}

Status check_schema(const std::string& path, const toml::table& root) {
  const toml::node* value = root.get("manifest");
  if (value == nullptr)
    return bad(path, "key 'manifest' is missing: add manifest = " + std::to_string(schema));
  const auto number = value->value_exact<int64_t>();
  if (number == schema) return {};
  return bad(path, "manifest = " + shown(*value) + ", this host reads schema " + std::to_string(schema) +
                       (number && *number > schema ? ": update Tenon"
                                                   : ": set manifest = " + std::to_string(schema)));
}

Result<const toml::table*> table_at(const std::string& path, const toml::table& root, std::string_view key) {
  static const toml::table empty;
  const toml::node* value = root.get(key);
  if (value == nullptr) return &empty;
  if (const toml::table* table = value->as_table()) return table;
  return bad(path,
             std::string(key) + " = " + shown(*value) + " is not a table: write [" + std::string(key) + "]");
}

Status check_name(const std::string& path, const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (std::all_of(name.begin(), name.end(), fits) && name.front() >= 'a' && name.size() <= 64) return {};
  return bad(path, "name = " + base::quoted(name, 80) +
                       " is no plugin name: use a letter, then letters, digits and _, all lower-case");
}

Status check_library(const std::string& path, const std::string& library) {
  const bool bare = library.find('/') == std::string::npos && library != "." && library != ".." &&
                    library.find('\0') == std::string::npos;
  if (bare) return {};
  return bad(path, "library = " + base::quoted(library, 80) +
                       " is a path: give the bare name of a file in the manifest's own folder");
}

Result<AbiVersion> version_at(const std::string& path, const toml::table& abi, std::string_view key) {
  const std::string text = TN_TRY(text_at(path, abi, "abi.", key, nullptr));
  const auto version = abi_version_from(text);
  if (version) return *version;
  return bad(path, "abi." + std::string(key) + " = " + base::quoted(text, 40) +
                       " is no ABI version: write major.minor, as in \"1.0\"");
}

Status read_abi(const toml::table& root, Manifest& manifest) {
  const std::string& path = manifest.path;
  const toml::table* abi = TN_TRY(table_at(path, root, "abi"));
  manifest.abi.min = TN_TRY(version_at(path, *abi, "min"));
  manifest.abi.max = TN_TRY(version_at(path, *abi, "max"));
  warn_unknown_keys(*abi, "abi.", abi_keys, manifest);
  if (manifest.abi.min <= manifest.abi.max) return {};
  return bad(path, "abi.min = " + to_text(manifest.abi.min) +
                       " is above abi.max = " + to_text(manifest.abi.max) + ": swap them");
}

Status read_isa(const toml::table& needs, Manifest& manifest) {
  const toml::node* value = needs.get("isa");
  if (value == nullptr) return {};
  const toml::array* names = value->as_array();
  if (names == nullptr) {
    return bad(manifest.path, "requires.isa = " + shown(*value) + " is not a list: write isa = [\"avx2\"]");
  }
  for (const toml::node& name : *names) {
    const auto text = name.value_exact<std::string>();
    if (!text) return bad(manifest.path, "requires.isa holds " + shown(name) + ", which is not a string");
    manifest.isa.push_back(*text);
  }
  return {};
}

Status read_needs(const toml::table& root, Manifest& manifest) {
  const toml::table* needs = TN_TRY(table_at(manifest.path, root, "requires"));
  manifest.arch = TN_TRY(text_at(manifest.path, *needs, "requires.", "arch", ""));
  manifest.os = TN_TRY(text_at(manifest.path, *needs, "requires.", "os", ""));
  TN_TRY(read_isa(*needs, manifest));
  warn_unknown_keys(*needs, "requires.", requires_keys, manifest);
  return {};
}

}  // namespace

Result<Manifest> parse_manifest(const std::string& path, std::string_view text) {
  const toml::table root = TN_TRY(base::parse_toml(path, text));
  TN_TRY(check_schema(path, root));
  Manifest manifest;
  manifest.path = path;
  manifest.name = TN_TRY(text_at(path, root, "", "name", nullptr));
  TN_TRY(check_name(path, manifest.name));
  manifest.version = TN_TRY(text_at(path, root, "", "version", nullptr));
  manifest.vendor = TN_TRY(text_at(path, root, "", "vendor", "unknown"));
  manifest.license = TN_TRY(text_at(path, root, "", "license", "unknown"));
  manifest.library = TN_TRY(text_at(path, root, "", "library", nullptr));
  TN_TRY(check_library(path, manifest.library));
  TN_TRY(read_abi(root, manifest));
  TN_TRY(read_needs(root, manifest));
  warn_unknown_keys(root, "", top_keys, manifest);
  return manifest;
}

Result<Manifest> read_manifest(const std::string& path) {
  return parse_manifest(path, TN_TRY(base::read_file(path, largest_manifest)));
}

Status check_suits(const Manifest& manifest, const AbiRange& host_range) {
  const std::string who = "plugin '" + manifest.name + "'";
  const base::Host& host = base::host();
  TN_TRY(check_ranges(who, manifest.abi, host_range));
  if (!manifest.os.empty() && manifest.os != host.os) {
    return Status(TN_UNSUPPORTED, who + " needs the system " + base::quoted(manifest.os, 40) + ", this is " +
                                      host.os + ": install its build for " + host.os);
  }
  if (!manifest.arch.empty() && base::canonical_arch(manifest.arch) != host.arch) {
    return Status(TN_UNSUPPORTED, who + " needs the architecture " + base::quoted(manifest.arch, 40) +
                                      ", this host is " + host.arch + ": install its build for " + host.arch);
  }
  for (const std::string& isa : manifest.isa) {
    if (base::host_has(isa)) continue;
    const auto known = base::known_isa_names();
    const bool spelled_right = std::find(known.begin(), known.end(), isa) != known.end();
    return Status(TN_UNSUPPORTED, who + " needs the instruction set " + base::quoted(isa, 40) +
                                      ", which this processor does not offer" +
                                      (spelled_right ? "" : base::did_you_mean(isa, known)) +
                                      ": install a build for an older processor");
  }
  return {};
}

}  // namespace tenon::plugin
