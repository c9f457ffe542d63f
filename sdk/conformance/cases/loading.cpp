// SPDX-License-Identifier: Apache-2.0
// loading.cpp: opening a plugin has no side effect, what it does leaves the process as it was, and it keeps its voice to the
// host's log.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/ops/sample.hpp"
#include "conformance/surroundings.hpp"

#include <filesystem>
#include <set>

namespace tenon::conform {

namespace fs = std::filesystem;

namespace {

std::set<std::string> entries(const char* folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone);
    if (target.native().ends_with("/fd")) continue;  // the descriptor that lists the folder
    out.insert(entry.path().filename().string() + (gone ? "" : " → " + target.string()));
  }
  return out;
}

std::string added(const std::set<std::string>& before, const std::set<std::string>& after) {
  std::string out;
  for (const std::string& entry : after) {
    if (!before.contains(entry)) out += (out.empty() ? "" : ", ") + entry;
  }
  return out;
}

}  // namespace

CONFORM_CASE(0, "abi: loading starts no thread and opens no file", .alone = true) {
  const auto tasks = entries("/proc/self/task"), files = entries("/proc/self/fd");
  TN_TRY(t.tables());
  const std::string new_tasks = added(tasks, entries("/proc/self/task")),
                    new_files = added(files, entries("/proc/self/fd"));
  t.check(new_tasks.empty(), "dlopen and the entry call left threads running: ", new_tasks,
          ": start them when a device is opened");
  t.check(new_files.empty(), "dlopen and the entry call left files open: ", new_files,
          ": open them when a device is opened");
  return {};
}

CONFORM_CASE(0, "abi: loading leaves the process as it was", .alone = true) {
  tempt_with_locale();
  Surroundings before = Surroundings::now();
  TN_TRY(t.tables());
  unchanged(t, before, "loading the library and entering the plugin");
  return {};
}

CONFORM_CASE(0, "device: one is opened, used and closed, and the process is as it was", .alone = true) {
  tempt_with_locale();
  const Tables& api = *TN_TRY(t.tables());
  Surroundings before = Surroundings::now();
  TN_TRY(t.present());
  tn_device_info info{};
  info.size = sizeof info;
  TN_TRY(t.call("device.info",
                [&](tn_error* e) { return api.device.info(api.plugin, t.settings().device, &info, e); }));
  unchanged(t, before, "device.count and device.info");
  auto device = TN_TRY(Device::open(t, t.settings().device));
  unchanged(t, before, "device.open");
  TN_TRY(tour(t, *device));
  unchanged(t, before, "work on streams");
  TN_TRY(device->close());
  unchanged(t, before, "device.close");
  return {};
}

CONFORM_CASE(1, "kernel: compiling and launching leave the process as it was", .alone = true) {
  tempt_with_locale();
  const Device& device = *TN_TRY(t.device());
  const Sample sample = TN_TRY(Sample::find(t, device, 100));
  Surroundings before = Surroundings::now();
  const Bench bench = TN_TRY(Bench::make(t, device, sample));
  unchanged(t, before, "kernel.compile");
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(bench.launch(stream));
  TN_TRY(stream.finish());
  unchanged(t, before, "kernel.launch");
  return {};
}

CONFORM_CASE(0, "abi: nothing is written to standard output", .alone = true) {
  const Surroundings before = Surroundings::now();
  TN_TRY(tour(t));
  said_nothing(t, before, "the plugin");
  return {};
}

}  // namespace tenon::conform
