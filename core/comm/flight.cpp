// SPDX-License-Identifier: Apache-2.0
// flight.cpp: see flight.hpp. One JSON object a file, an operation a line, so that people can read it as it is.
#include "comm/flight.hpp"

#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "comm/words.hpp"
#include "runtime/device_state.hpp"

#include <algorithm>
#include <chrono>

namespace tenon::comm {
namespace {

// Comparable between the ranks of one host, and nearly so between hosts.
uint64_t wall_ns() noexcept {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

bool has_peer(uint32_t kind) noexcept {
  return kind == TN_COMM_BROADCAST || kind == TN_COMM_REDUCE || kind == TN_COMM_SEND || kind == TN_COMM_RECV;
}

// Where the records of this job lie; "" where there is no such place.
std::string folder_for(const Store& store) {
  const base::Environment environment = base::Environment::of_process();
  if (const auto asked = environment.get("TENON_FLIGHT_DIR")) return *asked;
  std::string cache = environment.get("XDG_CACHE_HOME").value_or("");
  if (!base::is_absolute(cache)) {
    const std::string home = environment.get("HOME").value_or("");
    if (!base::is_absolute(home)) return {};
    cache = home + "/.cache";
  }
  const std::string& address = store.address();
  const bool shared = address.find_first_of(":/") != std::string::npos;  // other processes find it there
  return cache + "/tenon/flight/" +
         (shared ? base::file_name_for(address) : "process-" + std::to_string(base::process_id()));
}

}  // namespace

void Flight::note(std::span<const CommOp> group) noexcept {
  const uint64_t now = wall_ns();
  const std::lock_guard lock(mutex_);
  ++groups_;
  latest_ = group.size();
  for (const CommOp& op : group) {
    ring_[operations_++ % kept] = {.group = groups_,
                                   .count = op.abi.count,
                                   .at_ns = now,
                                   .kind = op.abi.kind,
                                   .dtype = op.abi.dtype,
                                   .reduce = op.abi.reduce,
                                   .peer = has_peer(op.abi.kind) ? static_cast<int32_t>(op.abi.peer) : -1};
  }
}

void Flight::refused() noexcept {
  const std::lock_guard lock(mutex_);
  --groups_;
  operations_ -= latest_;
  latest_ = 0;
}

std::string Flight::text(const detail::CommState& comm, uint64_t serial, const Error& why) const {
  const auto member = [](const char* key, const std::string& json) {
    return std::string("\"") + key + "\": " + json;
  };
  const auto word = [&](const char* key, std::string_view value) {
    return member(key, base::json_quoted(value));
  };
  const auto number = [&](const char* key, auto value) { return member(key, std::to_string(value)); };
  const std::lock_guard lock(mutex_);
  std::string out =
      "{" + number("tenon_flight", 1) + ", " + word("communicator", comm.options.name) + ", " +
      number("serial", serial) + ", " + number("rank", comm.rank) + ", " + number("size", comm.size) +
      ",\n " + number("process", base::process_id()) + ", " + word("device", comm.device->name) + ", " +
      number("groups", groups_) + ",\n " + member("ended", "{" + word("code", code_name(why.code))) + ", " +
      word("message", why.message) + ", " + number("at_ns", wall_ns()) + "},\n " + member("operations", "[");
  const uint64_t there = std::min<uint64_t>(operations_, kept);
  for (uint64_t i = operations_ - there; i < operations_; ++i) {
    const Operation& op = ring_[i % kept];
    out += std::string(i == operations_ - there ? "\n  {" : ",\n  {") + number("group", op.group) + ", " +
           word("kind", kind_name(op.kind)) + ", " + word("dtype", name(static_cast<DType>(op.dtype))) +
           ", " + word("reduce", reduction_name(op.reduce)) + ", " + number("count", op.count) + ", " +
           number("peer", op.peer) + ", " + number("at_ns", op.at_ns) + "}";
  }
  return out + "]}\n";
}

void Flight::write(const detail::CommState& comm, uint64_t serial, const Error& why) noexcept {
  if (written_.exchange(true)) return;
  try {
    const std::string folder = folder_for(comm.store);
    if (folder.empty()) return;
    const std::string path = folder + "/" + base::file_name_for(comm.options.name.substr(0, 80)) + "." +
                             std::to_string(serial) + ".rank" + std::to_string(comm.rank) + ".json";
    const Status done = base::write_file(path, text(comm, serial, why));
    comm.device->log(LogLevel::warn,
                     done.ok() ? "communicator '" + comm.options.name + "': the last operations of rank " +
                                     std::to_string(comm.rank) + " are in " + path +
                                     "; `tenon trace --flight " + folder + "` tells the story of all ranks"
                               : "no flight record: " + std::string(done.message()));
  } catch (const std::bad_alloc&) {  // then the error alone has to do
  }
}

}  // namespace tenon::comm
