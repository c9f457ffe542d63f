// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: the entry, the devices of the chosen profile, and the functions that it lacks.
//
// Options of the host: `profile` (plain, ascend, kunlun, mlu, ipu, ze, or the path of a file) and every key of a profile.
// Invariant: until a device is opened no thread runs and no memory is mapped. A wrong option is told by every call that
// needs a device, in words.
#include "device.hpp"

#include <tenon/author/capture_table.hpp>
#include <tenon/author/plugin.hpp>

namespace tenon::sim {

class Plugin {
 public:
  static constexpr author::Identity identity{
      .name = "sim", .vendor = "Tenon", .version = TENON_PLUGIN_VERSION};
  using Device = sim::Device;
  using Memory = sim::Memory;
  using Stream = sim::Stream;
  using Kernel = sim::Kernel;
  using Comm = sim::Comm;
  using Capture = sim::Capture;

  explicit Plugin(author::Host host)
      : chosen_(chosen_profile(host)),
        profile_(chosen_.ok() ? *chosen_ : Profile()),
        scheduler_(profile_),
        fabric_(profile_.peer_lost_at) {
    cards_.resize(profile_.devices);
  }

  uint64_t features() const {
    const auto bit = [](bool on, uint64_t feature) { return on ? feature : 0; };
    return bit(profile_.addresses, TN_FEATURE_ADDRESSABLE) |
           bit(profile_.cross_device_wait, TN_FEATURE_CROSS_DEVICE_WAIT) |
           bit(profile_.synchronous, TN_FEATURE_SYNCHRONOUS) |
           bit(profile_.whole_graphs, TN_FEATURE_WHOLE_GRAPH);
  }
  const Profile& profile() const noexcept { return profile_; }

  Result<uint32_t> device_count() {
    TN_TRY(options_are_good());
    return static_cast<uint32_t>(profile_.devices);
  }

  Status describe(uint32_t ordinal, tn_device_info& out) {
    out.kind = TN_DEVICE_CPU;  // where it computes, so that nobody takes it for the best device of a machine
    out.memory_bytes = profile_.memory_bytes();
    out.dlpack_type = 12;  // kDLExtDev
    out.compute_units = 1;
    author::set_text(out.name, profile_.chip);
    author::set_text(out.id, author::text(profile_.name, ordinal));
    author::set_text(out.driver, author::text("profile ", profile_.name, ", seed ", profile_.seed));
    return {};
  }

  Result<std::unique_ptr<sim::Device>> open(uint32_t ordinal, const tn_device_options& /*options*/) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Card> card = cards_[ordinal].lock();
    if (card != nullptr && profile_.exclusive) {
      return Status(TN_BUSY, author::text("device 'sim:", ordinal, "' is attached already, and profile '",
                                          profile_.name, "' attaches a device once: close the other handle"));
    }
    if (card == nullptr) cards_[ordinal] = card = TN_TRY(Card::make(profile_, ordinal));
    const Bound bound(*card);
    TN_TRY(card->alive());
    return std::make_unique<sim::Device>(std::move(card), scheduler_, fabric_);
  }

  const void* extension(std::string_view id) {
    return id == TN_CAPTURE_ID && profile_.capture ? &author::CaptureTable<Plugin>::table : nullptr;
  }

  Status quiesce() {
    scheduler_.quiesce();
    fabric_.quiesce();
    return {};
  }

 private:
  Status options_are_good() const { return chosen_.ok() ? Status() : Status(chosen_.error()); }

  Result<Profile> chosen_;
  const Profile profile_;
  Scheduler scheduler_;
  comm::Fabric fabric_;
  std::mutex mutex_;  // of cards_
  std::vector<std::weak_ptr<Card>> cards_;
};

namespace {

using author::DeviceTable;
using author::StreamTable;

// The framework's tables without what a profile lacks: a null function means "unsupported", and the host says so.
void leave_out(const Profile& profile, tn_plugin& descriptor) {
  static tn_stream_api streams;
  static tn_device_api devices;
  streams = StreamTable<Plugin>::table;
  devices = DeviceTable<Plugin>::table;
  if (!profile.host_call) streams.host_call = nullptr;
  if (!profile.promise) streams.promise = nullptr;
  if (!profile.promise) streams.signal = nullptr;
  if (!profile.timestamp) streams.timestamp = nullptr;
  if (!profile.copy_strided) streams.copy_strided = nullptr;
  if (!profile.addresses && !profile.host_memory) devices.address = nullptr;
  if (!profile.peer) devices.peer = nullptr;
  descriptor.stream = &streams;
  descriptor.device = &devices;
  if (profile.comm_id_bytes == 0) descriptor.comm = nullptr;
}

}  // namespace

}  // namespace tenon::sim

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  using tenon::sim::Plugin;
  const tn_plugin* const made = tenon::author::entry<Plugin>(host, error);
  if (made != nullptr) {
    using Instance = tenon::author::Instance<Plugin>;
    tenon::sim::leave_out(Instance::plugin->profile(), Instance::descriptor);
  }
  return made;
}
