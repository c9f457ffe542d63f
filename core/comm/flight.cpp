// SPDX-License-Identifier: Apache-2.0
// flight.cpp: see flight.hpp. One JSON object a file, an operation a line, so that people can read it as it is.
#include "comm/flight.hpp"

#include "base/clock.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "comm/words.hpp"
#include "runtime/device_state.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace tenon::comm {
namespace {

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

// Makes the number of notes odd until it ends.
class Noting {
 public:
  explicit Noting(std::atomic<uint64_t>& notes)
      : notes_(notes), before_(notes.load(std::memory_order_relaxed)) {
    notes_.store(before_ + 1, std::memory_order_relaxed);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;
  ~Noting() { notes_.store(before_ + 2, std::memory_order_release); }

 private:
  std::atomic<uint64_t>& notes_;
  const uint64_t before_;
};

}  // namespace

// A word of two halves is put together in a register: halves that are written to memory and read there as one word are waited for.
void Flight::put(uint64_t index, const Operation& operation) noexcept {
  static_assert(sizeof(Operation) == sizeof(Words), "a new member is put here, too");
  const auto both = [](uint32_t first, uint32_t second) {
    return std::bit_cast<uint64_t>(std::array<uint32_t, 2>{first, second});
  };
  Slot& slot = ring_[index % kept];
  slot[0].store(operation.group, std::memory_order_release);
  slot[1].store(operation.count, std::memory_order_release);
  slot[2].store(operation.at_ns, std::memory_order_release);
  slot[3].store(both(operation.kind, operation.dtype), std::memory_order_release);
  slot[4].store(both(operation.reduce, static_cast<uint32_t>(operation.peer)), std::memory_order_release);
}

Flight::Operation Flight::at(uint64_t index) const noexcept {
  Words words{};
  const Slot& slot = ring_[index % kept];
  for (size_t i = 0; i < words.size(); ++i) words[i] = slot[i].load(std::memory_order_acquire);
  return std::bit_cast<Operation>(words);
}

void Flight::count(uint32_t kind, int32_t peer, uint64_t by) noexcept {
  const size_t size = messages_.size() / 2;
  if (peer < 0 || static_cast<size_t>(peer) >= size) return;  // it will be refused
  std::atomic<uint64_t>& all = messages_[static_cast<size_t>(peer) + (kind == TN_COMM_RECV ? size : 0)];
  all.store(all.load(std::memory_order_relaxed) + by, std::memory_order_release);
}

void Flight::note(std::span<const CommOp> group) noexcept {
  const uint64_t now = base::wall_tick_ns();
  const Noting noting(notes_);
  const uint64_t number = groups_.load(std::memory_order_relaxed) + 1;
  uint64_t index = operations_.load(std::memory_order_relaxed);
  bool collective = false;
  for (const CommOp& op : group) {
    if (is_message(op.abi.kind))
      count(op.abi.kind, op.abi.peer, 1);
    else
      collective = true;
    put(index++, {.group = number,
                  .count = op.abi.count,
                  .at_ns = now,
                  .kind = op.abi.kind,
                  .dtype = op.abi.dtype,
                  .reduce = op.abi.reduce,
                  .peer = has_peer(op.abi.kind) ? static_cast<int32_t>(op.abi.peer) : -1});
  }
  latest_ = group.size();
  latest_collective_ = collective;
  if (latest_collective_)
    collectives_.store(collectives_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  operations_.store(index, std::memory_order_release);
  groups_.store(number, std::memory_order_release);
}

void Flight::refused() noexcept {
  const Noting noting(notes_);
  const uint64_t end = operations_.load(std::memory_order_relaxed);
  if (latest_ > kept) miscounted_.store(true, std::memory_order_release);
  for (uint64_t i = end - std::min(latest_, kept); i < end; ++i)
    if (const Operation op = at(i); is_message(op.kind)) count(op.kind, op.peer, UINT64_MAX);
  groups_.store(groups_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  operations_.store(operations_.load(std::memory_order_relaxed) - latest_, std::memory_order_release);
  if (std::exchange(latest_collective_, false))
    collectives_.store(collectives_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  latest_ = 0;
}

Flight::Noted Flight::noted() const {
  Noted out;
  for (;; std::this_thread::yield()) {
    const uint64_t before = notes_.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    out.groups = groups_.load(std::memory_order_acquire);
    out.collectives = collectives_.load(std::memory_order_acquire);
    out.operations.clear();
    const uint64_t end = operations_.load(std::memory_order_acquire);
    for (uint64_t i = end - std::min<uint64_t>(end, kept); i < end; ++i) out.operations.push_back(at(i));
    out.sent.clear();
    out.received.clear();
    for (size_t i = 0; i < messages_.size() && !miscounted_.load(std::memory_order_acquire); ++i)
      (i < messages_.size() / 2 ? out.sent : out.received)
          .push_back(messages_[i].load(std::memory_order_acquire));
    out.notes = before;
    out.total = end;
    out.accepted = accepted_.load(std::memory_order_acquire);
    if (notes_.load(std::memory_order_relaxed) == before) return out;
  }
}

std::string Flight::text(const detail::CommState& comm, const Which& which, const Error& why) const {
  const auto member = [](const char* key, const std::string& json) {
    return std::string("\"") + key + "\": " + json;
  };
  const auto word = [&](const char* key, std::string_view value) {
    return member(key, base::json_quoted(value));
  };
  const auto number = [&](const char* key, auto value) { return member(key, std::to_string(value)); };
  const Noted seen = noted();
  std::string out = "{" + number("tenon_flight", 1) + ", " + word("communicator", comm.options.name) + ", " +
                    number("serial", which.serial) + ", " + word("run", which.run) + ", " +
                    number("rank", comm.rank) + ", " + number("size", comm.size) + ",\n " +
                    number("process", base::process_id()) + ", " + word("device", comm.device->name) + ", " +
                    number("groups", seen.groups) + ", " + number("collectives", seen.collectives) + ",\n " +
                    member("ended", "{" + word("code", code_name(why.code))) + ", " +
                    word("message", why.message) + ", " + number("at_ns", base::wall_ns()) + "},\n " +
                    member("operations", "[");
  const char* before = "\n  {";
  for (const Operation& op : seen.operations) {
    out += std::exchange(before, ",\n  {") + number("group", op.group) + ", " +
           word("kind", kind_name(op.kind)) + ", " + word("dtype", name(static_cast<DType>(op.dtype))) +
           ", " + word("reduce", reduction_name(op.reduce)) + ", " + number("count", op.count) + ", " +
           number("peer", op.peer) + ", " + number("at_ns", op.at_ns) + "}";
  }
  return out + "]}\n";
}

void Flight::write(const detail::CommState& comm, const Which& which, const Error& why) noexcept {
  if (written_.exchange(true)) return;
  try {
    const std::string folder = folder_for(comm.store);
    if (folder.empty()) return;
    const std::string path = folder + "/" + base::file_name_for(comm.options.name.substr(0, 80)) + "." +
                             std::to_string(which.serial) + "." + which.run + ".rank" +
                             std::to_string(comm.rank) + ".json";
    const Status done = base::write_file(path, text(comm, which, why));
    comm.device->log(LogLevel::warn,
                     done.ok() ? "communicator '" + comm.options.name + "': the last operations of rank " +
                                     std::to_string(comm.rank) + " are in " + path +
                                     "; `tenon trace --flight " + folder + "` tells the story of all ranks"
                               : "no flight record: " + std::string(done.message()));
  } catch (const std::bad_alloc&) {  // then the error alone has to do
  }
}

}  // namespace tenon::comm
