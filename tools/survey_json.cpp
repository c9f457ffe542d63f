// SPDX-License-Identifier: Apache-2.0
// survey_json.cpp: a survey for a program; the same facts as the text.
#include "survey.hpp"
#include "variables.hpp"

#include <nlohmann/json.hpp>

#include <cstring>

namespace tenon::tool {

namespace {

using Json = nlohmann::ordered_json;

template <size_t N>
std::string field(const char (&text)[N]) {
  return std::string(text, strnlen(text, N));
}

Json device_json(const SurveyedDevice& device) {
  const tn_device_info& info = device.info;
  Json out{{"name", device.name},
           {"model", field(info.name)},
           {"id", field(info.id)},
           {"driver", field(info.driver)},
           {"kind", info.kind},
           {"compute_units", info.compute_units},
           {"numa_node", info.numa_node},
           {"dlpack_type", info.dlpack_type},
           {"usable", device.trouble.empty()}};
  if (!device.trouble.empty()) {
    out["trouble"] = device.trouble;
    return out;
  }
  const tn_device_limits& l = device.limits;
  out["memory"] = {{"total_bytes", device.memory.total_bytes},
                   {"free_bytes", device.memory.free_bytes},
                   {"used_here_bytes", device.memory.used_here_bytes}};
  out["limits"] = {{"alignment", l.alignment},
                   {"max_alloc_bytes", l.max_alloc_bytes},
                   {"max_streams", l.max_streams},
                   {"max_pending_records", l.max_pending_records},
                   {"max_bindings", l.max_bindings},
                   {"priorities", l.priorities},
                   {"copy_bytes_per_second", l.copy_bytes_per_second},
                   {"launch_ns", l.launch_ns},
                   {"preferences", l.preferences}};
  out["emulated"] = device.emulated;
  out["told"] = device.told;
  return out;
}

Json plugin_json(const SurveyedPlugin& plugin) {
  const Candidate& c = plugin.candidate;
  Json out{{"name", c.name},           {"state", c.state == Candidate::State::loaded ? "loaded" : "skipped"},
           {"reason", c.reason},       {"path", c.path},
           {"real_path", c.real_path}, {"digest", c.digest},
           {"vendor", c.vendor},       {"version", c.version},
           {"license", c.license},     {"abi", c.abi},
           {"probe", c.probe},         {"warnings", c.warnings},
           {"features", c.features},   {"emulated", c.emulated}};
  out["devices"] = Json::array();
  for (const SurveyedDevice& device : plugin.devices) out["devices"].push_back(device_json(device));
  if (!plugin.trouble.empty()) out["trouble"] = plugin.trouble;
  return out;
}

Json machine_json(const Machine& m) {
  return {{"system", m.system},
          {"cpu", m.cpu},
          {"isa", m.isa},
          {"cores_usable", m.cores_usable},
          {"cores_online", m.cores_online},
          {"memory_bytes", m.memory_bytes},
          {"memory_available_bytes", m.memory_available_bytes},
          {"numa_nodes", m.numa_nodes}};
}

}  // namespace

std::string survey_json(const Survey& found) {
  Json out{{"version", found.version}, {"abi", found.abi}};
  out["search_path"] = Json::array();
  for (const Runtime::Folder& folder : found.folders) {
    out["search_path"].push_back(
        {{"path", folder.path}, {"origin", folder.origin}, {"remark", folder.remark}});
  }
  out["plugins"] = Json::array();
  for (const SurveyedPlugin& plugin : found.plugins) out["plugins"].push_back(plugin_json(plugin));
  out["machine"] = machine_json(found.machine);
  out["environment"] = Json::object();
  for (const auto& [name, value] : found.environment) out["environment"][name] = value;
  out["environment_remarks"] = Json::object();
  for (const auto& entry : found.environment)
    if (const auto remark = remark_on(entry.first); !remark.empty())
      out["environment_remarks"][entry.first] = remark;
  out["layers"] = found.layers;
  out["notes"] = found.notes;
  out["usable"] = found.usable();
  out["without_device"] = found.loaded() - found.usable();
  out["skipped"] = found.plugins.size() - found.loaded();
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::tool
