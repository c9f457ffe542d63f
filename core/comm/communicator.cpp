// SPDX-License-Identifier: Apache-2.0
// communicator.cpp: joining, splitting, submitting and leaving.
//
// The plugin's id travels through the store: rank 0 makes it, or says why it cannot, so that nobody waits for it in vain.
// Invariant: what a plugin's communicator tells as its end is told as the stream's failure, like any other.
#include "comm/comm_state.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <charconv>

namespace tenon {

using detail::CommState;

namespace {

constexpr char well = '+', ill = '-';

uint64_t nanoseconds(Timeout timeout) noexcept {
  if (timeout == forever) return TN_TIMEOUT_NEVER;
  return timeout.count() < 0 ? 0 : static_cast<uint64_t>(timeout.count());
}

Result<std::string> make_id(CommState& state) {
  tn_device* device = state.device->handle;
  uint64_t bytes = 0;
  tn_error error = no_error();
  TN_TRY(status_of(state.api->id_bytes(device, &bytes, &error), error));
  std::string id(bytes, '\0');
  TN_TRY(status_of(state.api->make_id(device, id.data(), bytes, &error), error));
  return id;
}

// The id of this communicator: made by rank 0, carried by the store.
Result<std::string> agree_on_id(CommState& state, const std::string& key) {
  if (state.rank == 0) {
    auto id = make_id(state);
    const std::string said = id.ok() ? well + *id : ill + std::string(id.message());
    if (Status told = state.store.set(key, said); id.ok() && !told.ok()) return told;
    return id;
  }
  std::string said = TN_TRY(state.store.get(key, state.options.timeout));
  if (said.empty() || said.front() != well) {
    return Status(TN_PEER_LOST, "communicator '" + state.options.name + "': rank 0 could not make it: " +
                                    base::printable(std::string_view(said).substr(said.empty() ? 0 : 1)));
  }
  return said.substr(1);
}

Status join(CommState& state) {
  const std::string& name = state.options.name;
  const std::string key =
      "comm/" + name + "/" + std::to_string(state.store.state()->next(name, state.rank)) + "/id";
  const std::string id = TN_TRY(agree_on_id(state, key));
  const tn_comm_options options{.size = sizeof(tn_comm_options),
                                .flags = state.options.deterministic ? TN_COMM_DETERMINISTIC : 0,
                                .timeout_ns = nanoseconds(state.options.timeout),
                                .store = &state.store.table(),
                                .name = name.c_str(),
                                .next = nullptr};
  tn_comm* handle = nullptr;
  tn_error error = no_error();
  TN_TRY(status_of(state.api->create(state.device->handle, state.rank, state.size, id.data(), id.size(),
                                     &options, &handle, &error),
                   error));
  state.handle.store(handle);
  state.limits.size = sizeof(tn_comm_limits);
  return status_of(state.api->limits(handle, &state.limits, &error), error);
}

Result<Communicator> made(std::shared_ptr<CommState> state) {
  TN_TRY(join(*state));
  return Communicator(std::move(state));
}

// What one rank says in a split.
struct Choice {
  int32_t color = -1, key = 0;
  uint32_t rank = 0;
};

std::string said(const Choice& choice) {
  return std::to_string(choice.color) + " " + std::to_string(choice.key);
}

Result<Choice> heard(const std::string& text, uint32_t rank) {
  Choice choice{.rank = rank};
  const char *at = text.data(), *end = at + text.size();
  const auto color = std::from_chars(at, end, choice.color);
  if (color.ec == std::errc() && color.ptr != end &&
      std::from_chars(color.ptr + 1, end, choice.key).ec == std::errc())
    return choice;
  return Status(TN_INVALID, "rank " + std::to_string(rank) + " said " + base::quoted(text) + " in a split");
}

}  // namespace

namespace detail {

CommState::~CommState() {
  tn_comm* last = handle.exchange(nullptr);
  if (last == nullptr) return;
  tn_error error = no_error();
  const Status left = status_of(api->destroy(last, nanoseconds(options.timeout), &error), error);
  if (!left.ok())
    device->log(LogLevel::warn, "communicator '" + options.name + "': " + std::string(left.message()));
}

Result<tn_comm*> CommState::living() const {
  tn_comm* alive = handle.load();
  if (alive != nullptr) return alive;
  return Status(TN_INVALID, "communicator '" + options.name + "' was destroyed: make a new one");
}

}  // namespace detail

Result<Communicator> Communicator::create(Device& device, const Store& store, uint32_t rank, uint32_t size,
                                          CommOptions options) {
  if (!store)
    return Status(TN_INVALID, "a communicator needs a store: Store::in_process, in_folder, serve or connect");
  if (rank >= size) {
    return Status(TN_INVALID,
                  "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": ranks start at 0");
  }
  auto state = std::make_shared<CommState>(device.state(), store);
  state->api = device.plugin().comm;
  state->rank = rank;
  state->size = size;
  state->options = std::move(options);
  return made(std::move(state));
}

uint32_t Communicator::rank() const noexcept { return state_->rank; }
uint32_t Communicator::size() const noexcept { return state_->size; }
const std::string& Communicator::name() const noexcept { return state_->options.name; }
const tn_comm_limits& Communicator::limits() const noexcept { return state_->limits; }

Status Communicator::submit(Stream& stream, std::span<const CommOp> group) {
  tn_comm* handle = TN_TRY(state_->living());
  detail::StreamState& line = *stream.state();
  if (!line.healthy()) return detail::stream_poison(line);
  static_assert(sizeof(CommOp) == sizeof(tn_comm_op));
  line.touch();
  tn_error error = no_error();
  const int32_t code =
      state_->api->submit(handle, line.handle, reinterpret_cast<const tn_comm_op*>(group.data()),
                          static_cast<uint32_t>(group.size()), &error);
  return code == TN_OK ? Status() : detail::stream_failure(line, code, error);
}

Result<Communicator> Communicator::split(int32_t color, int32_t key) {
  CommState& all = *state_;
  const std::string base = "split/" + all.options.name + "/" +
                           std::to_string(all.store.state()->next("split/" + all.options.name, all.rank));
  TN_TRY(all.store.set(base + "/" + std::to_string(all.rank), said({color, key, all.rank})));
  std::vector<Choice> mine;
  for (uint32_t q = 0; q < all.size; ++q) {
    const std::string text = TN_TRY(all.store.get(base + "/" + std::to_string(q), all.options.timeout));
    const Choice choice = TN_TRY(heard(text, q));
    if (choice.color == color) mine.push_back(choice);
  }
  if (color < 0) return Communicator();
  std::stable_sort(mine.begin(), mine.end(), [](const Choice& a, const Choice& b) { return a.key < b.key; });
  const auto own =
      std::find_if(mine.begin(), mine.end(), [&](const Choice& c) { return c.rank == all.rank; });
  auto part = std::make_shared<CommState>(all.device, all.store);
  part->api = all.api;
  part->rank = static_cast<uint32_t>(own - mine.begin());
  part->size = static_cast<uint32_t>(mine.size());
  part->options = all.options;
  part->options.name += "." + std::to_string(color);
  return made(std::move(part));
}

Status Communicator::abort() {
  tn_comm* handle = TN_TRY(state_->living());
  tn_error error = no_error();
  return status_of(state_->api->abort(handle, &error), error);
}

Status Communicator::health() const {
  tn_comm* handle = TN_TRY(state_->living());
  tn_error error = no_error();
  return status_of(state_->api->health(handle, &error), error);
}

Status Communicator::destroy(Timeout timeout) {
  tn_comm* handle = state_->handle.exchange(nullptr);
  if (handle == nullptr) return std::move(state_->living()).failure();
  tn_error error = no_error();
  return status_of(state_->api->destroy(handle, nanoseconds(timeout), &error), error);
}

}  // namespace tenon
