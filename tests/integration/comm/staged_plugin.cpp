// SPDX-License-Identifier: Apache-2.0
// staged_plugin.cpp: the simulated device with the core's host-staged communicators as its own, for the conformance kit: what the kit
// asks of a plugin's communicators is so asked of those that the core makes where a plugin has none.
//
// The tables are the simulated device's. Devices and streams are opened by the core, and the kit has their handles, so that what it enqueues
// by itself and what the core enqueues are in one order; values are recorded and awaited by the core, which alone knows why a stream failed
// that waited for a carrier's. Ranks meet in a folder that is named after the id.
// Invariant: a handle of the kit's names one object of the core, from its create to its destroy.
#include <tenon/abi.h>
#include <tenon/tenon.hpp>

#include "base/text.hpp"
#include "runtime/device_state.hpp"
#include "runtime/timeline.hpp"

#include <tenon/author/guard.hpp>

#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace {

using namespace tenon;

struct Staged {
  static constexpr struct { const char* name; } identity{"staged"};
};
template <class Body>
int32_t guarded(tn_error* error, Body&& body) noexcept {
  return author::guarded<Staged>(error, body);
}

constexpr uint64_t id_bytes = 16;
using Id = std::array<uint8_t, id_bytes>;

// One rank of a communicator; `joining` is at work where creation does not block.
struct Comm {
  tn_device* device = nullptr;
  std::mutex mutex{};
  Communicator made{};
  Status failed{};
  std::thread joining{};
  std::atomic<bool> stands{false};

  explicit Comm(tn_device* on) : device(on) {}
  ~Comm() {
    if (joining.joinable()) joining.join();
  }
  Status ready() {
    if (!stands) return {TN_BUSY, "the communicator is being created"};
    const std::lock_guard lock(mutex);
    return failed.ok() ? Status() : Status(failed.error());
  }
};

struct World {
  std::mutex mutex{};
  std::optional<Runtime> runtime{};
  const tn_plugin* simulated = nullptr;
  tn_device_api device{};
  tn_stream_api stream{};
  tn_comm_api comm{};
  tn_plugin plugin{};
  std::map<tn_device*, std::vector<Device>> devices{};
  std::map<tn_device*, int> comms{};  // that live
  std::map<tn_stream*, Stream> streams{};
  std::vector<std::string> folders{};

  // Who made an id takes its folder away.
  ~World() {
    std::error_code ignored;
    for (const std::string& folder : folders) std::filesystem::remove_all(folder, ignored);
  }
  static World& here() {
    static World world;
    return world;
  }

  Result<Device> device_of(tn_device* handle) {
    const std::lock_guard lock(mutex);
    const auto found = devices.find(handle);
    if (found == devices.end()) return Status(TN_INVALID, "no device that is open");
    return found->second.back();
  }
  Result<Stream> stream_of(tn_stream* handle) {
    const std::lock_guard lock(mutex);
    const auto found = streams.find(handle);
    if (found == streams.end()) return Status(TN_INVALID, "no stream that is open");
    return found->second;
  }
};

Timeout timeout_of(uint64_t ns) { return std::chrono::nanoseconds(std::min<uint64_t>(ns, INT64_MAX)); }

Comm& comm_of(tn_comm* handle) { return *reinterpret_cast<Comm*>(handle); }

// ---- devices and streams

Status open_device(uint32_t ordinal, tn_device** out) {
  World& world = World::here();
  Device device = TN_TRY(world.runtime->device("sim:" + std::to_string(ordinal)));
  *out = device.state()->handle;
  const std::lock_guard lock(world.mutex);
  world.devices[*out].push_back(std::move(device));
  return {};
}

Status close_device(tn_device* handle) {
  World& world = World::here();
  std::optional<Device> last;
  const std::lock_guard lock(world.mutex);
  const auto found = world.devices.find(handle);
  if (found == world.devices.end()) return {TN_INVALID, "no device that is open"};
  if (found->second.size() == 1 && world.comms[handle] > 0)
    return {TN_BUSY, "a communicator of the device lives"};
  last.emplace(std::move(found->second.back()));
  found->second.pop_back();
  if (found->second.empty()) world.devices.erase(found);
  return {};
}

Status open_stream(tn_device* device, const tn_stream_options* options, tn_stream** out) {
  World& world = World::here();
  Device on = TN_TRY(world.device_of(device));
  Stream stream =
      TN_TRY(on.stream({.name = options != nullptr && options->name != nullptr ? options->name : "",
                        .priority = options != nullptr ? options->priority : 0}));
  *out = stream.state()->handle;
  const std::lock_guard lock(world.mutex);
  world.streams.insert_or_assign(*out, std::move(stream));
  return {};
}

Status close_stream(tn_stream* handle) {
  World& world = World::here();
  Stream last;
  const std::lock_guard lock(world.mutex);
  const auto found = world.streams.find(handle);
  if (found == world.streams.end()) return {TN_INVALID, "no stream that is open"};
  last = std::move(found->second);
  world.streams.erase(found);
  return {};
}

Status record(tn_stream* handle, uint32_t flags, uint64_t* value) {
  Stream on = TN_TRY(World::here().stream_of(handle));
  on.state()->touch();  // by what the kit has enqueued
  *value = TN_TRY(on.record_value((flags & TN_RECORD_TIMED) != 0 ? Timed::yes : Timed::no));
  return {};
}

Point point(const Stream& stream, uint64_t value) {
  return {detail::Ref<detail::StreamState>::share(stream.state()), value};
}

Status sync(tn_stream* handle, uint64_t value, uint64_t timeout_ns) {
  const Stream on = TN_TRY(World::here().stream_of(handle));
  return point(on, value).sync(timeout_of(timeout_ns));
}

Status wait(tn_stream* handle, tn_stream* other, uint64_t value) {
  Stream on = TN_TRY(World::here().stream_of(handle));
  const Stream first = TN_TRY(World::here().stream_of(other));
  return on.wait(point(first, value));
}

// ---- communicators

std::string folder_of(const std::string& id) {
  return (std::filesystem::temp_directory_path() / ("tenon-staged-" + id)).string();
}

Status make_id(void* id, uint64_t bytes) {
  if (id == nullptr || bytes != id_bytes) return {TN_INVALID, "an id has 16 bytes"};
  Id made;
  std::random_device random;
  for (uint8_t& byte : made) byte = static_cast<uint8_t>(random());
  std::memcpy(id, made.data(), made.size());
  World& world = World::here();
  const std::lock_guard lock(world.mutex);
  world.folders.push_back(folder_of(base::hex(made)));
  return {};
}

Result<Communicator> join(tn_device* device, uint32_t rank, uint32_t size, const Id& id,
                          CommOptions options) {
  Device on = TN_TRY(World::here().device_of(device));
  const Store store = TN_TRY(Store::in_folder(folder_of(base::hex(id))));
  return Communicator::create(on, store, rank, size, std::move(options));
}

tn_comm* handed_out(std::unique_ptr<Comm> comm) {
  World& world = World::here();
  const std::lock_guard lock(world.mutex);
  ++world.comms[comm->device];
  return reinterpret_cast<tn_comm*>(comm.release());
}

Status create(tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t bytes,
              const tn_comm_options* options, tn_comm** out) {
  if (rank >= size) return {TN_INVALID, "ranks start at 0, and are less than the size"};
  if (id == nullptr || bytes != id_bytes) return {TN_INVALID, "an id has 16 bytes"};
  Id mine;
  std::memcpy(mine.data(), id, mine.size());
  CommOptions wanted;
  if (options->name != nullptr) wanted.name = options->name;
  if (options->timeout_ns != 0) wanted.timeout = timeout_of(options->timeout_ns);
  wanted.deterministic = (options->flags & TN_COMM_DETERMINISTIC) != 0;
  auto comm = std::make_unique<Comm>(device);
  if ((options->flags & TN_COMM_NON_BLOCKING) == 0) {
    comm->made = TN_TRY(join(device, rank, size, mine, std::move(wanted)));
    comm->stands = true;
  } else {
    Comm* const one = comm.get();
    one->joining = std::thread([one, device, rank, size, mine, wanted = std::move(wanted)] {
      auto made = join(device, rank, size, mine, wanted);
      const std::lock_guard lock(one->mutex);
      if (made.ok())
        one->made = *made;
      else
        one->failed = std::move(made).failure();
      one->stands = true;
    });
  }
  *out = handed_out(std::move(comm));
  return {};
}

Status submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count) {
  TN_TRY(comm_of(comm).ready());
  Stream on = TN_TRY(World::here().stream_of(stream));
  std::vector<CommOp> group;
  for (uint32_t i = 0; i < count; ++i) group.push_back({ops[i]});
  on.state()->touch();  // by what the kit has enqueued
  return comm_of(comm).made.submit(on, group);
}

Status split(tn_comm* comm, int32_t color, int32_t key, tn_comm** out) {
  TN_TRY(comm_of(comm).ready());
  auto part = std::make_unique<Comm>(comm_of(comm).device);
  part->made = TN_TRY(comm_of(comm).made.split(color, key));
  part->stands = true;
  if (part->made) *out = handed_out(std::move(part));
  return {};
}

Status destroy(tn_comm* comm, uint64_t timeout_ns) {
  const std::unique_ptr<Comm> last(&comm_of(comm));
  {
    World& world = World::here();
    const std::lock_guard lock(world.mutex);
    --world.comms[last->device];
  }
  if (last->joining.joinable()) last->joining.join();
  if (!last->made) return {};
  return last->made.destroy(timeout_of(timeout_ns));
}

Status limits(tn_comm* comm, tn_comm_limits* out) {
  TN_TRY(comm_of(comm).ready());
  author::write_out(comm_of(comm).made.limits(), out);
  return {};
}

void fill_tables(World& world) {
  world.device = *world.simulated->device;
  world.device.open = [](const tn_plugin*, uint32_t ordinal, const tn_device_options*, tn_device** device,
                         tn_error* e) { return guarded(e, [&] { return open_device(ordinal, device); }); };
  world.device.close = [](tn_device* device, tn_error* e) {
    return guarded(e, [&] { return close_device(device); });
  };
  world.device.count = [](const tn_plugin*, uint32_t* count, tn_error* e) {
    return World::here().simulated->device->count(World::here().simulated, count, e);
  };
  world.device.info = [](const tn_plugin*, uint32_t ordinal, tn_device_info* info, tn_error* e) {
    return World::here().simulated->device->info(World::here().simulated, ordinal, info, e);
  };
  world.stream = *world.simulated->stream;
  world.stream.create = [](tn_device* device, const tn_stream_options* options, tn_stream** stream,
                           tn_error* e) {
    return guarded(e, [&] { return open_stream(device, options, stream); });
  };
  world.stream.destroy = [](tn_stream* stream, uint32_t, tn_error* e) {
    return guarded(e, [&] { return close_stream(stream); });
  };
  world.stream.record = [](tn_stream* stream, uint32_t flags, uint64_t* value, tn_error* e) {
    return guarded(e, [&] { return record(stream, flags, value); });
  };
  world.stream.sync = [](tn_stream* stream, uint64_t value, uint64_t timeout_ns, tn_error* e) {
    return guarded(e, [&] { return sync(stream, value, timeout_ns); });
  };
  world.stream.wait = [](tn_stream* stream, tn_stream* other, uint64_t value, tn_error* e) {
    return guarded(e, [&] { return wait(stream, other, value); });
  };
  tn_comm_api& comm = world.comm;
  comm.header = {sizeof comm, TN_ABI_MAJOR, TN_ABI_MINOR};
  comm.id_bytes = [](tn_device*, uint64_t* bytes, tn_error*) {
    *bytes = id_bytes;
    return TN_OK;
  };
  comm.make_id = [](tn_device*, void* id, uint64_t bytes, tn_error* e) {
    return guarded(e, [&] { return make_id(id, bytes); });
  };
  comm.create = [](tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t bytes,
                   const tn_comm_options* options, tn_comm** out, tn_error* e) {
    return guarded(e, [&] { return create(device, rank, size, id, bytes, options, out); });
  };
  comm.limits = [](tn_comm* c, tn_comm_limits* out, tn_error* e) {
    return guarded(e, [&] { return limits(c, out); });
  };
  comm.submit = [](tn_comm* c, tn_stream* stream, const tn_comm_op* ops, uint32_t count, tn_error* e) {
    return guarded(e, [&] { return submit(c, stream, ops, count); });
  };
  comm.split = [](tn_comm* c, int32_t color, int32_t key, const tn_comm_options*, tn_comm** out,
                  tn_error* e) {
    *out = nullptr;
    return guarded(e, [&] { return split(c, color, key, out); });
  };
  comm.abort = [](tn_comm* c, tn_error* e) {
    return guarded(e, [&]() -> Status {
      TN_TRY(comm_of(c).ready());
      return comm_of(c).made.abort();
    });
  };
  comm.health = [](tn_comm* c, tn_error* e) {
    return guarded(e, [&]() -> Status {
      TN_TRY(comm_of(c).ready());
      return comm_of(c).made.health();
    });
  };
  comm.destroy = [](tn_comm* c, uint64_t timeout_ns, tn_error* e) {
    return guarded(e, [&] { return destroy(c, timeout_ns); });
  };
}

// The tables that the core has completed refuse what a plugin lacks; to the kit it is not there.
Status leave_out_promises(World& world) {
  Device device = TN_TRY(world.runtime->device("sim"));
  Stream stream = TN_TRY(device.stream());
  uint64_t value = 0;
  if (stream.state()->api->promise(stream.state()->handle, &value, nullptr) != TN_UNSUPPORTED)
    return stream.state()->api->signal(stream.state()->handle, value, TN_OK, nullptr) == TN_OK
               ? Status()
               : Status(TN_INTERNAL, "a promise could not be kept");
  world.stream.promise = nullptr;
  world.stream.signal = nullptr;
  return {};
}

Status open_world(World& world, const tn_host* host) {
  RuntimeOptions options{.use_environment = false, .use_install_path = false, .probe = Probe::off};
  options.search_path = {TENON_STAGED_PLUGINS};
  options.options["sim.comm_id_bytes"] = "0";
  for (const char* key : {"profile", "seed"})
    if (const char* value = host->option(host->context, "staged", key))
      options.options[std::string("sim.") + key] = value;
  world.runtime.emplace(TN_TRY(Runtime::open(std::move(options))));
  world.simulated = TN_TRY(world.runtime->plugin("sim"));
  fill_tables(world);
  TN_TRY(leave_out_promises(world));
  world.plugin = *world.simulated;
  world.plugin.name = Staged::identity.name;
  world.plugin.device = &world.device;
  world.plugin.stream = &world.stream;
  world.plugin.comm = &world.comm;
  world.plugin.extension = [](const tn_plugin*, const char*) -> const void* { return nullptr; };
  world.plugin.quiesce = [](const tn_plugin*, tn_error*) { return TN_OK; };
  world.plugin.shutdown = [](const tn_plugin*, tn_error*) { return TN_OK; };
  return {};
}

}  // namespace

TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  World& world = World::here();
  if (world.simulated == nullptr && guarded(error, [&] { return open_world(world, host); }) != TN_OK)
    return nullptr;
  return &world.plugin;
}
