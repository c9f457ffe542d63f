// SPDX-License-Identifier: Apache-2.0
// comm_plan.cpp: a finished plan: what it holds, its hash, and how two of them differ.
//
// Invariant: what the hash covers is what first_difference looks at, so equal hashes have no difference to tell.
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "overlap/state.hpp"
#include "overlap/timing.hpp"
#include "overlap/words.hpp"

#include <algorithm>
#include <set>

namespace tenon {
namespace {

using State = CommPlan::State;

constexpr std::string_view routes[] = {"flat", "leaders", "sharded"};

std::string_view at(std::span<const std::string_view> names, size_t i) {
  return i < names.size() ? names[i] : "?";
}

const State& empty_state() {
  static const State empty;
  return empty;
}

// Bytes of numbers and names, each told apart from its neighbours.
class Digest {
 public:
  Digest& operator<<(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) text_ += static_cast<char>(number >> shift & 0xff);
    return *this;
  }
  Digest& operator<<(std::string_view name) {
    *this << uint64_t{name.size()};
    text_ += name;
    return *this;
  }
  uint64_t finish() const {
    const base::Digest digest = base::sha256(text_);
    uint64_t out = 0;
    for (size_t i = 0; i < sizeof out; ++i) out = out << 8 | digest[i];
    return out;
  }

 private:
  std::string text_{};
};

// One after the other, each with what it is called: the places in which plans can differ.
template <class Use>
void for_bucket(const Bucket& bucket, Use&& use) {
  use("its stream", bucket.stream);
  use("its route", static_cast<uint64_t>(bucket.route));
  use("its count of members", bucket.members.size());
  use("its count of operations", bucket.views.size());
  for (const BucketMember& member : bucket.members) {
    use("the place in the list of a member", member.gradient);
    use("the offset of a member", member.offset);
    use("the first byte of a member", member.first);
    use("the bytes of a member", member.bytes);
  }
  for (const BucketView& view : bucket.views) {
    use("the element type of an operation", static_cast<uint64_t>(view.dtype));
    use("the offset of an operation", view.offset);
    use("the bytes of an operation", view.bytes);
    use("the sharding of an operation", view.whole ? 0u : 1u);
  }
}

template <class Use>
void for_head(const State& state, Use&& use) {
  use("the count of ranks", state.ranks);
  use("the ranks of a group", state.ranks_per_group);
  use("the alignment", state.alignment);
  use("the count of streams", state.streams);
  use("sharded mode", state.options.sharded ? 1u : 0u);
  use("waiting for each collective", state.options.sync_nccl_allreduce ? 1u : 0u);
  use("the count of gradients", state.step.gradients.size());
  use("the count of buckets", state.buckets.size());
  use("the bytes of the arena", state.arena.bytes);
  use("the offset of the tail", state.tail.offset);
}

using Figures = std::vector<std::pair<const char*, uint64_t>>;

std::string first_of(const Figures& mine, const Figures& theirs) {
  for (size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
    if (mine[i].second != theirs[i].second)
      return std::string(mine[i].first) + ": " + std::to_string(mine[i].second) + " here, " +
             std::to_string(theirs[i].second) + " there";
  }
  return "";
}

Figures figures_of(const Bucket& bucket) {
  Figures out;
  for_bucket(bucket, [&](const char* what, uint64_t number) { out.emplace_back(what, number); });
  return out;
}

std::string told(const Gradient& gradient) {
  std::string out = base::quoted(gradient.name) + ", " + std::string(name(gradient.dtype)) + ", " +
                    std::to_string(gradient.elements) + (gradient.sparse ? " elements, sparse" : " elements");
  if (gradient.row_elements != 0 || gradient.most_rows != 0)
    out += ", at most " + std::to_string(gradient.most_rows) + " rows of " +
           std::to_string(gradient.row_elements);
  return out;
}

}  // namespace

namespace overlap {

void seal(State& state) {
  Digest digest;
  for_head(state, [&](const char*, uint64_t number) { digest << number; });
  for (const Gradient& gradient : state.step.gradients)
    digest << gradient.name << static_cast<uint64_t>(gradient.dtype) << gradient.elements
           << uint64_t{gradient.sparse} << gradient.row_elements << gradient.most_rows;
  for (const Bucket& bucket : state.buckets)
    for_bucket(bucket, [&](const char*, uint64_t number) { digest << number; });
  for (const uint32_t i : state.gathers) digest << uint64_t{i};
  state.hash = digest.finish();
}

}  // namespace overlap

std::string_view name(Route route) noexcept { return at(routes, static_cast<size_t>(route)); }

std::string CommPlan::terms() const {
  const State& state = state_ ? *state_ : empty_state();
  std::string out;
  for (size_t i = 0; i < state.step.gradients.size(); ++i)
    out += "gradient " + std::to_string(i) + " " + told(state.step.gradients[i]) + "\n";
  const auto line = [&out](const std::string& where) {
    return [&out, where](const char* what, uint64_t number) {
      out += where + what + " " + std::to_string(number) + "\n";
    };
  };
  for_head(state, line(""));
  for (size_t i = 0; i < state.buckets.size(); ++i)
    for_bucket(state.buckets[i], line("bucket " + std::to_string(i) + ": "));
  for (const uint32_t i : state.gathers) out += "gather of bucket " + std::to_string(i) + "\n";
  return out;
}

std::string CommPlan::first_difference(const CommPlan& other) const {
  const State &mine = state_ ? *state_ : empty_state(),
              &theirs = other.state_ ? *other.state_ : empty_state();
  for (size_t i = 0; i < std::min(mine.step.gradients.size(), theirs.step.gradients.size()); ++i) {
    const Gradient &here = mine.step.gradients[i], &there = theirs.step.gradients[i];
    if (here.name != there.name || here.dtype != there.dtype || here.elements != there.elements ||
        here.sparse != there.sparse || here.row_elements != there.row_elements ||
        here.most_rows != there.most_rows)
      return "gradient " + std::to_string(i) + ": " + told(here) + " here, " + told(there) + " there";
  }
  Figures here, there;
  for_head(mine, [&](const char* what, uint64_t number) { here.emplace_back(what, number); });
  for_head(theirs, [&](const char* what, uint64_t number) { there.emplace_back(what, number); });
  const std::string head = first_of(here, there);
  if (!head.empty()) return head;
  for (size_t i = 0; i < mine.buckets.size(); ++i) {
    const std::string found = first_of(figures_of(mine.buckets[i]), figures_of(theirs.buckets[i]));
    if (found.empty()) continue;
    return "bucket " + std::to_string(i) + " (" + overlap::called(mine.buckets[i], mine.step) + " here, " +
           overlap::called(theirs.buckets[i], theirs.step) + " there): " + found;
  }
  for (size_t i = 0; i < std::min(mine.gathers.size(), theirs.gathers.size()); ++i) {
    if (mine.gathers[i] != theirs.gathers[i])
      return "gather " + std::to_string(i) + ": bucket " + std::to_string(mine.gathers[i]) +
             " here, bucket " + std::to_string(theirs.gathers[i]) + " there";
  }
  return "";
}

std::string CommPlan::diff(const CommPlan& other) const {
  const auto lines = [](const CommPlan& plan) {
    std::vector<std::string> out;
    for (const Bucket& bucket : plan.buckets())
      out.push_back(overlap::called(bucket, plan.step()) + ", " + base::bytes_in_words(bucket.bytes) +
                    ", stream " + std::to_string(bucket.stream) + ", " + std::string(name(bucket.route)));
    return out;
  };
  const std::vector<std::string> mine = lines(*this), theirs = lines(other);
  const std::multiset<std::string> here(mine.begin(), mine.end()), there(theirs.begin(), theirs.end());
  std::string out;
  for (const std::string& line : mine) out += there.contains(line) ? "" : "- " + line + "\n";
  for (const std::string& line : theirs) out += here.contains(line) ? "" : "+ " + line + "\n";
  if (!out.empty() || predicted().step_ns != other.predicted().step_ns)
    out += "  step " + base::time_in_words(predicted().step_ns) + " → " +
           base::time_in_words(other.predicted().step_ns) + ", exposed " +
           base::time_in_words(predicted().exposed_ns) + " → " +
           base::time_in_words(other.predicted().exposed_ns) + "\n";
  return out;
}

std::span<const Bucket> CommPlan::buckets() const noexcept {
  return state_ ? state_->buckets : empty_state().buckets;
}
std::span<const uint32_t> CommPlan::gathers() const noexcept {
  return state_ ? state_->gathers : empty_state().gathers;
}
const Arena& CommPlan::arena() const noexcept { return (state_ ? *state_ : empty_state()).arena; }
const CommTail& CommPlan::tail() const noexcept { return (state_ ? *state_ : empty_state()).tail; }
const CommPrediction& CommPlan::predicted() const noexcept {
  return (state_ ? *state_ : empty_state()).prediction;
}
const StepProfile& CommPlan::step() const noexcept { return (state_ ? *state_ : empty_state()).step; }
const OverlapOptions& CommPlan::options() const noexcept {
  return (state_ ? *state_ : empty_state()).options;
}
std::span<const CommPlan::Note> CommPlan::notes() const noexcept {
  return state_ ? state_->notes : empty_state().notes;
}
uint32_t CommPlan::streams() const noexcept { return (state_ ? *state_ : empty_state()).streams; }
uint32_t CommPlan::ranks() const noexcept { return (state_ ? *state_ : empty_state()).ranks; }
std::string CommPlan::gate() const { return overlap::gate_of(step()); }
uint64_t CommPlan::hash() const noexcept { return state_ ? state_->hash : 0; }

}  // namespace tenon
