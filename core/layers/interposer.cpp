// SPDX-License-Identifier: Apache-2.0
// interposer.cpp: the trampolines: slot s's functions call the interposer bound to s.
//
// Invariant: a slot below that is null stays null above, so "null means unsupported" holds through every layer.
#include "layers/interposer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>

namespace tenon::layers {
namespace {

std::array<std::atomic<Interposer*>, max_interposers> bound{};
std::mutex binding;

int32_t fail(int32_t code, const char* text, tn_error* error) noexcept {
  try {
    return write_error(Error{.code = code, .message = text, .domain = "tenon"}, error);
  } catch (...) {
    return code;
  }
}

template <class Method>
struct Entry;

template <class... Arguments>
struct Entry<int32_t (Interposer::*)(Arguments...)> {
  // One call of one method, whatever the slot. The C function of a slot only adds whose call it is.
  template <auto method, Function function>
  static int32_t dispatch(Interposer* to, Arguments... arguments) noexcept {
    const auto all = std::tie(arguments...);
    tn_error* const error = std::get<sizeof...(Arguments) - 1>(all);
    try {
      auto go_on = [&] { return (to->*method)(arguments...); };
      return to->around(function, std::get<0>(all), error, Call(go_on));
    } catch (const std::bad_alloc&) {
      return fail(TN_NO_MEMORY, "a layer between host and plugin has no host memory left", error);
    } catch (const std::exception& escaped) {
      return fail(TN_INTERNAL, escaped.what(), error);
    } catch (...) {
      return fail(TN_INTERNAL, "a layer between host and plugin threw something unknown", error);
    }
  }

  template <auto method, Function function, size_t slot>
  static int32_t call(Arguments... arguments) noexcept {
    return dispatch<method, function>(bound[slot].load(std::memory_order_relaxed), arguments...);
  }
};

template <auto method, Function function, size_t slot>
constexpr auto entry = &Entry<decltype(method)>::template call<method, function, slot>;

template <size_t slot>
const void* extension_of(const tn_plugin* /*plugin*/, const char* id) noexcept {
  try {
    return bound[slot].load(std::memory_order_relaxed)->extension(id);
  } catch (...) {
    return nullptr;
  }
}

// All functions of one slot.
struct Functions {
  tn_device_api device{};
  tn_stream_api stream{};
  tn_kernel_api kernel{};
  tn_comm_api comm{};
  tn_capture_api capture{};
  tn_import_api import{};
  tn_ipc_api ipc{};
  decltype(tn_plugin::extension) extension = nullptr;
  decltype(tn_plugin::quiesce) quiesce = nullptr;
  decltype(tn_plugin::shutdown) shutdown = nullptr;
};

template <size_t slot>
constexpr Functions functions_of() {
  Functions all;
#define TN_FUNCTION(table, name, method) all.table.name = entry<&Interposer::method, Function::method, slot>;
#define TN_EXTENSION_FUNCTION TN_FUNCTION
#include "layers/functions.def"
  all.extension = &extension_of<slot>;
  all.quiesce = entry<&Interposer::quiesce, Function::quiesce, slot>;
  all.shutdown = entry<&Interposer::shutdown, Function::shutdown, slot>;
  return all;
}

template <size_t... slots>
constexpr auto every_slot(std::index_sequence<slots...>) {
  return std::array<Functions, sizeof...(slots)>{functions_of<slots>()...};
}
constexpr std::array functions = every_slot(std::make_index_sequence<max_interposers>());

}  // namespace

void Interposer::fill_tables(size_t slot) noexcept {
  const Functions& all = functions[slot];
  descriptor_ = below_;
  descriptor_.header = {sizeof descriptor_, TN_ABI_MAJOR, TN_ABI_MINOR};
  device_.header = {sizeof device_, TN_ABI_MAJOR, TN_ABI_MINOR};
  stream_.header = {sizeof stream_, TN_ABI_MAJOR, TN_ABI_MINOR};
  kernel_.header = {sizeof kernel_, TN_ABI_MAJOR, TN_ABI_MINOR};
  comm_.header = {sizeof comm_, TN_ABI_MAJOR, TN_ABI_MINOR};
#define TN_FUNCTION(table, name, method) \
  if (below_.table != nullptr && below_.table->name != nullptr) table##_.name = all.table.name;
#include "layers/functions.def"
  below_capture_ = static_cast<const tn_capture_api*>(extension_below(TN_CAPTURE_ID));
  below_import_ = static_cast<const tn_import_api*>(extension_below(TN_IMPORT_ID));
  below_ipc_ = static_cast<const tn_ipc_api*>(extension_below(TN_IPC_ID));
  const auto known = [](const auto* below, auto& own) {
    own.header = {below == nullptr ? 0 : std::min<uint32_t>(below->header.size, sizeof own), 1, 0};
  };
  known(below_capture_, capture_);
  known(below_import_, import_);
  known(below_ipc_, ipc_);
#define TN_FUNCTION(table, name, method)
#define TN_EXTENSION_FUNCTION(table, name, method)                                          \
  if (offsetof(decltype(Functions::table), name) + sizeof(void*) <= table##_.header.size && \
      below_##table##_->name != nullptr)                                                    \
    table##_.name = all.table.name;
#include "layers/functions.def"
  descriptor_.device = below_.device == nullptr ? nullptr : &device_;
  descriptor_.stream = below_.stream == nullptr ? nullptr : &stream_;
  descriptor_.kernel = below_.kernel == nullptr ? nullptr : &kernel_;
  descriptor_.comm = below_.comm == nullptr ? nullptr : &comm_;
  descriptor_.extension = all.extension;
  if (below_.quiesce != nullptr) descriptor_.quiesce = all.quiesce;
  if (below_.shutdown != nullptr) descriptor_.shutdown = all.shutdown;
}

const void* Interposer::extension_below(const char* id) const noexcept {
  return below_.extension == nullptr ? nullptr : below_.extension(&below_, id);
}

const void* Interposer::extension(const char* id) {
  const std::string_view name = id == nullptr ? "" : id;
  if (name == TN_CAPTURE_ID && below_capture_ != nullptr) return &capture_;
  if (name == TN_IMPORT_ID && below_import_ != nullptr) return &import_;
  if (name == TN_IPC_ID && below_ipc_ != nullptr) return &ipc_;
  return extension_below(id);
}

bool Interposer::bind() noexcept {
  const std::lock_guard lock(binding);
  for (slot_ = 0; slot_ < max_interposers; ++slot_) {
    if (bound[slot_].load(std::memory_order_relaxed) != nullptr) continue;
    bound[slot_].store(this, std::memory_order_release);
    fill_tables(slot_);
    return true;
  }
  return false;
}

Interposer::~Interposer() {
  const std::lock_guard lock(binding);
  if (slot_ < max_interposers) bound[slot_].store(nullptr, std::memory_order_release);
}

const tn_plugin* InterposingLayer::wrap(const tn_plugin* below) {
  std::unique_ptr<Interposer> made = interpose(*below);
  if (!made->bind()) {
    unwrapped_.push_back(std::string("plugin '") + below->name + "' runs without this layer: " +
                         std::to_string(max_interposers) + " layered plugins are the most in one process");
    return below;
  }
  interposers_.push_back(std::move(made));
  return &interposers_.back()->descriptor();
}

std::vector<std::string> InterposingLayer::report() const { return unwrapped_; }

}  // namespace tenon::layers
