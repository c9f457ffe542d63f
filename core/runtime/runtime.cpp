// SPDX-License-Identifier: Apache-2.0
// runtime.cpp: how a Runtime comes to be: options, host services, layers, plugins.
//
// Invariant: a bad plugin is a Candidate with a reason; only options can make `open` fail.
#include "runtime/runtime_state.hpp"

#include "runtime/device_state.hpp"
#include "runtime/options.hpp"

#include <algorithm>

namespace tenon::detail {

RuntimeState::~RuntimeState() {
  for (const auto& layer : layers)
    if (const Status status = layer->finish(); !status.ok())
      host->log().write(LogLevel::error, "layers", status.message());
  layers.clear();
  if (host != nullptr) host->let_go();
}

}  // namespace tenon::detail

namespace tenon::runtime {

Result<std::shared_ptr<detail::DeviceState>> open_choice(const std::shared_ptr<detail::RuntimeState>& state,
                                                         const Choice& choice) {
  const plugin::Loaded& loaded = *choice.offer->loaded;
  Host* host = state->host;
  return open_device({
      .plugin = choice.offer->descriptor,
      .ordinal = choice.ordinal,
      .name = loaded.name + ":" + std::to_string(choice.ordinal),
      .emulated = loaded.tables->emulated,
      .reserve_fraction = state->reserve_fraction,
      .log = [host](LogLevel level, const std::string& text) { host->log().write(level, "runtime", text); },
      .owner = state,
  });
}

bool has_communicators(const detail::RuntimeState* state, const tn_plugin* plugin) noexcept {
  if (state == nullptr) return true;
  const auto found = std::find_if(state->offers.begin(), state->offers.end(),
                                  [&](const detail::Offer& offer) { return offer.descriptor == plugin; });
  return found == state->offers.end() || found->loaded->tables->has_comm;
}

Result<std::shared_ptr<detail::DeviceState>> open_carrier(const std::shared_ptr<detail::RuntimeState>& state,
                                                          const std::string& for_device) {
  const plugin::Loaded* carrier = plugin::carrier_of(state->registry);
  if (carrier == nullptr) {
    return Status(TN_UNSUPPORTED,
                  "device '" + for_device +
                      "' has no communicators of its own, and no loaded plugin with host memory carries its "
                      "collectives: load one that does, such as cpu");
  }
  const std::lock_guard lock(state->carrier_mutex);
  if (auto open = state->carrier.lock()) return open;
  const auto offer =
      std::find_if(state->offers.begin(), state->offers.end(),
                   [&](const detail::Offer& candidate) { return candidate.loaded == carrier; });
  auto device = TN_TRY(open_choice(state, {&*offer, 0}));
  state->carrier = device;
  return device;
}

}  // namespace tenon::runtime

namespace tenon {
namespace {

Status make_layers(detail::RuntimeState& state, const std::vector<std::string>& specs) {
  runtime::Host* host = state.host;  // outlives every layer
  for (const std::string& spec : specs) {
    const auto log = [host](int32_t level, std::string_view text) {
      host->log().write(static_cast<LogLevel>(level), "layers", text);
    };
    state.layers.push_back(TN_TRY(layers::make_layer(spec, log)));
  }
  return {};
}

// Stands the layers before a plugin, the innermost first.
const tn_plugin* layered(const detail::RuntimeState& state, const tn_plugin* descriptor) {
  for (auto layer = state.layers.rbegin(); layer != state.layers.rend(); ++layer)
    descriptor = (*layer)->wrap(descriptor);
  return descriptor;
}

}  // namespace

Result<Runtime> Runtime::open(RuntimeOptions options) {
  TN_TRY(plugin::check_options(options));
  auto state = std::make_shared<detail::RuntimeState>();
  state->host = &runtime::Host::make(options);
  const runtime::OwnOptions own = TN_TRY(runtime::read_options(options, *state->host));
  state->reserve_fraction = own.reserve_fraction;
  TN_TRY(make_layers(*state, own.layers));
  state->registry = plugin::load_all(options, state->host->table());
  for (const auto& loaded : state->registry.loaded)
    state->offers.push_back({loaded.get(), layered(*state, &loaded->tables->descriptor)});
  return Runtime(std::move(state));
}

std::span<const Candidate> Runtime::candidates() const noexcept { return state_->registry.candidates; }

std::span<const Runtime::Folder> Runtime::folders() const noexcept { return state_->registry.folders; }

Result<Device> Runtime::device(std::string_view name) {
  return Device(TN_TRY(runtime::open_choice(state_, TN_TRY(runtime::choose(*state_, name)))));
}

Result<std::vector<tn_device_info>> Runtime::devices(std::string_view plugin) {
  return runtime::infos_of(*TN_TRY(runtime::offer_of(*state_, plugin)));
}

Result<const tn_plugin*> Runtime::plugin(std::string_view name) const {
  return TN_TRY(runtime::offer_of(*state_, name))
  ->descriptor;
}

std::vector<std::string> Runtime::layer_reports() const {
  std::vector<std::string> all;
  for (const auto& layer : state_->layers)
    for (std::string& finding : layer->report()) all.push_back(std::move(finding));
  return all;
}

}  // namespace tenon
