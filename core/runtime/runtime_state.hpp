// SPDX-License-Identifier: Apache-2.0
// runtime_state.hpp: what a Runtime and the devices opened through it share.
//
// Invariant: layers end before the plugins they stand before, and after every device.
#pragma once

#include "layers/layer.hpp"
#include "plugin/registry.hpp"
#include "runtime/host.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::detail {

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
// The plugin of that name. TN_NOT_FOUND. [any-thread; does not block; may fail]
Result<const detail::Offer*> offer_of(const detail::RuntimeState& state, std::string_view plugin);
// The infos of all its devices. [any-thread; may block; may fail]
Result<std::vector<tn_device_info>> infos_of(const detail::Offer& offer);

}  // namespace tenon::runtime
