// SPDX-License-Identifier: Apache-2.0
// run_plan.cpp: see run_plan.hpp.
#include "run_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

namespace tenon::tool::run {

namespace {

constexpr uint32_t most_ranks = 4096;
constexpr const char* default_ssh =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10 -o ServerAliveCountMax=3";

Status refused(const std::string& option, const std::string& value, const std::string& why) {
  return Status(TN_INVALID, option + " is '" + value + "': " + why);
}

Result<uint32_t> count_in(const std::string& option, const std::string& text, uint32_t least) {
  uint32_t out = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, out);
  if (read.ec == std::errc() && read.ptr == end && out >= least && out <= most_ranks) return out;
  return refused(
      option, text,
      "it must be a whole number from " + std::to_string(least) + " to " + std::to_string(most_ranks));
}

// "90", "1.5s", "10m", "2h".
Result<std::chrono::milliseconds> duration_in(const std::string& option, std::string text) {
  const std::string whole = text;
  double unit = 1;
  if (text.size() > 1 && std::string_view("smh").find(text.back()) != std::string_view::npos) {
    unit = text.back() == 's' ? 1 : text.back() == 'm' ? 60 : 3600;
    text.pop_back();
  }
  double seconds = -1;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (read.ec == std::errc() && read.ptr == end && seconds >= 0 && seconds * unit <= 1e6)
    return std::chrono::milliseconds(std::llround(seconds * unit * 1000));
  return refused(option, whole, "write seconds, or a number with s, m or h, as in 90, 10m or 2h");
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  if (text.ends_with(separator)) out.emplace_back();
  return out;
}

Result<std::vector<std::string>> devices_in(const std::string& text) {
  std::vector<std::string> out = parts_of(text, ',');
  if (std::find(out.begin(), out.end(), "") != out.end())
    return refused("--devices", text, "write them with commas between, as in 0,1 or cpu:0,cpu:1");
  return out;
}

// Letters that a name or address has. A first '-' would be an option of ssh.
bool is_host(const std::string& name) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:%[]";
  return !name.empty() && name[0] != '-' && name.find_first_not_of(letters) == std::string::npos;
}

bool is_here(const std::string& name, const std::string& this_host) {
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name == this_host;
}

Result<Host> host_in(const std::string& part, const std::string& all, const std::string& this_host) {
  const size_t colon = part.rfind(':');
  const bool counted = colon != std::string::npos && !part.ends_with(']');
  Host out{.name = part.substr(0, counted ? colon : part.size()), .here = false, .first = 0, .count = 1};
  if (!is_host(out.name))
    return refused("--hosts", all, "'" + part + "' is no host: write NAME or NAME:RANKS, as in h1:2,h2:2");
  if (counted) {
    const auto count = count_in("--hosts", part.substr(colon + 1), 1);
    if (!count.ok())
      return refused("--hosts", all, "'" + part + "' has no number of ranks behind its ':', as in h1:2");
    out.count = *count;
  }
  out.here = is_here(out.name, this_host);
  return out;
}

Result<std::vector<Host>> hosts_in(const std::string& text, const std::string& this_host) {
  std::vector<Host> out;
  for (const std::string& part : parts_of(text, ',')) {
    const Host host = TN_TRY(host_in(part, text, this_host));
    const auto same = [&](const Host& one) { return one.name == host.name || (one.here && host.here); };
    if (std::any_of(out.begin(), out.end(), same)) {
      return refused(
          "--hosts", text,
          "'" + host.name + "' is there twice: give its ranks one number, as in " + host.name + ":4");
    }
    out.push_back(host);
  }
  return out;
}

// Gives `ranks` to the hosts in order, and numbers them.
Status deal(std::vector<Host>& hosts, uint32_t ranks) {
  uint32_t next = 0;
  for (Host& host : hosts) {
    host.first = next;
    host.count = std::min(host.count, ranks - next);
    next += host.count;
  }
  std::erase_if(hosts, [](const Host& host) { return host.count == 0; });
  if (next == ranks) return {};
  return refused("-n", std::to_string(ranks),
                 "--hosts has room for " + std::to_string(next) + " ranks: raise its numbers");
}

Result<std::vector<Host>> hosts_of(const Asked& asked, size_t devices, const std::string& this_host) {
  std::optional<uint32_t> ranks;
  if (!asked.ranks.empty()) ranks = TN_TRY(count_in("-n", asked.ranks, 1));
  std::vector<Host> out;
  if (!asked.hosts.empty()) {
    out = TN_TRY(hosts_in(asked.hosts, this_host));
  } else if (ranks || devices > 0) {
    const auto count = ranks.value_or(static_cast<uint32_t>(devices));
    out.push_back({.name = "localhost", .here = true, .first = 0, .count = count});
  } else {
    return Status(TN_INVALID, "run needs a number of ranks: -n N, or --devices or --hosts with theirs");
  }
  uint32_t room = 0;
  for (const Host& host : out) room += host.count;
  TN_TRY(deal(out, ranks.value_or(room)));
  return out;
}

Result<Bind> bind_in(const std::string& text) {
  constexpr std::array<std::pair<const char*, Bind>, 4> known{
      {{"auto", Bind::automatic}, {"none", Bind::none}, {"core", Bind::core}, {"numa", Bind::numa}}};
  for (const auto& [name, bind] : known) {
    if (text == name) return bind;
  }
  return refused("--bind", text, "it is one of auto, none, core and numa");
}

Status check_devices(const Plan& plan, const std::string& text) {
  if (plan.devices.empty()) return {};
  for (const Host& host : plan.hosts) {
    if (host.count <= plan.devices.size()) continue;
    return refused("--devices", text,
                   host.name + " has " + std::to_string(host.count) + " ranks and each takes one: name " +
                       std::to_string(host.count) + ", some twice if ranks are to share them");
  }
  return {};
}

Status check_variables(const std::vector<std::string>& variables) {
  for (const std::string& one : variables) {
    const std::string name = one.substr(0, one.find('='));
    const bool odd = name.empty() || name.find_first_of(" \t\n") != std::string::npos;
    if (odd) return refused("--env", one, "write NAME, or NAME=VALUE");
  }
  return {};
}

Status check_network(const Plan& plan, const Asked& asked) {
  if (!plan.far() || !asked.interface.empty()) return {};
  return Status(
      TN_INVALID,
      "--hosts is '" + asked.hosts +
          "', which names other machines, and the store listens on loopback only: name the interface of this "
          "machine that they reach, as in --interface eth0");
}

}  // namespace

bool Plan::far() const {
  return std::any_of(hosts.begin(), hosts.end(), [](const Host& host) { return !host.here; });
}

Result<Plan> plan_of(const Asked& asked, const std::string& this_host) {
  if (asked.program.empty() || asked.program[0].empty())
    return Status(TN_INVALID, "run needs a program behind `--`, as in: tenon run -n 2 -- ./program");
  Plan out;
  out.devices = TN_TRY(devices_in(asked.devices));
  out.hosts = TN_TRY(hosts_of(asked, out.devices.size(), this_host));
  out.size = std::accumulate(out.hosts.begin(), out.hosts.end(), 0u,
                             [](uint32_t sum, const Host& host) { return sum + host.count; });
  out.timeout = TN_TRY(duration_in("--timeout", asked.timeout));
  out.grace = TN_TRY(duration_in("--grace", asked.grace));
  out.restarts = TN_TRY(count_in("--restarts", asked.restarts, 0));
  out.bind = TN_TRY(bind_in(asked.bind));
  for (const std::string& word : parts_of(asked.ssh.empty() ? default_ssh : asked.ssh, ' ')) {
    if (!word.empty()) out.ssh.push_back(word);
  }
  if (out.ssh.empty()) return refused("--ssh", asked.ssh, "write a command, as in --ssh 'ssh -p 2222'");
  TN_TRY(check_devices(out, asked.devices));
  TN_TRY(check_variables(asked.variables));
  TN_TRY(check_network(out, asked));
  return out;
}

std::string device_of(const Plan& plan, uint32_t local_rank) {
  return local_rank < plan.devices.size() ? plan.devices[local_rank] : "";
}

std::vector<std::string> variables_of(const Plan& plan, const Host& host, uint32_t local_rank,
                                      const Meeting& meeting) {
  std::vector<std::string> out{"TENON_RANK=" + std::to_string(host.first + local_rank),
                               "TENON_SIZE=" + std::to_string(plan.size),
                               "TENON_LOCAL_RANK=" + std::to_string(local_rank),
                               "TENON_LOCAL_SIZE=" + std::to_string(host.count),
                               "TENON_STORE=tcp://" + meeting.address,
                               "TENON_STORE_TOKEN=" + meeting.token,
                               "TENON_STORE_SERVER=launcher",
                               "TENON_RESTART=" + std::to_string(meeting.restart)};
  if (!plan.devices.empty()) out.push_back("TENON_DEVICE=" + device_of(plan, local_rank));
  if (!meeting.flights.empty()) out.push_back("TENON_FLIGHT_DIR=" + meeting.flights);
  return out;
}

std::vector<std::string> passed_on(const std::vector<std::string>& own, const std::vector<std::string>& asked,
                                   bool here) {
  std::vector<std::string> out;
  for (const std::string& one : own) {
    if (!here && (one.starts_with("TENON_") || one.starts_with("NCCL_"))) out.push_back(one);
  }
  for (const std::string& one : asked) {
    if (one.find('=') != std::string::npos) {
      out.push_back(one);
      continue;
    }
    for (const std::string& variable : own) {
      if (variable.starts_with(one + "=")) out.push_back(variable);
    }
  }
  return out;
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace tenon::tool::run
