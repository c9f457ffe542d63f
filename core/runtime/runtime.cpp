// SPDX-License-Identifier: Apache-2.0
// runtime.cpp: how a Runtime comes to be: options, host services, layers, plugins.
//
// Invariant: a bad plugin is a Candidate with a reason; only options can make `open` fail.
#include "runtime/runtime_state.hpp"

#include "runtime/device_state.hpp"
#include "runtime/options.hpp"

namespace tenon::detail {

RuntimeState::~RuntimeState() {
  for (const auto& layer : layers)
    if (const Status status = layer->finish(); !status.ok())
      host->log().write(LogLevel::error, "layers", status.message());
  layers.clear();
  if (host != nullptr) host->let_go();
}

}  // namespace tenon::detail

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
  const runtime::Choice choice = TN_TRY(runtime::choose(*state_, name));
  const plugin::Loaded& loaded = *choice.offer->loaded;
  runtime::Host* host = state_->host;
  auto device = TN_TRY(runtime::open_device({
      .plugin = choice.offer->descriptor,
      .ordinal = choice.ordinal,
      .name = loaded.name + ":" + std::to_string(choice.ordinal),
      .emulated = loaded.tables->emulated,
      .reserve_fraction = state_->reserve_fraction,
      .log = [host](LogLevel level, const std::string& text) { host->log().write(level, "runtime", text); },
      .owner = state_,
  }));
  return Device(std::move(device));
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
