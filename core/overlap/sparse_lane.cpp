// SPDX-License-Identifier: Apache-2.0
// sparse_lane.cpp: a block of rows from each rank, gathered as indices and values in one group.
#include "overlap/sparse_lane.hpp"

#include "base/text.hpp"
#include "overlap/average.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

constexpr uint64_t index_bytes = 8;

tn_span part(const tn_span& whole, uint64_t offset, uint64_t bytes) {
  tn_span out = whole;
  out.offset += offset;
  out.bytes = bytes;
  return out;
}

}  // namespace

Result<SparseLane> SparseLane::prepare(Device& device, Lane& lane, const CommPlan& plan, Average how,
                                       const Timeline& timeline) {
  SparseLane out;
  out.timeline_ = timeline;
  out.lane_ = &lane;
  out.waits_ = plan.options().sync_nccl_allreduce;
  const uint64_t ranks = lane.comm.size(), rank = lane.comm.rank();
  for (uint32_t i = 0; i < plan.step().gradients.size(); ++i) {
    const Gradient& gradient = plan.step().gradients[i];
    if (!gradient.sparse) continue;
    Table table{.parameter = i,
                .name = gradient.name,
                .event = "rows of " + gradient.name,
                .dtype = gradient.dtype,
                .most_rows = gradient.most_rows};
    table.row_bytes = bytes(gradient.dtype, gradient.row_elements);
    const uint64_t indices = table.most_rows * index_bytes, values = table.most_rows * table.row_bytes;
    table.indices = TN_TRY(device.allocate(lane.stream, ranks * indices));
    table.values = TN_TRY(device.allocate(lane.stream, ranks * values));
    table.own_indices = TN_TRY(table.indices.slice(rank * indices, indices));
    table.own_values = TN_TRY(table.values.slice(rank * values, values));
    if (how != Average::none)
      table.division =
          TN_TRY(division_kernel(device, gradient.dtype, ranks * table.most_rows * gradient.row_elements));
    out.tables_.push_back(std::move(table));
  }
  return out;
}

size_t SparseLane::find(uint32_t parameter) const noexcept {
  const auto found = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const Table& table) { return table.parameter == parameter; });
  return static_cast<size_t>(found - tables_.begin());
}

Status SparseLane::check(uint32_t parameter, const tn_span& indices, const tn_span& values) const {
  const Table& table = tables_[find(parameter)];
  const std::string called = "parameter " + base::quoted(table.name);
  const uint64_t rows = indices.bytes / index_bytes;
  if (indices.bytes % index_bytes != 0 || values.bytes != rows * table.row_bytes)
    return Status(TN_INVALID, called + " has " + std::to_string(indices.bytes) + " bytes of indices and " +
                                  std::to_string(values.bytes) + " of values: bring an i64 and " +
                                  std::to_string(table.row_bytes) + " bytes for each row");
  if (rows <= table.most_rows) return {};
  return Status(TN_INVALID, called + " has " + std::to_string(rows) + " rows, at most " +
                                std::to_string(table.most_rows) +
                                " can be told: add up rows of one index, or raise most_rows");
}

void SparseLane::bring(uint32_t parameter, const tn_span& indices, const tn_span& values) noexcept {
  Table& table = tables_[find(parameter)];
  table.from_indices = indices;
  table.from_values = values;
}

// What was brought, and zeros behind it.
Status SparseLane::fill_own(Table& table) {
  Stream& line = lane_->stream;
  for (const auto& [own, from] : {std::pair{&table.own_indices, &table.from_indices},
                                  std::pair{&table.own_values, &table.from_values}}) {
    if (from->bytes > 0) {
      TN_TRY(line.copy(part(*own, 0, from->bytes), *from));
      copied_ += {from->bytes, 1};
    }
    TN_TRY(line.fill(part(*own, from->bytes, own->bytes - from->bytes)));
    *from = {};
  }
  return {};
}

Status SparseLane::launch(Stream& compute) {
  if (tables_.empty()) return {};
  TN_TRY(timeline_.measure(lane_->stream, {.kind = TraceKind::wait, .name = "rows"},
                           [&]() -> Status { return lane_->stream.wait(TN_TRY(compute.record())); }));
  for (Table& table : tables_) TN_TRY(launch(table));
  return {};
}

Status SparseLane::launch(Table& table) {
  Timeline::Work work{.kind = TraceKind::copy, .name = table.event};
  work.bytes = table.own_indices.bytes + table.own_values.bytes;
  TN_TRY(timeline_.measure(lane_->stream, work, [&] { return fill_own(table); }));
  work.kind = TraceKind::collective;
  work.bytes = table.indices.bytes() + table.values.bytes();
  TN_TRY(timeline_.measure(lane_->stream, work, [&] {
    return lane_->comm.submit(lane_->stream,
                              {CommOp::all_gather(table.own_indices, table.indices, i64),
                               CommOp::all_gather(table.own_values, table.values, table.dtype)});
  }));
  if (!waits_) return {};
  return timeline_.measure_host({.name = table.event}, [&] { return lane_->stream.sync(); });
}

Status SparseLane::average(Stream& stream, const tn_span& divisor) {
  for (const Table& table : tables_) {
    if (!table.division) continue;
    TN_TRY(timeline_.measure(stream, {.name = table.event}, [&] {
      return table.division.run(stream, {table.values, divisor, table.values});
    }));
  }
  return {};
}

SparseRows SparseLane::rows(uint32_t parameter) const noexcept {
  const size_t at = find(parameter);
  return at == tables_.size() ? SparseRows{} : SparseRows{tables_[at].indices, tables_[at].values};
}

Status SparseLane::used_on(Stream& stream) {
  for (Table& table : tables_) {
    TN_TRY(table.indices.used_on(stream));
    TN_TRY(table.values.used_on(stream));
  }
  return {};
}

}  // namespace tenon::overlap
