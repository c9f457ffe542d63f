// SPDX-License-Identifier: Apache-2.0
// lasting.cpp: see lasting.hpp.
#include "train/lasting.hpp"

#include "base/text.hpp"
#include "graph/number.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

// Every element in another type, rounded to the nearest.
std::vector<std::byte> converted(DType from, DType to, std::span<const std::byte> bytes) {
  const size_t width = bits(from) / 8, out_width = bits(to) / 8;
  std::vector<std::byte> out(bytes.size() / width * out_width);
  for (size_t i = 0; i * width < bytes.size(); ++i)
    graph::write_element(to, graph::read_element(from, &bytes[i * width]), &out[i * out_width]);
  return out;
}

uint32_t number_of(const Plan::State& plan, const std::string& name) {
  const auto found = plan.names.find(name);
  return found == plan.names.end() ? TN_ABSENT : found->second;
}

bool renewed_in_place(const Plan::State& plan, const std::string& param) {
  return std::any_of(plan.renewals.begin(), plan.renewals.end(),
                     [&](const Plan::Renewal& renewal) { return renewal.param == param; });
}

}  // namespace

Result<Lasting> Lasting::open(const Open& from, Device& device, Stream& stream) {
  Lasting out;
  const Plan::State& plan = from.plan.state();
  std::unordered_map<std::string, std::string> next;  // parameter → output
  for (const Renewed& pair : from.step.renewed) next.emplace(pair.param, pair.output);
  for (const passes::Master& master : from.masters) next.emplace(master.master, master.output);
  std::unordered_map<std::string, size_t> at;
  for (const Graph::ValueInfo& info : plan.graph.values()) {
    if (info.role != Graph::Role::param) continue;
    Kept kept{.name = info.name, .spec = info.spec};
    const auto found = next.find(info.name);
    if (found != next.end() && number_of(plan, found->second) != TN_ABSENT) kept.next = found->second;
    kept.in_turns = !kept.next.empty() && !renewed_in_place(plan, kept.name);
    at.emplace(info.name, out.kept_.size());
    out.kept_.push_back(std::move(kept));
  }
  for (const Graph::ValueInfo& info : from.step.graph.values()) {
    if (info.role != Graph::Role::param || !at.contains(info.name)) continue;
    out.names_.push_back({info.name, info.spec});
    out.known_.emplace(info.name, Named{.spec = info.spec, .at = at.at(info.name)});
  }
  out.pair_masters(from);
  TN_TRY(out.allocate(device, stream));
  for (const TrainingGraph::Start& start : from.step.starts) {
    const auto named = out.known_.find(start.param);
    if (named == out.known_.end()) continue;
    const TensorSpec& spec = named->second.spec;
    std::vector<std::byte> bytes(spec.bytes());
    const size_t width = bits(spec.dtype) / 8;
    for (size_t i = 0; i < bytes.size(); i += width) graph::write_element(spec.dtype, start.value, &bytes[i]);
    TN_TRY(out.set(stream, start.param, bytes));
  }
  return out;
}

// A weight that a pass made a half is known by its master; one of the model's own halves, and its master, by themselves.
void Lasting::pair_masters(const Open& from) {
  std::unordered_map<std::string, size_t> at;
  for (size_t i = 0; i < kept_.size(); ++i) at.emplace(kept_[i].name, i);
  for (const passes::Master& master : from.masters) {
    Named& named = known_.at(master.param);
    named.rounded = at.at(master.param);
    named.at = at.at(master.master);
  }
  for (const TrainingGraph::Master& master : from.step.masters) {
    if (!known_.contains(master.param) || !known_.contains(master.master)) continue;
    known_.at(master.param).rounded = at.at(master.master);
    known_.at(master.master).rounded = at.at(master.param);
  }
}

Status Lasting::allocate(Device& device, Stream& stream) {
  for (Kept& kept : kept_) {
    for (uint32_t i = 0; i < (kept.in_turns ? 2 : 1); ++i)
      kept.places[i] = TN_TRY(device.allocate(stream, kept.spec.bytes()));
  }
  return {};
}

Result<const Lasting::Named*> Lasting::find(std::string_view name) const {
  if (const auto found = known_.find(std::string(name)); found != known_.end()) return &found->second;
  std::vector<std::string_view> names;
  for (const Executor::Lasting& known : names_) names.push_back(known.name);
  return Status(TN_NOT_FOUND, "executor: the step has no parameter " + base::quoted(name) +
                                  base::did_you_mean(name, names));
}

Status Lasting::write(Stream& stream, Kept& to, DType from, std::span<const std::byte> bytes) {
  to.begun = true;
  if (from == to.spec.dtype) return stream.upload(now(to), bytes);
  TN_TRY(stream.upload(now(to), converted(from, to.spec.dtype, bytes)));
  return stream.sync();
}

Status Lasting::set(Stream& stream, std::string_view name, std::span<const std::byte> bytes) {
  const Named& named = *TN_TRY(find(name));
  if (bytes.size() != named.spec.bytes())
    return Status(TN_INVALID, "executor: parameter " + base::quoted(name) + " has " +
                                  std::to_string(named.spec.bytes()) + " bytes, it is given " +
                                  std::to_string(bytes.size()));
  TN_TRY(write(stream, kept_[named.at], named.spec.dtype, bytes));
  if (named.rounded != none) TN_TRY(write(stream, kept_[named.rounded], named.spec.dtype, bytes));
  return stream.sync();
}

Result<std::vector<std::byte>> Lasting::get(Stream& stream, std::string_view name) {
  const Named& named = *TN_TRY(find(name));
  const Kept& kept = kept_[named.at];
  std::vector<std::byte> bytes(kept.spec.bytes());
  TN_TRY(stream.download(bytes, now(kept)));
  TN_TRY(stream.sync());
  return kept.spec.dtype == named.spec.dtype ? std::move(bytes)
                                             : converted(kept.spec.dtype, named.spec.dtype, bytes);
}

Result<tn_span> Lasting::place(std::string_view name) const {
  return now(kept_[TN_TRY(find(name))->at]).span();
}

std::vector<std::string> Lasting::not_begun() const {
  std::vector<std::string> out;
  for (const Executor::Lasting& known : names_) {
    if (!kept_[known_.at(known.name).at].begun) out.push_back(known.name);
  }
  return out;
}

Status Lasting::share(Stream& stream, Communicator& comm, uint32_t root) {
  for (Kept& kept : kept_) {
    TN_TRY(comm.broadcast(stream, now(kept), u8, root));
    kept.begun = true;
  }
  return stream.sync();
}

std::vector<Lasting::Tie> Lasting::ties(const Plan& plan) const {
  std::vector<Tie> out;
  for (const Kept& kept : kept_)
    out.push_back({.read = number_of(plan.state(), kept.name),
                   .written = kept.next.empty() ? TN_ABSENT : number_of(plan.state(), kept.next)});
  return out;
}

Status Lasting::agree(const Plan& plan, Device& device, Stream& stream) {
  for (const Graph::ValueInfo& info : plan.graph().values()) {
    if (info.role != Graph::Role::param) continue;
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.name == info.name; });
    if (found == kept_.end() || found->spec.dtype != info.spec.dtype || found->spec.dims != info.spec.dims)
      return Status(TN_INVALID, "executor: parameter " + base::quoted(info.name) +
                                    (found == kept_.end() ? " is none of the full step's"
                                                          : " has another type or shape in the full step"));
  }
  std::vector<std::pair<Kept*, Buffer>> more;
  const std::vector<Tie> tied = ties(plan);
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Kept& kept = kept_[i];
    if (tied[i].written == TN_ABSENT || kept.in_turns || renewed_in_place(plan.state(), kept.name)) continue;
    more.emplace_back(&kept_[i], TN_TRY(device.allocate(stream, kept.spec.bytes())));
  }
  for (auto& [kept, place] : more) {
    kept->places[1] = std::move(place);
    if (turn_ == 1) std::swap(kept->places[0], kept->places[1]);
    kept->in_turns = true;
  }
  return {};
}

void Lasting::bind(std::span<const Tie> ties, std::span<tn_span> bound, uint32_t turn) const {
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Kept& kept = kept_[i];
    if (ties[i].read != TN_ABSENT) bound[ties[i].read] = kept.places[kept.in_turns ? turn : 0];
    if (ties[i].written != TN_ABSENT) bound[ties[i].written] = kept.places[kept.in_turns ? turn ^ 1u : 0];
  }
}

Status Lasting::carry(std::span<const Tie> ties, Stream& stream) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i].in_turns && ties[i].written == TN_ABSENT)
      TN_TRY(stream.copy(kept_[i].places[turn_ ^ 1u], kept_[i].places[turn_]));
  }
  return {};
}

uint64_t Lasting::bytes() const noexcept {
  uint64_t out = 0;
  for (const Kept& kept : kept_) out += kept.places[0].bytes() + kept.places[1].bytes();
  return out;
}

uint64_t Lasting::in_place() const noexcept {
  return static_cast<uint64_t>(std::count_if(
      kept_.begin(), kept_.end(), [](const Kept& kept) { return !kept.next.empty() && !kept.in_turns; }));
}

uint64_t Lasting::in_turns() const noexcept {
  return static_cast<uint64_t>(
      std::count_if(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.in_turns; }));
}

}  // namespace tenon::train
