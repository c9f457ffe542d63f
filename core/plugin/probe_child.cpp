// SPDX-License-Identifier: Apache-2.0
// probe_child.cpp: what the probing child does, whether it was started or forked.
//
// It says where it is before each step, so that its parent can tell where it died. The report: a letter per Stage, then
// '=', the code, a line break, the message and a NUL; without the NUL it is not whole.
#include "base/child.hpp"
#include "base/text.hpp"
#include "plugin/open.hpp"
#include "plugin/probe.hpp"

#include <tenon/version.hpp>

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

}  // namespace

void run_probe_child(const std::string& path, const std::string& name, const AbiRange& range) {
  const tn_host host = bare_host(range);
  const Status status = try_and_catch(path, name, host);
  base::answer("=" + std::to_string(status.code()) + "\n" + base::printable(status.message(), 1000) + '\0');
  base::leave();
}

}  // namespace tenon::plugin
