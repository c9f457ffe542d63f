// SPDX-License-Identifier: Apache-2.0
// probe_child.cpp: what the probing child does, whether it was started or forked.
//
// It says where it is before each step, and which libraries have come since, so that its parent can tell where it died and
// what may be why. The report is records with a NUL behind each: a letter per Stage; 'l', the stamp of a library, a space and
// its path; at the end '=', the code, a line break and the message.
#include "base/child.hpp"
#include "base/file.hpp"
#include "base/library.hpp"
#include "base/text.hpp"
#include "plugin/open.hpp"
#include "plugin/probe.hpp"

#include <tenon/version.hpp>

#include <algorithm>

namespace tenon::plugin {
namespace {

void say(std::string record) { base::answer(record += '\0'); }

// Tells stages, and what the library needed or opened by itself: others may replace that, and its own bytes do not show it.
class Teller {
 public:
  explicit Teller(const std::string& itself) : told_(base::open_libraries()) { told_.push_back(itself); }

  void tell(Stage stage) {
    tell_libraries();
    say(std::string(stage_letters.substr(static_cast<size_t>(stage), 1)));
  }
  void tell_libraries() {
    for (std::string& path : base::open_libraries()) {
      if (room_ < path.size() || std::find(told_.begin(), told_.end(), path) != told_.end()) continue;
      room_ -= path.size();
      say("l" + base::file_stamp(path) + " " + path);
      told_.push_back(std::move(path));
    }
  }

 private:
  std::vector<std::string> told_;
  size_t room_ = 128 * 1024;  // less than a parent keeps
};

// A host without services: what a plugin may not rely on at load, it does not get here.
tn_host bare_host(const AbiRange& range) {
  return tn_host{.header = {.size = sizeof(tn_host), .major = range.max.major, .minor = range.max.minor},
                 .min_major = range.min.major,
                 .min_minor = range.min.minor,
                 .name = "tenon-probe " TENON_VERSION};
}

// Counting devices is the first thing every host does; an error it returns is an answer like any other.
Status try_library(const std::string& path, const std::string& name, const tn_host& host, Teller& teller) {
  const auto tables = TN_TRY(open_plugin(path, name, host, [&](Stage stage) { teller.tell(stage); }));
  teller.tell(Stage::devices);
  uint32_t count = 0;
  tn_error error = no_error();
  tables->device.count(&tables->descriptor, &count, &error);
  return {};
}

Status try_and_catch(const std::string& path, const std::string& name, const tn_host& host, Teller& teller) {
  try {
    return try_library(path, name, host, teller);
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
  Teller teller(path);
  const Status status = try_and_catch(path, name, host, teller);
  teller.tell_libraries();
  say("=" + std::to_string(status.code()) + "\n" + base::printable(status.message(), 1000));
  base::leave();
}

}  // namespace tenon::plugin
