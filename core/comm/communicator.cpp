// SPDX-License-Identifier: Apache-2.0
// communicator.cpp: the gates of Communicator; who carries it, and how it is split.
//
// Invariant: a communicator of the device's own plugin comes first; only where there is none another one carries it.
#include "comm/native.hpp"
#include "comm/roll_call.hpp"
#include "comm/staged.hpp"
#include "comm/words.hpp"

#include "base/text.hpp"
#include "runtime/runtime_state.hpp"
#include "runtime/stage.hpp"
#include "runtime/timeline.hpp"

#include <algorithm>
#include <charconv>

namespace tenon {
namespace {

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

// Of kinds with a block for each rank: the side that holds all blocks holds a whole number of them. Counts are cut to that, so what
// is left over would be neither sent nor written.
Status check_blocks(const detail::CommState& state, const tn_comm_op& op, uint64_t width) {
  const bool gathers = op.kind == TN_COMM_ALL_GATHER;
  if (!gathers && op.kind != TN_COMM_ALL_TO_ALL && op.kind != TN_COMM_REDUCE_SCATTER) return {};
  const tn_span& all = gathers ? op.recv : op.send;
  if (all.bytes % (width * state.size) == 0) [[likely]]
    return {};
  return Status(
      TN_INVALID,
      "communicator '" + state.options.name + "': " + std::string(comm::kind_name(op.kind)) + " " +
          (gathers ? "receives " : "sends ") + base::counted(all.bytes / width, "element") + ", which " +
          base::counted(state.size, "rank") + " do not divide: " +
          (op.kind == TN_COMM_ALL_TO_ALL ? "use all_to_all with counts, or spans of a multiple of that"
                                         : "use spans of a multiple of that, filled up where there is less"));
}

// Of what a plugin cannot see: whose stream and memory it is, bytes that are no whole element, and elements that are no block.
Status check(const detail::CommState& state, const runtime::Timeline& line, std::span<const CommOp> group) {
  const std::string& called = state.options.name;
  if (line.device != state.device) [[unlikely]]
    return Status(TN_INVALID, "communicator '" + called + "' of device '" + state.device->name +
                                  "' and stream '" + line.name + "' of device '" + line.device->name +
                                  "': use a stream of its own device");
  for (const CommOp& op : group) {
    const uint64_t width = std::max<uint64_t>(1, bits(static_cast<DType>(op.abi.dtype)) / 8);
    for (const tn_span* span : {&op.abi.send, &op.abi.recv}) {
      if ((span->bytes & (width - 1)) != 0) [[unlikely]]
        return Status(TN_INVALID, "communicator '" + called + "': a span has " +
                                      base::counted(span->bytes, "byte") + ", which is no whole number of " +
                                      std::string(name(static_cast<DType>(op.abi.dtype))));
      if (runtime::several_devices())
        TN_TRY(runtime::check_home(line, *span, "communicator '" + called + "': a span"));
    }
    TN_TRY(check_blocks(state, op.abi, width));
  }
  return {};
}

}  // namespace

std::string comm::turn(const char* what, uint64_t before) {
  return before == 0 ? "" : " (" + std::string(what) + " " + std::to_string(before + 1) + ")";
}

// Communicators of a plugin may not join these ranks, as those of one process do not join those of several. Then it refuses on all
// of them, and they are staged like those of a plugin that has none.
Result<std::shared_ptr<detail::CommState>> comm::make_state(
    const std::shared_ptr<detail::DeviceState>& device, const Store& store, uint32_t rank, uint32_t size,
    CommOptions options) {
  if (!runtime::has_communicators(device->owner.get(), device->plugin))
    return Staged::join(device, store, rank, size, std::move(options));
  auto own = Native::join(device, store, rank, size, options);
  if (own.code() != TN_UNSUPPORTED || device->owner == nullptr) return own;
  const auto carrier = runtime::open_carrier(device->owner, device->name);
  if (!carrier.ok() || (*carrier)->plugin == device->plugin) return own;
  device->log(LogLevel::info,
              "communicator '" + options.name + "' is staged on the host: " + std::string(own.message()));
  return Staged::join(device, store, rank, size, std::move(options));
}

Result<Communicator> Communicator::create(Device& device, const Store& store, uint32_t rank, uint32_t size,
                                          CommOptions options) {
  if (!store)
    return Status(TN_INVALID, "a communicator needs a store: Store::in_process, in_folder, serve or connect");
  if (size == 0) return Status(TN_INVALID, "a communicator of 0 ranks: give how many take part");
  if (rank >= size)
    return Status(TN_INVALID, "rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                  ": ranks are 0 to " + std::to_string(size - 1));
  return Communicator(TN_TRY(comm::make_state(device.state(), store, rank, size, std::move(options))));
}

uint32_t Communicator::rank() const noexcept { return state_->rank; }
uint32_t Communicator::size() const noexcept { return state_->size; }
const std::string& Communicator::name() const noexcept { return state_->options.name; }
const tn_comm_limits& Communicator::limits() const noexcept { return state_->limits; }

Status Communicator::submit(Stream& stream, std::span<const CommOp> group) {
  TN_TRY(check(*state_, runtime::timeline_of(stream), group));
  return state_->submit(stream, group, std::nullopt);
}

Result<Communicator> Communicator::split(int32_t color, int32_t key) {
  detail::CommState& all = *state_;
  const std::string splits = all.key + "/split";
  const uint64_t number = all.store.state()->next(splits, all.rank);
  const std::vector<std::string> texts = TN_TRY(
      comm::roll_call(all, splits + "/" + std::to_string(number), said({color, key, all.rank}),
                      {"its split", "all ranks call it, also those that want no part (a negative color)"}));
  std::vector<Choice> mine;
  for (uint32_t q = 0; q < all.size; ++q) {
    const Choice choice = TN_TRY(heard(texts[q], q));
    if (choice.color == color) mine.push_back(choice);
  }
  if (color < 0) return Communicator();
  std::stable_sort(mine.begin(), mine.end(), [](const Choice& a, const Choice& b) { return a.key < b.key; });
  std::vector<uint32_t> members;
  for (const Choice& choice : mine) members.push_back(choice.rank);
  return Communicator(TN_TRY(all.part(members, "." + std::to_string(color) + comm::turn("split", number))));
}

Status Communicator::abort() { return state_->abort(); }
Status Communicator::health() const { return state_->health(); }
Status Communicator::destroy(Timeout timeout) { return state_->destroy(timeout); }

}  // namespace tenon
