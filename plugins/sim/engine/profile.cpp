// SPDX-License-Identifier: Apache-2.0
// profile.cpp: one table of keys, read from files and from options alike.
//
// The files of profiles/ are compiled in as they are, so the library needs no file beside it.
// Invariant: a key is named once, in `table`.
#include "profile.hpp"

#include "profiles.inc"

#include <tenon/author/names.hpp>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <variant>

namespace tenon::sim {

using author::text;

namespace {

struct Entry {
  std::string_view name;
  std::variant<uint64_t Profile::*, bool Profile::*, std::string Profile::*> member;
  uint64_t least = 0, most = UINT32_MAX;
};

using P = Profile;
const Entry table[] = {
    {"chip", &P::chip},
    {"devices", &P::devices, 1, 8},
    {"exclusive", &P::exclusive},
    {"synchronous", &P::synchronous},
    {"whole_graphs", &P::whole_graphs},
    {"thread_bound", &P::thread_bound},
    {"capture", &P::capture},
    {"peer", &P::peer},
    {"cross_device_wait", &P::cross_device_wait},
    {"memory_mib", &P::memory_mib, 1, 65536},
    {"alignment", &P::alignment, 256, 1 << 20},
    {"addresses", &P::addresses},
    {"host_memory", &P::host_memory},
    {"managed_memory", &P::managed_memory},
    {"copy_alignment", &P::copy_alignment, 1, 4096},
    {"link_mib_per_s", &P::link_mib_per_s},
    {"max_streams", &P::max_streams},
    {"priorities", &P::priorities, 1, 64},
    {"max_records", &P::max_records},
    {"record_blocks", &P::record_blocks},
    {"event_query", &P::event_query},
    {"host_call", &P::host_call},
    {"promise", &P::promise},
    {"timestamp", &P::timestamp},
    {"copy_strided", &P::copy_strided},
    {"max_bindings", &P::max_bindings},
    {"max_nodes", &P::max_nodes},
    {"workspace_kib", &P::workspace_kib, 0, 1 << 20},
    {"one_shot_kernels", &P::one_shot_kernels},
    {"private_layout", &P::private_layout},
    {"refused_dtypes", &P::refused_dtypes},
    {"comm_id_bytes", &P::comm_id_bytes, 0, 1 << 20},
    {"seed", &P::seed, 0, UINT64_MAX},
    {"idle_ms", &P::idle_ms, 0, 3'600'000},
    {"oom_at", &P::oom_at},
    {"lost_at", &P::lost_at},
    {"peer_lost_at", &P::peer_lost_at},
    {"corrupt_at", &P::corrupt_at},
    {"straggler_in", &P::straggler_in},
    {"straggler_us", &P::straggler_us, 0, 10'000'000},
};

Status wrong(std::string_view where, std::string_view key, std::string_view value, std::string_view rule) {
  return Status(TN_INVALID, text(where, ": '", key, "' is '", value, "': it must be ", rule));
}

Status set(const Entry& entry, std::string_view value, std::string_view where, Profile& out) {
  if (auto* const text_member = std::get_if<std::string P::*>(&entry.member)) {
    out.** text_member = value;
    return {};
  }
  if (auto* const flag = std::get_if<bool P::*>(&entry.member)) {
    if (value != "true" && value != "false") return wrong(where, entry.name, value, "true or false");
    out.** flag = value == "true";
    return {};
  }
  uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, problem] = std::from_chars(value.data(), end, number);
  if (value.empty() || stop != end || problem != std::errc() || number < entry.least || number > entry.most) {
    return wrong(where, entry.name, value, text("a whole number from ", entry.least, " to ", entry.most));
  }
  out.*std::get<uint64_t P::*>(entry.member) = number;
  return {};
}

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view() : s.substr(first, last - first + 1);
}

// The value of `key = value  # why`, without its quotes; a '#' inside quotes is part of it.
std::string_view value_of(std::string_view rest) {
  rest = trimmed(rest);
  if (rest.starts_with('"')) return rest.substr(1, rest.find('"', 1) - 1);
  return trimmed(rest.substr(0, rest.find('#')));
}

Status read_line(std::string_view line, std::string_view where, Profile& out) {
  const size_t sign = line.find('=');
  if (sign == std::string_view::npos) {
    return Status(TN_INVALID, text(where, ": '", line, "' is no 'key = value'"));
  }
  const std::string_view key = trimmed(line.substr(0, sign));
  const auto* const found = std::ranges::find(table, key, [](const Entry& e) { return e.name; });
  if (found != std::end(table)) return set(*found, value_of(line.substr(sign + 1)), where, out);
  std::string known;
  for (const Entry& entry : table) known += text(known.empty() ? "" : ", ", entry.name);
  return Status(TN_INVALID, text(where, ": unknown key '", key, "'; known are ", known));
}

// What no single key can see.
Status check(const Profile& p) {
  const std::string where = text("sim profile '", p.name, "'");
  if (p.capture && p.one_shot_kernels)
    return Status(TN_INVALID, text(where,
                                   ": 'capture' and 'one_shot_kernels' exclude each other: a replay runs "
                                   "an executor again"));
  if ((p.alignment & (p.alignment - 1)) != 0)
    return wrong(where, "alignment", std::to_string(p.alignment), "a power of two");
  if (!p.private_layout.empty() && p.private_layout != "NZ")
    return wrong(where, "private_layout", p.private_layout, "empty or NZ, the one that is played");
  std::istringstream names(p.refused_dtypes);
  for (std::string name; names >> name;) {
    bool known = false;
    for (uint32_t dtype = 1; dtype < 32; ++dtype) known = known || author::dtype_name(dtype) == name;
    if (!known) return wrong(where, "refused_dtypes", name, "names of dtypes.def");
  }
  return {};
}

Result<std::string> text_of(const std::string& name) {
  std::string names;
  for (const auto& [known, content] : embedded_profiles) {
    if (known == name) return std::string(content);
    names += text(names.empty() ? "" : ", ", known);
  }
  if (name.find('/') == std::string::npos) {
    return Status(TN_NOT_FOUND, text("option 'profile' of plugin 'sim' is '", name, "': there are ", names,
                                     "; the path of a file holds a '/'"));
  }
  std::ifstream file(name);
  if (!file)
    return Status(TN_NOT_FOUND, text("option 'profile' of plugin 'sim': '", name, "' cannot be read"));
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

}  // namespace

bool Profile::refuses_dtype(std::string_view dtype) const noexcept {
  std::string_view rest = refused_dtypes;
  while (!rest.empty()) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, blank) == dtype) return true;
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return false;
}

Status read_profile(std::string_view content, std::string_view where, Profile& out) {
  int number = 0;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = trimmed(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
    ++number;
    if (line.starts_with("[[unsupported]]")) return {};
    if (line.empty() || line.starts_with('#')) continue;
    TN_TRY(read_line(line, text(where, ":", number), out));
  }
  return {};
}

Result<Profile> chosen_profile(const author::Host& host) {
  Profile out;
  if (const char* name = host.option("profile")) out.name = name;
  const std::string content = TN_TRY(text_of(out.name));
  TN_TRY(read_profile(content, text("sim profile '", out.name, "'"), out));
  for (const Entry& entry : table) {
    const char* const value = host.option(std::string(entry.name).c_str());
    if (value != nullptr) TN_TRY(set(entry, value, "an option of plugin 'sim'", out));
  }
  TN_TRY(check(out));
  return out;
}

}  // namespace tenon::sim
