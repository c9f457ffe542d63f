// SPDX-License-Identifier: Apache-2.0
// manifest.cpp: level 0, tenon-NAME.toml: what a host believes of a library before it opens it.
#include "conformance/case.hpp"
#include "conformance/objects.hpp"

#ifndef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#endif
#include <toml++/toml.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace tenon::conform {

namespace {

using Version = std::pair<unsigned, unsigned>;

std::optional<Version> version_in(const std::string& text) {
  Version out;
  const char *at = text.data(), *const end = at + text.size();
  const auto major = std::from_chars(at, end, out.first);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, out.second);
  return minor.ec == std::errc() && minor.ptr == end ? std::optional(out) : std::nullopt;
}

std::string text_of(const toml::node_view<const toml::node>& node) {
  return node.value_exact<std::string>().value_or("");
}

std::string plain(const char* text) { return text != nullptr ? text : ""; }

std::string told_apart(const toml::table& root, const char* key, const std::string& own) {
  return words("the manifest's ", key, " is '", text_of(root[key]), "', the library's '", own, "'");
}

// What a host refuses fails; what it only remarks on is a warning.
void check_manifest(Context& t, const toml::table& root, const tn_plugin& plugin, const std::string& file) {
  t.check(root["manifest"].value_exact<int64_t>() == 1,
          "the manifest's form is not told: begin it with manifest = 1");
  t.check(text_of(root["name"]) == plain(plugin.name), told_apart(root, "name", plain(plugin.name)));
  t.check(text_of(root["library"]) == file, told_apart(root, "library", file));
  const auto min = version_in(text_of(root["abi"]["min"])), max = version_in(text_of(root["abi"]["max"]));
  const Version own{plugin.header.major, plugin.header.minor};
  t.check(min && max && *min <= own && own <= *max, "the manifest's abi.min = '", text_of(root["abi"]["min"]),
          "' and abi.max = '", text_of(root["abi"]["max"]), "' do not hold the descriptor's ", own.first, ".",
          own.second, ": a host would pass it over, or open what does not suit it");
  const std::string vendor = text_of(root["vendor"]);
  if (text_of(root["version"]) != plain(plugin.version))
    t.warn(told_apart(root, "version", plain(plugin.version)));
  if (!vendor.empty() && vendor != "unknown" && vendor != plain(plugin.vendor))
    t.warn(told_apart(root, "vendor", plain(plugin.vendor)));
}

}  // namespace

CONFORM_CASE(0, "abi: the manifest beside the library tells of this library") {
  const Tables& api = *TN_TRY(t.tables());
  const std::filesystem::path library(t.settings().plugin);
  std::filesystem::path file = library;
  file.replace_extension(".toml");
  std::ifstream in(file);
  if (!in) {
    t.warn(words("there is no ", file.filename().string(),
                 " beside it, so hosts that search folders pass it over; tenon_add_plugin() writes one"));
    return t.require(true);
  }
  std::ostringstream text;
  text << in.rdbuf();
  try {
    check_manifest(t, toml::parse(text.str(), file.string()), api.copy, library.filename().string());
  } catch (const toml::parse_error& error) {
    t.check(false, file.string(), ":", error.source().begin.line, ": this is no TOML: ", error.description());
  }
  return {};
}

}  // namespace tenon::conform
