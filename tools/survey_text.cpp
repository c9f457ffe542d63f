// SPDX-License-Identifier: Apache-2.0
// survey_text.cpp: a survey for a person: one line per candidate, aligned, each ending in what to make of it.
#include "survey.hpp"
#include "text.hpp"
#include "variables.hpp"

#include <cstring>

namespace tenon::tool {

namespace {

// Colours that are there or not.
struct Paint {
  bool on;
  std::string operator()(const char* code, const std::string& text) const {
    return on ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
  }
};

// What a plugin says moves no cursor and breaks no line.
std::string one_line(std::string text) {
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    c = c == '\n' || c == '\r' || c == '\t' ? ' ' : code < 0x20 || code == 0x7F ? '?' : c;
  }
  return text;
}

std::string counted(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

template <size_t N>
std::string field(const char (&text)[N]) {
  return one_line(std::string(text, strnlen(text, N)));
}

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case TN_DEVICE_CPU:
      return "CPU";
    case TN_DEVICE_GPU:
      return "GPU";
    case TN_DEVICE_NPU:
      return "NPU";
    default:
      return "other";
  }
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string folders_text(const Survey& found) {
  std::vector<std::vector<std::string>> rows;
  for (const Runtime::Folder& folder : found.folders) {
    rows.push_back({folder.path, folder.origin, one_line(folder.remark)});
  }
  return rows.empty() ? "  none\n" : columns(rows);
}

std::vector<std::string> plugin_row(const SurveyedPlugin& plugin, const Paint& paint) {
  const Candidate& c = plugin.candidate;
  if (c.state != Candidate::State::loaded) {
    return {file_name(c.path), paint("33", "skipped") + ": " + one_line(c.reason)};
  }
  std::string last = c.emulated.empty() ? "all native" : "emulated: " + one_line(listed(c.emulated));
  for (const std::string& warning : c.warnings) last += "; warning: " + one_line(warning);
  if (!plugin.trouble.empty()) last += "; no device: " + one_line(plugin.trouble);
  return {c.name,   paint("32", "loaded"), c.version,
          c.vendor, "ABI " + c.abi,        counted(plugin.devices.size(), "device"),
          last};
}

// Painted cells are as wide as their text, so columns are laid out unpainted and painted afterwards.
std::string plugins_text(const Survey& found, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const SurveyedPlugin& plugin : found.plugins) rows.push_back(plugin_row(plugin, Paint{false}));
  if (rows.empty()) return "  none\n";
  std::string out;
  std::string plain = columns(rows);
  for (const SurveyedPlugin& plugin : found.plugins) {
    const size_t end = plain.find('\n');
    std::string line = plain.substr(0, end);
    plain.erase(0, end + 1);
    const bool loaded = plugin.candidate.state == Candidate::State::loaded;
    const std::string word = loaded ? "loaded" : "skipped";
    const size_t at = line.find("  " + word, 2);
    if (at != std::string::npos) line.replace(at + 2, word.size(), paint(loaded ? "32" : "33", word));
    out += line + "\n";
  }
  return out;
}

std::string preferences_text(uint32_t preferences) {
  std::string of;
  if ((preferences & TN_PREFERS_CHANNELS_LAST_F32) != 0) of = "f32";
  if ((preferences & TN_PREFERS_CHANNELS_LAST_HALF) != 0) of += of.empty() ? "halves" : " and halves";
  const char* const filters = (preferences & TN_PREFERS_FILTERS_DENSE) != 0 ? ", filters as they come" : "";
  return of.empty() ? "" : "      prefers images of " + of + " with channels last" + filters + "\n";
}

std::string limit_text(uint64_t limit) { return limit == 0 ? "unlimited" : std::to_string(limit); }

std::string device_text(const SurveyedDevice& device, const std::vector<std::string>& known,
                        const Paint& paint) {
  const tn_device_info& info = device.info;
  std::string out =
      "  " + paint("1", device.name) + "  " + field(info.name) + "\n      " + kind_name(info.kind);
  if (info.compute_units != 0) out += ", " + counted(info.compute_units, "compute unit");
  if (info.numa_node >= 0) out += ", NUMA node " + std::to_string(info.numa_node);
  if (const std::string id = field(info.id); !id.empty()) out += ", id " + id;
  if (const std::string driver = field(info.driver); !driver.empty()) out += ", driver " + driver;
  out += "\n";
  if (!device.trouble.empty())
    return out + "      " + paint("33", "cannot be used") + ": " + one_line(device.trouble) + "\n";
  const tn_device_limits& l = device.limits;
  out += "      memory " + bytes_text(device.memory.total_bytes) + ", " +
         bytes_text(device.memory.free_bytes) + " free, alignment " + std::to_string(l.alignment);
  if (l.max_alloc_bytes != 0) out += ", at most " + bytes_text(l.max_alloc_bytes) + " in one piece";
  out += "\n      streams " + limit_text(l.max_streams) + ", priorities " + std::to_string(l.priorities) +
         ", pending records " + limit_text(l.max_pending_records) + ", bindings " +
         limit_text(l.max_bindings) + "\n" + preferences_text(l.preferences);
  if (device.emulated != known) out += "      emulated: " + one_line(listed(device.emulated)) + "\n";
  for (const std::string& line : device.told) out += "      " + one_line(line) + "\n";
  return out;
}

std::string devices_text(const Survey& found, const Paint& paint) {
  std::string out;
  for (const SurveyedPlugin& plugin : found.plugins) {
    for (const SurveyedDevice& device : plugin.devices) {
      out += device_text(device, plugin.candidate.emulated, paint);
    }
  }
  return out.empty() ? "  none\n" : out;
}

std::string machine_text(const Machine& m) {
  std::vector<std::vector<std::string>> rows{{"system", m.system}};
  if (!m.cpu.empty()) rows.push_back({"cpu", m.cpu});
  rows.push_back({"isa", listed(m.isa)});
  rows.push_back({"cores", std::to_string(m.cores_usable) + " usable of " + std::to_string(m.cores_online)});
  rows.push_back(
      {"memory", bytes_text(m.memory_bytes) + ", " + bytes_text(m.memory_available_bytes) + " available"});
  if (m.numa_nodes > 0) rows.push_back({"numa", counted(m.numa_nodes, "node")});
  return columns(rows);
}

std::string environment_text(const Survey& found) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : found.environment) {
    rows.push_back({name, one_line(value)});
    if (const auto remark = remark_on(name); !remark.empty()) rows.push_back({"", std::string(remark)});
  }
  return rows.empty() ? "  none of the variables that matter is set\n" : columns(rows);
}

std::string closing(const Survey& found) {
  if (!found.looked) return "Plugins could not be looked for: see the notes.\n";
  const size_t usable = found.usable(), loaded = found.loaded();
  std::string out = counted(usable, "plugin") + " usable, ";
  if (usable < loaded) out += std::to_string(loaded - usable) + " without a usable device, ";
  out += std::to_string(found.plugins.size() - loaded) + " skipped.";
  if (usable > 0) return out + "\n";
  out += found.plugins.empty() ? " No library tenon-NAME.so was found" : " The reasons stand above";
  return out +
         ": name a folder with --plugin-path or TENON_PLUGIN_PATH,\n"
         "or start a plugin of your own with `tenon new-plugin NAME`.\n";
}

}  // namespace

std::string survey_text(const Survey& found, bool colours) {
  const Paint paint{colours};
  const auto title = [&](const char* text) { return "\n" + paint("1", text) + "\n"; };
  std::string out = "tenon " + found.version + ", plugin ABI " + found.abi + "\n";
  out += title("Search path") + folders_text(found);
  out += title("Plugins") + plugins_text(found, paint);
  out += title("Devices") + devices_text(found, paint);
  out += title("Machine") + machine_text(found.machine);
  out += title("Environment") + environment_text(found);
  out += title("Layers") + "  " + listed(found.layers) + "\n";
  if (!found.notes.empty()) out += title("Notes");
  for (const std::string& note : found.notes) out += "  " + one_line(note) + "\n";
  return out + "\n" + closing(found);
}

}  // namespace tenon::tool
