// SPDX-License-Identifier: Apache-2.0
// order_check.cpp: see order_check.hpp.
//
// A circle is looked for among moments: a group begins, a group ends, a collective has begun on all ranks. Each needs others first.
// Moments that need each other in a circle never come.
#include "comm/order_check.hpp"

#include "comm/words.hpp"

#include <tenon/comm.h>

#include <algorithm>
#include <compare>
#include <optional>
#include <set>
#include <vector>

namespace tenon::comm {
namespace {

constexpr const char* one_order = "all ranks must submit the same in the same order";

const Standing::Group* find_group(const Standing& standing, uint64_t number) {
  const auto found = std::ranges::find(standing.last, number, &Standing::Group::number);
  return found == standing.last.end() ? nullptr : &*found;
}

// The collectives of a group in one order, as inside of a group there is none.
std::vector<std::string> collectives(const Standing::Group& group) {
  std::vector<std::string> out;
  for (const Standing::Operation& op : group.operations)
    if (!is_message(op.kind)) out.push_back(words(op));
  std::ranges::sort(out);
  return out;
}

std::string collectives_in_words(const Standing::Group& group) {
  Standing::Group only = group;
  std::erase_if(only.operations, [](const Standing::Operation& op) { return is_message(op.kind); });
  return words(only);
}

struct Moment {
  enum class What : uint32_t {
    begins,
    ends,
    all_begun
  };  // `all_begun`: `group` counts collectives, and `rank` is 0
  What what = What::ends;
  size_t assembly = 0;
  uint32_t rank = 0;
  uint64_t group = 0;
  auto operator<=>(const Moment&) const = default;
};

class Search {
 public:
  explicit Search(std::span<const Assembly> assemblies) : all_(assemblies) {}

  // From the end of every group of the first assembly; the circle, or nothing.
  std::vector<Moment> circle() {
    for (const auto& [rank, standing] : all_[0].ranks)
      for (const Standing::Group& group : standing.last)
        if (auto found = from({Moment::What::ends, 0, rank, group.number}); !found.empty()) return found;
    return {};
  }

 private:
  struct Step {
    Moment moment{};
    std::vector<Moment> needs{};
    size_t next = 0;
  };

  // Depth first, without recursion: there may be as many moments as ranks have groups.
  std::vector<Moment> from(const Moment& start) {
    if (!seen_.insert(start).second) return {};
    path_.assign(1, {start, needs(start)});
    open_ = {start};
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next == step.needs.size()) {
        open_.erase(step.moment);
        path_.pop_back();
        continue;
      }
      const Moment next = step.needs[step.next++];
      if (open_.contains(next)) return closed_by(next);
      if (!seen_.insert(next).second) continue;
      open_.insert(next);
      path_.push_back({next, needs(next)});
    }
    return {};
  }

  std::vector<Moment> closed_by(const Moment& first) const {
    auto at = std::ranges::find(path_, first, &Step::moment);
    std::vector<Moment> out;
    for (; at != path_.end(); ++at) out.push_back(at->moment);
    return out;
  }

  const Standing* said(size_t assembly, uint32_t rank) const {
    const auto found = all_[assembly].ranks.find(rank);
    return found == all_[assembly].ranks.end() ? nullptr : &found->second;
  }

  std::vector<Moment> needs(const Moment& moment) const {
    std::vector<Moment> out;
    if (moment.what == Moment::What::all_begun) {
      for (const auto& [rank, standing] : all_[moment.assembly].ranks) {
        if (const auto begin = collective_of(moment.assembly, rank, moment.group)) out.push_back(*begin);
      }
      return out;
    }
    const Standing& standing = *said(moment.assembly, moment.rank);
    if (moment.what == Moment::What::begins) {
      before(moment, standing, out);
      return out;
    }
    out.push_back({Moment::What::begins, moment.assembly, moment.rank, moment.group});
    if (const Standing::Group* group = find_group(standing, moment.group)) {
      for (const Standing::Operation& op : group->operations) add_others(moment, *group, op, out);
    }
    return out;
  }

  // The group before it, and what it comes behind in other communicators.
  void before(const Moment& moment, const Standing& standing, std::vector<Moment>& out) const {
    if (moment.group > 1 && find_group(standing, moment.group - 1) != nullptr)
      out.push_back({Moment::What::ends, moment.assembly, moment.rank, moment.group - 1});
    for (const Standing::Behind& behind : standing.behind) {
      if (behind.group > moment.group) continue;
      const auto other = std::ranges::find(all_, behind.key, &Assembly::key);
      if (other == all_.end()) continue;
      const auto assembly = static_cast<size_t>(other - all_.begin());
      const Standing* there = said(assembly, behind.rank);
      if (there != nullptr && find_group(*there, behind.other) != nullptr)
        out.push_back({Moment::What::ends, assembly, behind.rank, behind.other});
    }
  }

  // Whom an operation waits for. What moves nothing waits for nobody; nor does who only gives, as a plugin may keep it.
  void add_others(const Moment& moment, const Standing::Group& group, const Standing::Operation& op,
                  std::vector<Moment>& out) const {
    const auto peer = static_cast<uint32_t>(op.peer);
    const auto add = [&](const std::optional<Moment>& other) {
      if (other) out.push_back(*other);
    };
    if (op.kind != TN_COMM_BARRIER && op.count == 0) return;
    switch (op.kind) {
      case TN_COMM_SEND:
        return;
      case TN_COMM_RECV:
        return add(send_of(moment.assembly, peer, moment.rank, op.turn));
      case TN_COMM_BROADCAST:
        if (peer != moment.rank) add(collective_of(moment.assembly, peer, group.collective));
        return;
      case TN_COMM_REDUCE:
        if (peer != moment.rank) return;
        [[fallthrough]];
      default:
        out.push_back({Moment::What::all_begun, moment.assembly, 0, group.collective});
    }
  }

  // Where `rank` begins its collective of that number; none: that is not known.
  std::optional<Moment> collective_of(size_t assembly, uint32_t rank, uint64_t number) const {
    const Standing* standing = said(assembly, rank);
    if (standing == nullptr) return std::nullopt;
    if (number > standing->collectives)
      return Moment{Moment::What::begins, assembly, rank, standing->groups + 1};
    const auto found = std::ranges::find(standing->last, number, &Standing::Group::collective);
    if (found == standing->last.end()) return std::nullopt;
    return Moment{Moment::What::begins, assembly, rank, found->number};
  }

  // The same of its message `turn` to `to`.
  std::optional<Moment> send_of(size_t assembly, uint32_t rank, uint32_t to, uint64_t turn) const {
    const Standing* standing = said(assembly, rank);
    if (standing == nullptr || !standing->counted || turn == 0 || to >= standing->sent.size())
      return std::nullopt;
    if (turn > standing->sent[to]) return Moment{Moment::What::begins, assembly, rank, standing->groups + 1};
    for (const Standing::Group& group : standing->last)
      for (const Standing::Operation& op : group.operations)
        if (op.kind == TN_COMM_SEND && op.peer == static_cast<int32_t>(to) && op.turn == turn)
          return Moment{Moment::What::begins, assembly, rank, group.number};
    return std::nullopt;
  }

  const std::span<const Assembly> all_;
  std::set<Moment> seen_{}, open_{};
  std::vector<Step> path_{};
};

// Who waits for whom: each group of the circle whose end needs another rank.
std::string told(std::span<const Assembly> all, const std::vector<Moment>& circle) {
  const bool several =
      std::ranges::any_of(circle, [&](const Moment& m) { return m.assembly != circle[0].assembly; });
  std::string out;
  for (size_t i = 0; i < circle.size(); ++i) {
    const Moment& at = circle[i];
    const auto after = [&](size_t steps) { return circle[(i + steps) % circle.size()]; };
    if (at.what != Moment::What::ends) continue;
    const Moment next = after(1).what == Moment::What::all_begun ? after(2) : after(1);
    if (next.what != Moment::What::begins || (next.rank == at.rank && next.assembly == at.assembly)) continue;
    const Assembly& assembly = all[at.assembly];
    out += (out.empty() ? "rank " : ", rank ") + std::to_string(at.rank) + " waits for rank " +
           std::to_string(next.rank) + " in group " + std::to_string(at.group) +
           (several ? " of '" + assembly.name + "'" : "") + " (" +
           words(*find_group(assembly.ranks.at(at.rank), at.group)) + ")";
  }
  return out;
}

}  // namespace

std::string difference(const Assembly& assembly) {
  struct First {
    uint32_t rank = 0;
    const Standing::Group* group = nullptr;
  };
  std::map<uint64_t, First> firsts;
  for (const auto& [rank, standing] : assembly.ranks) {
    for (const Standing::Group& group : standing.last) {
      if (group.collective == 0) continue;
      const auto [first, fresh] = firsts.try_emplace(group.collective, First{rank, &group});
      if (fresh || collectives(*first->second.group) == collectives(group)) continue;
      return "in group " + std::to_string(group.collective) + " of collectives rank " +
             std::to_string(first->second.rank) + " has " + collectives_in_words(*first->second.group) +
             ", rank " + std::to_string(rank) + " has " + collectives_in_words(group) + ": " + one_order;
    }
  }
  return {};
}

Circle circle(std::span<const Assembly> assemblies) {
  if (assemblies.empty()) return {};
  const std::vector<Moment> found = Search(assemblies).circle();
  if (found.empty()) return {};
  Circle out{.words = told(assemblies, found) + ", so none of them ever goes on: " + one_order};
  for (const Moment& moment : found)
    if (std::ranges::count(out.assemblies, moment.assembly) == 0) out.assemblies.push_back(moment.assembly);
  return out;
}

}  // namespace tenon::comm
