// SPDX-License-Identifier: Apache-2.0
// inputs.cpp: see inputs.hpp.
#include "train/inputs.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::train {
namespace {

constexpr uint64_t stage_alignment = 64;

}  // namespace

Result<Inputs> Inputs::open(const Plan& plan, std::string_view apart, Device& device, Stream& compute) {
  Inputs out;
  out.graph_ = plan.graph().name();
  out.copies_ = TN_TRY(device.stream({.name = "inputs"}));
  uint64_t end = 0;
  for (const Graph::ValueInfo& info : plan.graph().values()) {
    if (info.role != Graph::Role::input || info.name == apart) continue;
    One one{
        .name = info.name, .bound = plan.state().names.at(info.name), .bytes = info.spec.bytes(), .at = end};
    for (Buffer& place : one.places) place = TN_TRY(device.allocate(compute, one.bytes));
    end += (one.bytes + stage_alignment - 1) / stage_alignment * stage_alignment;
    out.all_.push_back(std::move(one));
  }
  for (overlap::Stage& stage : out.stages_) stage = TN_TRY(overlap::Stage::open(device, compute, end));
  out.order_.resize(out.all_.size());
  // The places are the compute stream's; the other stream uses them when they are there.
  const Point made = TN_TRY(compute.record());
  TN_TRY(out.copies_.wait(made));
  return out;
}

Status Inputs::check(std::span<const Binding> given) {
  const auto bad = [&](const std::string& text) { return Status(TN_INVALID, "executor: " + text); };
  std::fill(order_.begin(), order_.end(), given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.name == given[i].name; });
    if (found == all_.end()) {
      std::vector<std::string_view> names;
      for (const One& one : all_) names.push_back(one.name);
      return bad("the step has no input " + base::quoted(given[i].name) +
                 base::did_you_mean(given[i].name, names));
    }
    size_t& place = order_[static_cast<size_t>(found - all_.begin())];
    if (place != given.size()) return bad("input '" + found->name + "' is given twice");
    if (given[i].span.bytes != found->bytes)
      return bad("input '" + found->name + "' has " + std::to_string(found->bytes) + " bytes, it is given " +
                 std::to_string(given[i].span.bytes));
    place = i;
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    if (order_[i] == given.size()) return bad("input '" + all_[i].name + "' is not given");
  }
  return {};
}

Status Inputs::begin_turn() {
  TN_TRY(copied_[turn_].sync());
  return copies_.wait(used_[turn_]);
}

Status Inputs::send(One& one, const tn_span& from, Timeline& timeline) {
  std::memcpy(stages_[turn_].data() + one.at,
              reinterpret_cast<const void*>(static_cast<uintptr_t>(from.offset)), one.bytes);
  const tn_span staged = TN_TRY(stages_[turn_].span(one.at, one.bytes));
  return timeline.measure(copies_, {.kind = TraceKind::copy, .name = one.name, .bytes = one.bytes},
                          [&] { return copies_.copy(one.places[turn_], staged); });
}

Status Inputs::arrived(Stream& compute) {
  copied_[turn_] = TN_TRY(copies_.record());
  return compute.wait(copied_[turn_]);
}

Status Inputs::used(Stream& compute) {
  used_[turn_] = TN_TRY(compute.record());
  turn_ ^= 1u;
  return {};
}

uint64_t Inputs::bytes() const noexcept {
  uint64_t out = 0;
  for (const One& one : all_) out += 2 * one.bytes;
  return out;
}

}  // namespace tenon::train
