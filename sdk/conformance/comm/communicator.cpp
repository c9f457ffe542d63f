// SPDX-License-Identifier: Apache-2.0
// communicator.cpp: each method is one call through the table, in words.
#include "conformance/comm/communicator.hpp"

#include "conformance/comm/store.hpp"

#include <tenon/author/names.hpp>

#include <optional>
#include <utility>

namespace tenon::conform {

namespace {

// The first required function that is missing, or "".
std::string missing_function(const tn_comm_api& api) {
  const std::pair<bool, const char*> required[] = {
      {api.id_bytes, "comm.id_bytes"}, {api.make_id, "comm.make_id"}, {api.create, "comm.create"},
      {api.limits, "comm.limits"},     {api.submit, "comm.submit"},   {api.abort, "comm.abort"},
      {api.health, "comm.health"},     {api.destroy, "comm.destroy"},
  };
  for (const auto& [there, name] : required) {
    if (!there) return name;
  }
  return {};
}

tn_comm_options options_of(const tn_store* store, const char* name, uint32_t flags, uint64_t timeout_ns) {
  return {.size = sizeof(tn_comm_options),
          .flags = flags,
          .timeout_ns = timeout_ns,
          .store = store,
          .name = name,
          .next = nullptr};
}

}  // namespace

void Communicator::swap(Communicator& other) noexcept {
  std::swap(t_, other.t_);
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(forgiven_, other.forgiven_);
}

Communicator::~Communicator() {
  if (handle_ == nullptr) return;
  const bool forgiven = forgiven_;
  const Status ended = destroy(t_->settings().patience_ns);
  t_->check(ended.ok() || forgiven, "ending a communicator: ", ended.message());
}

Result<Communicator> Communicator::create(Context& t, const Device& device, uint32_t rank, uint32_t size,
                                          std::span<const std::byte> id, const tn_store* store,
                                          const std::string& name, const CommForm& form) {
  const uint64_t timeout_ns = form.timeout_ns != 0 ? form.timeout_ns : t.settings().patience_ns;
  const tn_comm_options options = options_of(store, name.c_str(), form.flags, timeout_ns);
  tn_comm* handle = nullptr;
  TN_TRY(t.call("comm.create", [&](tn_error* e) {
    return device.api().comm.create(device.handle(), rank, size, id.data(), id.size(), &options, &handle, e);
  }));
  TN_TRY(t.require(handle != nullptr, "comm.create said TN_OK and stored no communicator"));
  return Communicator(t, device.api(), handle, rank, size);
}

Result<tn_comm_limits> Communicator::limits() const {
  tn_comm_limits out{};
  out.size = sizeof out;
  TN_TRY(t_->call("comm.limits", [&](tn_error* e) { return api_->comm.limits(handle_, &out, e); }));
  return out;
}

Status Communicator::submit(const Stream& stream, std::span<const tn_comm_op> ops) const {
  return t_->call("comm.submit", [&](tn_error* e) {
    return api_->comm.submit(handle_, stream.handle(), ops.data(), static_cast<uint32_t>(ops.size()), e);
  });
}

Result<Communicator> Communicator::split(int32_t color, int32_t key, uint32_t rank, uint32_t size) const {
  const tn_comm_options options = options_of(nullptr, "part", 0, t_->settings().patience_ns);
  tn_comm* handle = nullptr;
  TN_TRY(t_->call("comm.split",
                  [&](tn_error* e) { return api_->comm.split(handle_, color, key, &options, &handle, e); }));
  TN_TRY(
      t_->require((handle != nullptr) == (color >= 0), "comm.split with color ", color,
                  handle != nullptr ? " stored a communicator" : " said TN_OK and stored no communicator"));
  return handle == nullptr ? Communicator() : Communicator(*t_, *api_, handle, rank, size);
}

Status Communicator::abort() const {
  return t_->call("comm.abort", [&](tn_error* e) { return api_->comm.abort(handle_, e); });
}

Status Communicator::health() const {
  return t_->call("comm.health", [&](tn_error* e) { return api_->comm.health(handle_, e); });
}

Status Communicator::destroy(uint64_t timeout_ns) {
  if (handle_ == nullptr) return {};
  tn_comm* const handle = std::exchange(handle_, nullptr);
  return t_->call("comm.destroy", [&](tn_error* e) { return api_->comm.destroy(handle, timeout_ns, e); });
}

Status needs_communicators(Context& t) {
  const Tables& tables = *TN_TRY(t.tables());
  TN_TRY(t.needs(tables.copy.comm != nullptr, "comm",
                 "the plugin has no communicators of its own: the host's staged one serves"));
  const std::string missing = missing_function(tables.comm);
  return t.require(missing.empty(), "the plugin has a table of communicators without ", missing,
                   ", which every such table must have");
}

Result<Bytes> make_id(Context& t, const Device& device) {
  const tn_comm_api& api = device.api().comm;
  uint64_t bytes = 0;
  TN_TRY(t.call("comm.id_bytes", [&](tn_error* e) { return api.id_bytes(device.handle(), &bytes, e); }));
  TN_TRY(t.require(bytes > 0 && bytes <= 1 << 20, "comm.id_bytes says ", bytes, " bytes"));
  Bytes id(bytes);
  TN_TRY(
      t.call("comm.make_id", [&](tn_error* e) { return api.make_id(device.handle(), id.data(), bytes, e); }));
  return id;
}

Result<tn_comm_limits> limits_of(Context& t) {
  TN_TRY(needs_communicators(t));
  static std::optional<tn_comm_limits> known;  // of this process, which tests one device
  if (known) return *known;
  const Device& device = *TN_TRY(t.device());
  const MeetingPlace place = TN_TRY(MeetingPlace::make());
  const FolderStore store(place.folder());
  const Bytes id = TN_TRY(make_id(t, device));
  const Communicator alone = TN_TRY(Communicator::create(t, device, 0, 1, id, store.table(), "limits", {}));
  known = TN_TRY(alone.limits());
  return *known;
}

Status needs_sums(Context& t, std::initializer_list<uint32_t> dtypes) {
  const tn_comm_limits limits = TN_TRY(limits_of(t));
  for (const uint32_t dtype : dtypes) {
    TN_TRY(t.needs((limits.reducible_mask >> dtype & 1) != 0,
                   words("comm.all_reduce.", author::dtype_name(dtype)),
                   "the communicator's limits do not list it"));
  }
  return {};
}

}  // namespace tenon::conform
