// SPDX-License-Identifier: Apache-2.0
// probe_child.cpp: what the probing child does, whether it was started or forked.
//
// It says where it is before each step, so that its parent can tell where it died. The report: a letter per Stage, then
// '=', the code, a line break, the message and a NUL; without the NUL it is not whole. A message of success is the paths of
// the libraries that this one brought with it, a line each.
#include "base/child.hpp"
#include "base/library.hpp"
#include "base/text.hpp"
#include "plugin/open.hpp"
#include "plugin/probe.hpp"

#include <tenon/version.hpp>

#include <algorithm>

namespace tenon::plugin {
namespace {

constexpr std::string_view stage_letters = "oetd";

void tell(Stage stage) { base::answer(stage_letters.substr(static_cast<size_t>(stage), 1)); }

// A host without services: what a plugin may not rely on at load, it does not get here.
tn_host bare_host(const AbiRange& range) {
  return tn_host{.header = {.size = sizeof(tn_host), .major = range.max.major, .minor = range.max.minor},
                 .min_major = range.min.major,
                 .min_minor = range.min.minor,
                 .name = "tenon-probe " TENON_VERSION};
}

// Counting devices is the first thing every host does; an error it returns is an answer like any other.
Status try_library(const std::string& path, const std::string& name, const tn_host& host) {
  const auto tables = TN_TRY(open_plugin(path, name, host, tell));
  tell(Stage::devices);
  uint32_t count = 0;
  tn_error error = no_error();
  tables->device.count(&tables->descriptor, &count, &error);
  return {};
}

Status try_and_catch(const std::string& path, const std::string& name, const tn_host& host) {
  try {
    return try_library(path, name, host);
  } catch (const std::exception& exception) {
    return Status(TN_INTERNAL, "it let an exception out while its devices were counted (" +
                                   base::quoted(exception.what()) + "): return a code instead");
  } catch (...) {
    return Status(TN_INTERNAL,
                  "it let an exception out while its devices were counted: return a code instead");
  }
}

// What it needed, or opened by itself, besides what was here: their vendors may replace them, and it need not know.
std::string libraries_since(const std::vector<std::string>& before, const std::string& itself) {
  std::string lines;
  for (const std::string& path : base::open_libraries()) {
    if (path != itself && std::find(before.begin(), before.end(), path) == before.end()) lines += path + "\n";
  }
  return lines;
}

}  // namespace

void run_probe_child(const std::string& path, const std::string& name, const AbiRange& range) {
  const tn_host host = bare_host(range);
  const std::vector<std::string> before = base::open_libraries();
  const Status status = try_and_catch(path, name, host);
  const std::string words =
      status.ok() ? libraries_since(before, path) : base::printable(status.message(), 1000);
  base::answer("=" + std::to_string(status.code()) + "\n" + words + '\0');
  base::leave();
}

}  // namespace tenon::plugin
