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

bool renewed_in_place(const Plan& plan, const std::string& param) {
  const auto renewals = plan.renewals();
  return std::any_of(renewals.begin(), renewals.end(),
                     [&](const Plan::Renewal& renewal) { return renewal.param == param; });
}

}  // namespace

Result<Lasting> Lasting::open(const Open& from, Device& device, Stream& stream, const Communicator& comm) {
  Lasting out;
  out.device_ = device;
  out.comm_ = comm;
  out.keep(from);
  for (const Graph::ValueInfo& info : from.step.graph.values()) {
    const auto home = out.home_of_.find(info.name);
    if (info.role != Graph::Role::param || home == out.home_of_.end()) continue;
    out.names_.push_back({info.name, info.spec});
    out.known_.emplace(info.name, Named{.spec = info.spec, .at = home->second});
  }
  out.pair_masters(from);
  TN_TRY(out.allocate(stream));
  for (const TrainingGraph::Start& start : from.step.starts) {
    const auto named = out.known_.find(start.param);
    if (named == out.known_.end()) continue;
    const TensorSpec& spec = named->second.spec;
    std::vector<std::byte> bytes(spec.bytes());
    const size_t width = bits(spec.dtype) / 8;
    for (size_t i = 0; i < bytes.size(); i += width) graph::write_element(spec.dtype, start.value, &bytes[i]);
    TN_TRY(out.set(stream, start.param, bytes));
  }
  out.forget_given();  // all ranks start so
  return out;
}

// The parameters of all plans, each once, and the homes that they are.
void Lasting::keep(const Open& from) {
  std::unordered_map<std::string, std::string> next;  // parameter → output
  for (const Renewed& pair : from.step.renewed) next.emplace(pair.param, pair.output);
  for (const passes::Master& master : from.masters) next.emplace(master.master, master.output);
  std::unordered_map<std::string, size_t> at;
  for (const PieceUpdates::Whole& whole : from.wholes) {
    if (from.elsewhere(whole.name).bytes > 0) continue;
    if (whole.is_cut) {
      add_home(whole.name, whole.spec, false);
    } else {
      at.emplace(whole.name, kept_.size());
      keep(whole.name, whole.spec, nullptr, from);
    }
  }
  std::unordered_map<std::string, const PieceUpdates::Leaf*> leaves;  // by their names
  for (const PieceUpdates::Leaf& leaf : from.leaves) leaves.emplace(leaf.whole + leaf.piece->suffix(), &leaf);
  for (const Plan* plan : from.plans) {
    for (const Graph::ValueInfo& info : plan->graph().values()) {
      if (info.role != Graph::Role::param) continue;
      const auto found = leaves.find(info.name);
      const PieceUpdates::Leaf* const leaf = found == leaves.end() ? nullptr : found->second;
      const auto [known, is_new] = at.emplace(info.name, kept_.size());
      if (is_new) keep(info.name, info.spec, leaf, from);
      const auto output = next.find(leaf != nullptr ? leaf->whole : info.name);
      if (output != next.end())
        renew(kept_[known->second], output->second + (leaf != nullptr ? leaf->piece->suffix() : ""), *plan);
    }
  }
}

void Lasting::keep(const std::string& name, const TensorSpec& spec, const PieceUpdates::Leaf* leaf,
                   const Open& from) {
  const bool is_weights = leaf != nullptr && leaf->whole == leaf->piece->param;
  Kept& kept = kept_.emplace_back(Kept{.name = name, .spec = spec});
  if (is_weights) {  // whose home is the whole
    kept.elsewhere = leaf->piece->place;
    return;
  }
  if (leaf == nullptr && from.elsewhere) kept.elsewhere = from.elsewhere(name);
  const size_t home = leaf != nullptr ? home_of_.at(leaf->whole) : add_home(name, spec, true);
  homes_[home].parts.push_back({kept_.size() - 1, leaf != nullptr ? leaf->piece->first : 0});
}

// By an output of this plan, if it is one.
void Lasting::renew(Kept& kept, const std::string& output, const Plan& plan) {
  if (number_of(plan.state(), output) == TN_ABSENT) return;
  kept.next = output;
  const bool is_in_place = renewed_in_place(plan, kept.name);
  kept.settles = kept.elsewhere.bytes > 0 && !is_in_place;
  kept.in_turns = kept.elsewhere.bytes == 0 && !is_in_place;
}

size_t Lasting::add_home(const std::string& name, const TensorSpec& spec, bool is_whole) {
  home_of_.emplace(name, homes_.size());
  homes_.push_back({.spec = spec, .is_whole = is_whole});
  return homes_.size() - 1;
}

// A weight that a pass made a half is known by its master; one of the model's own halves, and its master, by themselves.
void Lasting::pair_masters(const Open& from) {
  for (const passes::Master& master : from.masters) {
    Named& named = known_.at(master.param);
    named.rounded = home_of_.at(master.param);
    named.at = home_of_.at(master.master);
  }
  for (const TrainingGraph::Master& master : from.step.masters) {
    if (!known_.contains(master.param) || !known_.contains(master.master)) continue;
    known_.at(master.param).rounded = home_of_.at(master.master);
    known_.at(master.master).rounded = home_of_.at(master.param);
  }
}

Status Lasting::allocate(Stream& stream) {
  for (Kept& kept : kept_) {
    const bool is_here = kept.elsewhere.bytes == 0;
    const uint32_t places = is_here ? 1 + (kept.in_turns ? 1 : 0) : kept.settles ? 1 : 0;
    for (uint32_t i = 0; i < places; ++i)
      kept.places[i] = TN_TRY(device_.allocate(stream, kept.spec.bytes()));
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

tn_span Lasting::now(const Kept& kept, uint32_t turn) const noexcept {
  return kept.elsewhere.bytes > 0 ? kept.elsewhere : kept.places[kept.in_turns ? turn : 0].span();
}

Status Lasting::write(Stream& stream, Home& to, DType from, std::span<const std::byte> bytes) {
  to.begun = true;
  if (from == to.spec.dtype) return put(stream, to, bytes);
  return put(stream, to, converted(from, to.spec.dtype, bytes));
}

// All of a tensor, of which this rank may have pieces.
Status Lasting::put(Stream& stream, Home& to, std::span<const std::byte> bytes) {
  const uint64_t width = bits(to.spec.dtype) / 8;
  for (const Part& part : to.parts) {
    const Kept& kept = kept_[part.at];
    TN_TRY(stream.upload(now(kept, turn_), bytes.subspan(part.first * width, kept.spec.bytes())));
  }
  if (!to.is_whole) {
    to.given.assign(bytes.begin(), bytes.end());
    was_given_ = true;
  }
  return stream.sync();
}

Status Lasting::set(Stream& stream, std::string_view name, std::span<const std::byte> bytes) {
  const Named& named = *TN_TRY(find(name));
  if (bytes.size() != named.spec.bytes())
    return Status(TN_INVALID, "executor: parameter " + base::quoted(name) + " has " +
                                  std::to_string(named.spec.bytes()) + " bytes, it is given " +
                                  std::to_string(bytes.size()));
  TN_TRY(write(stream, homes_[named.at], named.spec.dtype, bytes));
  return named.rounded == none ? Status() : write(stream, homes_[named.rounded], named.spec.dtype, bytes);
}

// Pieces come together as a sum: where a rank has none it adds zeros, as bytes, so that every bit pattern stays.
Result<std::vector<std::byte>> Lasting::read(Stream& stream, const Home& home) {
  std::vector<std::byte> bytes(home.spec.bytes());
  Buffer all;
  tn_span from{};
  if (home.is_whole) {
    from = now(kept_[home.parts.front().at], turn_);
  } else {
    all = TN_TRY(device_.allocate(stream, home.spec.bytes()));
    from = all;
    TN_TRY(stream.fill(from));
    const uint64_t width = bits(home.spec.dtype) / 8;
    for (const Part& part : home.parts) {
      const Kept& kept = kept_[part.at];
      TN_TRY(stream.copy(elements_of(from, part.first, kept.spec.elements(), width), now(kept, turn_)));
    }
    TN_TRY(comm_.all_reduce(stream, from, from, u8));
  }
  TN_TRY(stream.download(bytes, from));
  TN_TRY(stream.sync());
  return bytes;
}

Result<std::vector<std::byte>> Lasting::get(Stream& stream, std::string_view name) {
  const Named& named = *TN_TRY(find(name));
  const Home& home = homes_[named.at];
  std::vector<std::byte> bytes = TN_TRY(read(stream, home));
  return home.spec.dtype == named.spec.dtype ? std::move(bytes)
                                             : converted(home.spec.dtype, named.spec.dtype, bytes);
}

Result<tn_span> Lasting::place(std::string_view name) const {
  const Home& home = homes_[TN_TRY(find(name))->at];
  if (home.is_whole) return now(kept_[home.parts.front().at], turn_);
  return Status(TN_INVALID, "executor: " + base::quoted(name) + " is nowhere whole");
}

std::vector<std::string> Lasting::not_begun() const {
  std::vector<std::string> out;
  for (const Executor::Lasting& known : names_) {
    if (!homes_[known_.at(known.name).at].begun) out.push_back(known.name);
  }
  return out;
}

Status Lasting::share(Stream& stream, uint32_t root) {
  for (Home& home : homes_) {
    home.begun = true;
    if (home.is_whole)
      TN_TRY(comm_.broadcast(stream, now(kept_[home.parts.front().at], turn_), home.spec.dtype, root));
  }
  TN_TRY(share_pieces(stream, root));
  return stream.sync();
}

// Which of them root was given, and then the whole of each, of which everybody keeps its own.
Status Lasting::share_pieces(Stream& stream, uint32_t root) {
  std::vector<uint8_t> told;
  for (const Home& home : homes_) told.push_back(home.given.empty() ? 0 : 1);
  if (std::all_of(homes_.begin(), homes_.end(), [](const Home& home) { return home.is_whole; })) return {};
  const Buffer flags = TN_TRY(device_.allocate(stream, told.size()));
  TN_TRY(stream.upload(flags, told));
  TN_TRY(comm_.broadcast(stream, flags, u8, root));
  TN_TRY(stream.download(told, flags));
  TN_TRY(stream.sync());
  for (size_t i = 0; i < homes_.size(); ++i) {
    if (told[i] == 0) continue;
    Home& home = homes_[i];
    const Buffer all = TN_TRY(device_.allocate(stream, home.spec.bytes()));
    if (comm_.rank() == root) TN_TRY(stream.upload(all, home.given));
    TN_TRY(comm_.broadcast(stream, all, home.spec.dtype, root));
    for (const Part& part : home.parts) {
      const Kept& kept = kept_[part.at];
      const uint64_t width = bits(home.spec.dtype) / 8;
      TN_TRY(stream.copy(now(kept, turn_), elements_of(all, part.first, kept.spec.elements(), width)));
    }
    TN_TRY(stream.sync());
  }
  forget_given();
  return {};
}

void Lasting::forget_given() {
  if (!was_given_) return;
  was_given_ = false;
  for (Home& home : homes_) home.given = {};
}

std::vector<Lasting::Tie> Lasting::ties(const Plan& plan) const {
  std::vector<Tie> out;
  for (const Kept& kept : kept_)
    out.push_back({.read = number_of(plan.state(), kept.name),
                   .written = kept.next.empty() ? TN_ABSENT : number_of(plan.state(), kept.next)});
  return out;
}

Status Lasting::agree(const Plan& plan, Stream& stream) {
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
    if (tied[i].written == TN_ABSENT || kept.in_turns || renewed_in_place(plan, kept.name)) continue;
    more.emplace_back(&kept_[i], TN_TRY(device_.allocate(stream, kept.spec.bytes())));
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
    if (ties[i].read != TN_ABSENT) bound[ties[i].read] = now(kept, turn);
    if (ties[i].written != TN_ABSENT)
      bound[ties[i].written] = kept.settles ? kept.places[0].span() : now(kept, turn ^ 1u);
  }
}

Timeline::Work Lasting::copy_of(const Kept& kept) {
  return {.kind = TraceKind::copy, .name = kept.name, .bytes = kept.spec.bytes()};
}

Status Lasting::carry(std::span<const Tie> ties, Stream& stream, Timeline& timeline) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Kept& kept = kept_[i];
    if (kept.in_turns && ties[i].written == TN_ABSENT)
      TN_TRY(timeline.measure(stream, copy_of(kept),
                              [&] { return stream.copy(kept.places[turn_ ^ 1u], kept.places[turn_]); }));
  }
  return {};
}

Status Lasting::settle(Stream& stream, Timeline& timeline) {
  for (const Kept& kept : kept_) {
    if (!kept.settles) continue;
    TN_TRY(
        timeline.measure(stream, copy_of(kept), [&] { return stream.copy(kept.elsewhere, kept.places[0]); }));
  }
  return {};
}

void Lasting::renewed() {
  turn_ ^= 1u;
  forget_given();
}

uint64_t Lasting::bytes() const noexcept {
  uint64_t out = 0;
  for (const Kept& kept : kept_) out += kept.places[0].bytes() + kept.places[1].bytes();
  return out;
}

uint64_t Lasting::in_place() const noexcept {
  return static_cast<uint64_t>(std::count_if(kept_.begin(), kept_.end(), [](const Kept& kept) {
    return !kept.next.empty() && !kept.in_turns && !kept.settles;
  }));
}

uint64_t Lasting::in_turns() const noexcept {
  return static_cast<uint64_t>(
      std::count_if(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.in_turns; }));
}

}  // namespace tenon::train
