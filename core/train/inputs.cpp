// SPDX-License-Identifier: Apache-2.0
// inputs.cpp: see inputs.hpp.
#include "train/inputs.hpp"

#include "base/text.hpp"
#include "runtime/device_state.hpp"
#include "runtime/stage.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::train {
namespace {

constexpr uint64_t stage_alignment = 64;
constexpr Timeline::Work awaited{.kind = TraceKind::wait, .name = "inputs"};

Status bad(const std::string& text) { return Status(TN_INVALID, "executor: " + text); }

}  // namespace

std::string why_no_place(const Binding& binding, DType dtype) {
  if (binding.dtype != DType{} && binding.dtype != dtype)
    return "is " + std::string(name(dtype)) + ", and its numbers here are " +
           std::string(name(binding.dtype));
  const bool is_null = binding.span.space == TN_SPACE_HOST_ADDRESS && binding.span.offset == 0;
  return is_null && binding.span.bytes != 0
             ? "is at a NULL address for " + base::counted(binding.span.bytes, "byte")
             : "";
}

Result<Inputs> Inputs::open(const Plan& plan, std::string_view apart, Device& device, Stream& compute) {
  Inputs out;
  out.graph_ = plan.graph().name();
  out.copies_ = TN_TRY(device.stream({.name = "inputs"}));
  uint64_t end = 0;
  for (const Graph::ValueInfo& info : plan.graph().values()) {
    if (info.role != Graph::Role::input || info.name == apart) continue;
    One one{.name = info.name, .dtype = info.spec.dtype, .bytes = info.spec.bytes(), .at = end};
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

Result<Inputs::Shape> Inputs::shape(const Plan& plan, std::string_view apart) const {
  Shape shape = none();
  for (const Graph::ValueInfo& info : plan.graph().values()) {
    if (info.role != Graph::Role::input || info.name == apart) continue;
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.name == info.name; });
    if (found == all_.end()) return bad("input " + base::quoted(info.name) + " is none of the full step's");
    if (info.spec.bytes() > found->bytes)
      return bad("input " + base::quoted(info.name) + " has " + std::to_string(info.spec.bytes()) +
                 " bytes, and " + std::to_string(found->bytes) + " in the full step: open with the larger");
    shape[static_cast<size_t>(found - all_.begin())] = {plan.state().names.at(info.name), info.spec.bytes()};
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    if (shape[i].bound == TN_ABSENT) return bad("the step has no input " + base::quoted(all_[i].name));
  }
  const auto same = [](const Shaped& a, const Shaped& b) { return a.bytes == b.bytes; };
  for (const Shape& other : shapes_) {
    if (std::equal(shape.begin(), shape.end(), other.begin(), other.end(), same))
      return bad("there is a step with inputs of these sizes: nothing would tell which one is meant");
  }
  return shape;
}

Result<size_t> Inputs::check(std::span<const Binding> given) {
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
    if (const std::string why = why_no_place(given[i], found->dtype); !why.empty())
      return bad("input '" + found->name + "' " + why);
    if (runtime::several_devices())
      TN_TRY(runtime::check_home(runtime::timeline_of(copies_), given[i].span,
                                 "executor: input '" + found->name + "'"));
    place = i;
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    if (order_[i] == given.size()) return bad("input '" + all_[i].name + "' is not given");
  }
  return fitting(given);
}

Result<size_t> Inputs::fitting(std::span<const Binding> given) const {
  const auto is_none = [](const Binding& binding) { return binding.span.bytes == 0; };
  if (!given.empty() && std::all_of(given.begin(), given.end(), is_none)) return no_shape;
  std::string why;
  for (size_t shape = 0; shape < shapes_.size(); ++shape) {
    size_t i = 0;
    while (i < all_.size() && given[order_[i]].span.bytes == shapes_[shape][i].bytes) ++i;
    if (i == all_.size()) return shape;
    if (shape == 0)
      why = "input '" + all_[i].name + "' has " + std::to_string(all_[i].bytes) + " bytes, it is given " +
            std::to_string(given[order_[i]].span.bytes);
  }
  return bad(why + (shapes_.size() > 1 ? ", and all inputs together fit no step of fewer samples" : ""));
}

Status Inputs::begin_turn(Timeline& timeline) {
  TN_TRY(timeline.measure_host({.name = "inputs"}, [&] { return copied_[turn_].sync(); }));
  return timeline.measure(copies_, awaited, [&] { return copies_.wait(used_[turn_]); });
}

Status Inputs::send(One& one, const tn_span& from, Timeline& timeline) {
  std::memcpy(stages_[turn_].data() + one.at,
              reinterpret_cast<const void*>(static_cast<uintptr_t>(from.offset)), from.bytes);
  const tn_span staged = TN_TRY(stages_[turn_].span(one.at, from.bytes));
  return timeline.measure(copies_, {.kind = TraceKind::copy, .name = one.name, .bytes = from.bytes},
                          [&] { return copies_.copy(place(one, from.bytes), staged); });
}

Status Inputs::arrived(Stream& compute, Timeline& timeline) {
  copied_[turn_] = TN_TRY(copies_.record());
  return timeline.measure(compute, awaited, [&] { return compute.wait(copied_[turn_]); });
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
