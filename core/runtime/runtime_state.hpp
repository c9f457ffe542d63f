// SPDX-License-Identifier: Apache-2.0
// runtime_state.hpp: what a Runtime and the devices opened through it share.
//
// Invariant: layers end before the plugins they stand before, and after every device.
#pragma once

#include "layers/layer.hpp"
#include "plugin/registry.hpp"
#include "runtime/host.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::detail {

struct DeviceState;

// One plugin as devices see it.
struct Offer {
  const plugin::Loaded* loaded = nullptr;
  const tn_plugin* descriptor = nullptr;  // of the outermost layer
};

struct RuntimeState {
  runtime::Host* host = nullptr;
  plugin::Registry registry;
  std::vector<std::unique_ptr<layers::Layer>> layers;  // outermost first
  std::vector<Offer> offers;                           // in search order
  double reserve_fraction = 1;
  std::mutex carrier_mutex;
  std::weak_ptr<DeviceState> carrier;  // open as long as a host-staged communicator lives

  RuntimeState() = default;
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;
  ~RuntimeState();
};

}  // namespace tenon::detail

namespace tenon::runtime {

// Which device a name means.
struct Choice {
  const detail::Offer* offer = nullptr;
  uint32_t ordinal = 0;
};

// "cpu", "cpu:1" or "best". TN_NOT_FOUND names what there is and why the rest was skipped.
// [any-thread; may block; may fail]
Result<Choice> choose(const detail::RuntimeState& state, std::string_view name);
// Opens what was chosen. [any-thread; may block; may fail]
Result<std::shared_ptr<detail::DeviceState>> open_choice(const std::shared_ptr<detail::RuntimeState>& state,
                                                         const Choice& choice);
// Whether `plugin`, a descriptor of an offer, has communicators of its own; of one that no runtime loaded it is taken for
// granted. [any-thread; does not block; cannot fail]
bool has_communicators(const detail::RuntimeState* state, const tn_plugin* plugin) noexcept;
// The device whose communicators carry collectives in host memory for others; open once. TN_UNSUPPORTED with the remedy
// when no loaded plugin has host memory and communicators. [any-thread; may block; may fail]
Result<std::shared_ptr<detail::DeviceState>> open_carrier(const std::shared_ptr<detail::RuntimeState>& state,
                                                          const std::string& for_device);
// The plugin of that name. TN_NOT_FOUND. [any-thread; does not block; may fail]
Result<const detail::Offer*> offer_of(const detail::RuntimeState& state, std::string_view plugin);
// The infos of all its devices. [any-thread; may block; may fail]
Result<std::vector<tn_device_info>> infos_of(const detail::Offer& offer);

}  // namespace tenon::runtime
