// SPDX-License-Identifier: Apache-2.0
// scheduler.hpp: one run of `fuse`: what must be first, then patterns by their gain, optimizers, and grown groups.
//
// Invariant: a node that a rule took is never given to another; every candidate that is not taken leaves one refusal.
#pragma once

#include "fusion/contraction.hpp"
#include "fusion/judge.hpp"
#include "fusion/match.hpp"

#include <initializer_list>
#include <map>
#include <span>

namespace tenon::fusion {

class Scheduler {
 public:
  Scheduler(const Graph& graph, const FusionTarget& target, const FusionOptions& options);

  // [one thread, once; may fail]
  Result<FusionCut> run();

 private:
  enum class Node : uint8_t { free, taken, alone, dropped };
  struct Candidate {
    std::vector<uint32_t> nodes;  // ascending
    std::string rule;
    Opinion opinion;
  };
  // What is known of a grown group.
  struct Space {
    std::vector<int64_t> dims{};  // of its widest value, leading ones left out
    uint64_t elements = 0;
    std::vector<int64_t> axes{};  // of its reductions
    uint32_t reduction = TN_ABSENT;
  };

  // scheduler.cpp
  void drop_unneeded();
  void refuse(std::vector<uint32_t> nodes, std::string rule, std::string reason, double gain_ns = 0);
  // Takes the nodes as one group, where they are not part of one already; or leaves a refusal.
  bool take(const Candidate& candidate);
  bool contained(const Candidate& candidate) const;
  // Why the nodes cannot be one group as far as names and other groups go; "" when they can.
  std::string claimed(const Candidate& candidate) const;
  std::string path_in_words(const Contraction::Outcome& outcome) const;
  FusionGroup group_of(std::vector<uint32_t> nodes, std::string rule, const Opinion& opinion) const;
  Result<FusionCut> finish();

  // options.cpp
  Status read_options();
  bool is_off(std::string_view rule) const;
  Result<Candidate> must_candidate(const std::vector<std::string>& words) const;
  Status take_must();
  Status take_whole_graph();
  Status refuse_to_part();

  // candidates.cpp
  Status take_patterns();
  Status find(const FusionPattern& pattern, const Variant& variant, std::vector<bool>& found,
              std::vector<Candidate>& out);
  Status consider(std::vector<uint32_t> nodes, const std::string& rule, std::vector<Candidate>& out);
  Result<bool> take_updates_with(const std::vector<uint32_t>& updates,
                                 std::initializer_list<std::span<const uint32_t>> beside);
  Status take_optimizers();
  void refuse_left_alone(const std::vector<uint32_t>& alone);

  // arrival.cpp
  std::vector<uint32_t> arrivals() const;
  std::vector<std::vector<uint32_t>> by_arrival(std::vector<uint32_t> updates);

  // grow.cpp
  void grow();
  void try_join(uint32_t producer, uint32_t consumer);
  bool may_grow(uint32_t node) const;
  void leave_alone(uint32_t producer, uint32_t consumer);
  std::string why_apart(uint32_t producer, uint32_t consumer);
  std::string why_other_space(uint32_t a, uint32_t b, uint32_t consumer);
  Space space_of(uint32_t node) const;
  Status settle();
  Status settle(uint32_t group);
  Result<size_t> longest_prefix(std::span<const uint32_t> nodes);

  const Graph& graph_;
  const FusionTarget& target_;
  const FusionOptions& options_;
  Contraction contraction_;
  Judge judge_;
  std::vector<bool> is_output_;               // per value
  std::vector<Node> state_;                   // per node
  std::vector<std::string> rule_;             // per group that a rule took
  std::vector<Space> spaces_;                 // per group that is grown
  std::vector<std::vector<uint32_t>> by_op_;  // nodes, by the op's number
  std::vector<FusionRefusal> refusals_;
  std::vector<bool>
      left_alone_;  // per node: whether a refusal of a grown group says that never_fuse names it
  std::map<std::pair<uint32_t, uint32_t>, std::string>
      apart_;  // edges over which groups did not join, and why
};

// Nodes that are computed element by element, those that reduce, and the rest.
enum class Kind : uint8_t { other, elementwise, reduction };
Kind kind_of(Op op) noexcept;

}  // namespace tenon::fusion
