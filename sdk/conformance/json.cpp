// SPDX-License-Identifier: Apache-2.0
// json.cpp: writes and reads the kit's data. Reading throws nlohmann's exceptions; callers catch them at their border.
#include "conformance/json.hpp"

#include "conformance/case.hpp"

namespace tenon::conform {

namespace {

Json to_json(const DeviceDescription& device) {
  Json out{{"ordinal", device.ordinal},
           {"name", device.name},
           {"id", device.id},
           {"driver", device.driver},
           {"kind", device.kind},
           {"memory_bytes", device.memory_bytes},
           {"numa_node", device.numa_node},
           {"compute_units", device.compute_units}};
  if (!device.trouble.empty()) out["trouble"] = device.trouble;
  if (!device.opened) return out;
  const tn_device_limits& l = device.limits;
  out["limits"] = {{"alignment", l.alignment},
                   {"max_alloc_bytes", l.max_alloc_bytes},
                   {"max_streams", l.max_streams},
                   {"max_pending_records", l.max_pending_records},
                   {"max_bindings", l.max_bindings},
                   {"priorities", l.priorities},
                   {"copy_bytes_per_second", l.copy_bytes_per_second},
                   {"launch_ns", l.launch_ns},
                   {"preferences", l.preferences}};
  return out;
}

DeviceDescription device_from(const Json& json) {
  DeviceDescription out;
  out.ordinal = json.at("ordinal");
  out.name = json.at("name");
  out.id = json.at("id");
  out.driver = json.at("driver");
  out.kind = json.at("kind");
  out.memory_bytes = json.at("memory_bytes");
  out.numa_node = json.at("numa_node");
  out.compute_units = json.at("compute_units");
  out.trouble = json.value("trouble", "");
  out.opened = json.contains("limits");
  if (!out.opened) return out;
  const Json& l = json.at("limits");
  out.limits.size = sizeof(tn_device_limits);
  out.limits.alignment = l.at("alignment");
  out.limits.max_alloc_bytes = l.at("max_alloc_bytes");
  out.limits.max_streams = l.at("max_streams");
  out.limits.max_pending_records = l.at("max_pending_records");
  out.limits.max_bindings = l.at("max_bindings");
  out.limits.priorities = l.at("priorities");
  out.limits.copy_bytes_per_second = l.at("copy_bytes_per_second");
  out.limits.launch_ns = l.at("launch_ns");
  out.limits.preferences = l.at("preferences");
  return out;
}

Json to_json(const FunctionDescription& function) {
  return {{"table", function.table},
          {"function", function.name},
          {"required", function.required},
          {"native", function.native},
          {"otherwise", function.otherwise}};
}

FunctionDescription function_from(const Json& json) {
  return {json.at("table"), json.at("function"), json.at("required"), json.at("native"),
          json.at("otherwise")};
}

}  // namespace

Json to_json(const Judging& judging) {
  Json slack = Json::object();
  for (const auto& [which, one] : judging.slack) slack[which] = {{"factor", one.factor}, {"ulp", one.ulps}};
  Json faults = Json::object();
  for (const auto& [name, fault] : judging.faults)
    faults[name] = {{"option", fault.option}, {"value", fault.value}};
  return {{"determinism", static_cast<int>(judging.determinism)}, {"slack", slack}, {"faults", faults}};
}

Judging judging_from(const Json& json) {
  Judging out;
  out.determinism = static_cast<Determinism>(json.at("determinism").get<int>());
  for (const auto& [which, one] : json.at("slack").items())
    out.slack[which] = {.factor = one.at("factor"), .ulps = one.at("ulp")};
  for (const auto& [name, one] : json.at("faults").items())
    out.faults[name] = {.option = one.at("option"), .value = one.at("value")};
  return out;
}

Json to_json(const Finding& finding) {
  return {{"outcome", static_cast<int>(finding.outcome)},
          {"failures", finding.failures},
          {"warnings", finding.warnings},
          {"reason", finding.reason},
          {"tag", finding.tag},
          {"eased", finding.eased},
          {"checks", finding.checks},
          {"drawn", words(hex(finding.drawn))}};
}

Finding finding_from(const Json& json) {
  Finding out;
  out.outcome = static_cast<Outcome>(json.at("outcome").get<int>());
  out.failures = json.at("failures").get<std::vector<std::string>>();
  out.warnings = json.at("warnings").get<std::vector<std::string>>();
  out.reason = json.at("reason");
  out.tag = json.at("tag");
  out.eased = json.at("eased");
  out.checks = json.at("checks");
  out.drawn = std::stoull(json.at("drawn").get<std::string>(), nullptr, 16);
  return out;
}

Json to_json(const CaseResult& result) {
  return {{"name", result.name},
          {"level", result.level},
          {"op", result.op},
          {"dtype", result.dtype},
          {"round", result.round},
          {"verdict", name(result.verdict)},
          {"finding", to_json(result.finding)},
          {"declared", result.declared},
          {"expires", result.expires},
          {"output", result.output},
          {"in_company", result.in_company},
          {"milliseconds", result.milliseconds}};
}

CaseResult result_from(const Json& json) {
  CaseResult out;
  out.name = json.at("name");
  out.level = json.at("level");
  out.op = json.value("op", "");
  out.dtype = json.value("dtype", "");
  out.round = json.at("round");
  out.finding = finding_from(json.at("finding"));
  out.output = json.at("output");
  out.in_company = json.value("in_company", false);
  out.milliseconds = json.at("milliseconds");
  return out;  // the verdict and what was declared are decided anew
}

Json to_json(const Figure& figure) {
  return {{"group", figure.group},
          {"name", figure.name},
          {"unit", figure.unit},
          {"median", figure.median},
          {"low", figure.low},
          {"high", figure.high},
          {"spread_percent", figure.spread},
          {"samples", figure.samples},
          {"against", static_cast<int>(figure.against)},
          {"flops_per_byte", figure.flops_per_byte},
          {"percent", figure.percent},
          {"ceiling", figure.ceiling},
          {"trouble", figure.trouble}};
}

Figure figure_from(const Json& json) {
  Figure out;
  out.group = json.at("group");
  out.name = json.at("name");
  out.unit = json.at("unit");
  out.median = json.at("median");
  out.low = json.at("low");
  out.high = json.at("high");
  out.spread = json.at("spread_percent");
  out.samples = json.at("samples");
  out.against = static_cast<Figure::Against>(json.at("against").get<int>());
  out.flops_per_byte = json.at("flops_per_byte");
  out.trouble = json.at("trouble");
  return out;  // what it is held against is found anew, among all
}

Json to_json(const Description& description) {
  Json out{{"name", description.name},
           {"vendor", description.vendor},
           {"version", description.version},
           {"abi", description.abi},
           {"features", description.feature_names},
           {"feature_bits", description.features},
           {"extensions", description.extensions}};
  out["devices"] = Json::array();
  for (const DeviceDescription& device : description.devices) out["devices"].push_back(to_json(device));
  out["functions"] = Json::array();
  for (const FunctionDescription& function : description.functions)
    out["functions"].push_back(to_json(function));
  return out;
}

Description description_from(const Json& json) {
  Description out;
  out.name = json.at("name");
  out.vendor = json.at("vendor");
  out.version = json.at("version");
  out.abi = json.at("abi");
  out.features = json.at("feature_bits");
  out.feature_names = json.at("features").get<std::vector<std::string>>();
  out.extensions = json.at("extensions").get<std::vector<std::string>>();
  for (const Json& device : json.at("devices")) out.devices.push_back(device_from(device));
  for (const Json& function : json.at("functions")) out.functions.push_back(function_from(function));
  return out;
}

}  // namespace tenon::conform
