// SPDX-License-Identifier: Apache-2.0
// info.cpp: `tenon info`: one plugin in depth, read in a process of its own through the ABI.
#include "command.hpp"
#include "places.hpp"
#include "text.hpp"

#include "conformance/digest.hpp"
#include "conformance/json.hpp"
#include "conformance/runner.hpp"

#include <tenon/abi.h>
#include <tenon/version.hpp>

#include <cstdio>
#include <memory>

namespace tenon::tool {

namespace {

using conform::Description;

struct InfoRequest {
  std::string wanted{};
  bool json = false;
  std::vector<std::string> folders{};
};

void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string limit_text(uint64_t limit) { return limit == 0 ? "no limit of its own" : std::to_string(limit); }

std::string descriptor_text(const Description& d, const std::string& file, const std::string& digest) {
  return columns({{"name", d.name},
                  {"vendor", d.vendor},
                  {"version", d.version},
                  {"ABI", d.abi},
                  {"file", file},
                  {"sha256", digest},
                  {"features", listed(d.feature_names)},
                  {"extensions", listed(d.extensions)}});
}

std::string functions_text(const Description& d) {
  std::vector<std::vector<std::string>> rows;
  for (const conform::FunctionDescription& f : d.functions) {
    rows.push_back({f.table + "." + f.name,
                    f.native     ? "native"
                    : f.required ? "MISSING"
                                 : "absent",
                    f.native ? "" : f.otherwise});
  }
  return columns(rows);
}

std::string device_text(const conform::DeviceDescription& d) {
  std::vector<std::vector<std::string>> rows{{"name", d.name}, {"id", d.id}};
  if (!d.driver.empty()) rows.push_back({"driver", d.driver});
  rows.push_back({"memory", bytes_text(d.memory_bytes)});
  rows.push_back({"compute units", std::to_string(d.compute_units)});
  if (!d.trouble.empty()) rows.push_back({"cannot be used", d.trouble});
  if (d.opened) {
    const tn_device_limits& l = d.limits;
    rows.push_back({"alignment", std::to_string(l.alignment)});
    rows.push_back(
        {"largest memory", l.max_alloc_bytes == 0 ? "no limit of its own" : bytes_text(l.max_alloc_bytes)});
    rows.push_back({"streams", limit_text(l.max_streams)});
    rows.push_back({"pending records", limit_text(l.max_pending_records)});
    rows.push_back({"bindings", limit_text(l.max_bindings)});
    rows.push_back({"priorities", std::to_string(l.priorities)});
  }
  return columns(rows);
}

std::string plugin_text(const Description& d, const std::string& file, const std::string& digest) {
  std::string out = "Plugin\n" + descriptor_text(d, file, digest) + "\nFunctions\n" + functions_text(d);
  for (const conform::DeviceDescription& device : d.devices) {
    out += "\nDevice " + d.name + ":" + std::to_string(device.ordinal) + "\n" + device_text(device);
  }
  if (d.devices.empty()) out += "\nNo device of it is here.\n";
  return out;
}

Status tell_plugin(const InfoRequest& asked) {
  conform::Options options;
  options.plugin = TN_TRY(plugin_file(asked.wanted, plugin_folders(asked.folders)));
  options.worker = {executable(), "conform", "--worker"};
  const std::string digest = TN_TRY(conform::file_digest(options.plugin));
  const Description found = TN_TRY(conform::describe_apart(options));
  if (!asked.json) {
    say(plugin_text(found, options.plugin, digest));
    return {};
  }
  conform::Json out = conform::to_json(found);
  out["file"] = options.plugin;
  out["digest"] = digest;
  say(out.dump(2, ' ', false, conform::Json::error_handler_t::replace) + "\n");
  return {};
}

// Without a plugin: the library itself.
int tell_library(const InfoRequest& asked) {
  const auto folders = plugin_folders(asked.folders);
  const std::string abi = std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR);
  if (asked.json) {
    const conform::Json out{{"version", tenon::version()},
                            {"abi", abi},
                            {"executable", executable()},
                            {"plugin_folders", folders},
                            {"plugins", plugin_names(folders)}};
    say(out.dump(2) + "\n");
    return exit_good;
  }
  say(columns({{"version", tenon::version()},
               {"plugin ABI", abi},
               {"program", executable()},
               {"plugin folders", listed(folders)},
               {"plugins there", listed(plugin_names(folders))}}));
  say("\n`tenon info NAME` tells one plugin in depth, `tenon doctor` which are usable.\n");
  return exit_good;
}

int run_info(const InfoRequest& asked) {
  if (asked.wanted.empty()) return tell_library(asked);
  const Status told = tell_plugin(asked);
  if (told.ok()) return exit_good;
  std::fprintf(stderr, "tenon: %s\n", std::string(told.message()).c_str());
  return told.code() == TN_NOT_FOUND ? exit_usage : exit_bad;
}

}  // namespace

Command add_info(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand("info", "Tells one plugin in depth: tables, features, devices, limits");
  const auto asked = std::make_shared<InfoRequest>();
  app->add_option("PLUGIN", asked->wanted, "A library file, or the name of an installed plugin");
  app->add_flag("--json", asked->json, "The same as JSON");
  app->add_option("--plugin-path", asked->folders, "Folders to search for NAME first")
      ->type_name("DIR")
      ->allow_extra_args(false);
  return {app, [asked] { return run_info(*asked); }};
}

}  // namespace tenon::tool
