// SPDX-License-Identifier: Apache-2.0
// lane.cpp: a stream and its communicator, and small exchanges that the host waits for.
#include "overlap/lane.hpp"

namespace tenon::overlap {

Result<Lane> Lane::open(Device& device, Communicator& from, uint32_t number) {
  Lane lane;
  lane.stream = TN_TRY(device.stream(
      {.name = "gradients " + std::to_string(number), .priority = device.limits().priorities > 1 ? 1u : 0u}));
  lane.comm = TN_TRY(from.split(static_cast<int32_t>(number), static_cast<int32_t>(from.rank())));
  return lane;
}

Status Lane::group(HierarchyOptions options) {
  groups = TN_TRY(Hierarchy::create(comm, std::move(options)));
  return {};
}

bool Lane::goes(Route route) const noexcept {
  return route == Route::flat || (groups && groups.route_of(CommOp::all_reduce({}, {}, f32), route) == route);
}

Result<std::vector<uint64_t>> everyones(Device& device, Lane& lane, std::span<const uint64_t> own) {
  std::vector<uint64_t> out(own.size() * lane.comm.size());
  if (lane.comm.size() == 1) {
    out.assign(own.begin(), own.end());
    return out;
  }
  const Buffer all = TN_TRY(device.allocate(lane.stream, out.size() * sizeof(uint64_t)));
  const tn_span mine = TN_TRY(all.slice(lane.comm.rank() * own.size_bytes(), own.size_bytes()));
  TN_TRY(lane.stream.upload(mine, own));
  TN_TRY(lane.comm.all_gather(lane.stream, mine, all, u8));
  TN_TRY(lane.stream.download(out, all));
  TN_TRY(lane.stream.sync());
  return out;
}

Status greatest(Device& device, Lane& lane, std::span<double> numbers) {
  if (lane.comm.size() == 1 || numbers.empty()) return {};
  const Buffer buffer = TN_TRY(device.allocate(lane.stream, numbers.size_bytes()));
  TN_TRY(lane.stream.upload(buffer, numbers));
  TN_TRY(lane.comm.all_reduce(lane.stream, buffer, buffer, f64, Reduction::max));
  TN_TRY(lane.stream.download(numbers, buffer));
  return lane.stream.sync();
}

Result<std::string> from_root(Device& device, Lane& lane, std::string text, uint64_t bytes, uint32_t root) {
  text.resize(bytes);
  if (lane.comm.size() == 1 || bytes == 0) return text;
  const Buffer buffer = TN_TRY(device.allocate(lane.stream, bytes));
  if (lane.comm.rank() == root) TN_TRY(lane.stream.upload(buffer, text));
  TN_TRY(lane.comm.broadcast(lane.stream, buffer, u8, root));
  TN_TRY(lane.stream.download(text, buffer));
  TN_TRY(lane.stream.sync());
  return text;
}

}  // namespace tenon::overlap
