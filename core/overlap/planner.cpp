// SPDX-License-Identifier: Apache-2.0
// planner.cpp: drafts of plans, the best of which is taken.
//
// A draft is a cut of a row, an order of launches and a stream for each bucket; its time is simulated. Mode automatic draws
// one for each number of streams and size of pieces, with the exact cut of exact.hpp for the cost that so many streams have.
#include "overlap/arena.hpp"
#include "overlap/checks.hpp"
#include "overlap/exact.hpp"
#include "overlap/rules.hpp"
#include "overlap/state.hpp"
#include "overlap/timing.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>

namespace tenon {
namespace overlap {
namespace {

constexpr uint64_t mib = 1 << 20;
constexpr double spare = 0.1;  // of a joined bucket's time that a slower network may take
constexpr double never_joined = -1;
// Of a step: less is no reason for more streams, buckets or pieces. Where computing and bytes are in each other's way, predictions are
// off by more.
constexpr double least_gain = 0.001, disturbed_gain = 0.02;
constexpr double small_latency = 0.05;  // of a piece's time

struct Draft {
  const std::vector<Piece>* row = nullptr;
  Cuts cuts{};
  std::vector<uint32_t> order{};  // of launches: positions in cuts
  std::vector<Load> loads{};      // in that order
  Sending sending{};
  Timing timing{};
};

// The cost that a collective has when `streams` of them take turns in waiting out their latencies, of which each is longer
// by `delay`.
CostTable cost_among(const CostTable& cost, uint32_t streams, double flows, double delay) {
  if (streams == 1 && delay == 0) return cost;
  const double faster = std::max(1.0, std::min<double>(streams, flows));
  const double latency = cost.latency_ns();
  std::vector<CostTable::Point> points(cost.points().begin(), cost.points().end());
  points.push_back(
      {points.back().bytes + mib, points.back().ns + cost.last_slope() * static_cast<double>(mib)});
  for (CostTable::Point& point : points)
    point.ns = (latency + delay) / streams + (point.ns - latency) / faster;
  auto scaled = CostTable::measured(std::move(points));
  return scaled.ok() ? std::move(scaled).take() : cost;
}

// Nanoseconds a byte takes at least, latency left out, whatever the size.
double least_rate(const CostTable& cost) {
  double least = cost.last_slope();
  for (const CostTable::Point& point : cost.points()) {
    if (point.bytes > 0)
      least = std::min(least, (point.ns - cost.latency_ns()) / static_cast<double>(point.bytes));
  }
  return least;
}

// A size at which the latency and `delay` are a small part of the time, in whole MiB; 0: there is none.
uint64_t paying_piece(const CostTable& cost, double delay) {
  const double latency = cost.latency_ns() + delay;
  if (cost.last_slope() <= 0 || latency <= 0) return 0;
  const double bytes = latency * (1 / small_latency - 1) / cost.last_slope();
  return bytes > 1e15 ? 0 : std::max<uint64_t>(rounded_up(static_cast<uint64_t>(bytes), mib), mib);
}

std::vector<Load> loads_of(const std::vector<Piece>& row, const Cuts& cuts) {
  std::vector<Load> out;
  uint32_t i = 0;
  for (const uint32_t end : cuts) {
    Load load{.needed = row[i].needed, .parameter = row[i].gradient};
    for (; i < end; ++i) {
      load.ready = std::max(load.ready, row[i].ready);
      load.needed = std::min(load.needed, row[i].needed);
      load.parameter = std::min(load.parameter, row[i].gradient);
      load.bytes += row[i].slot;
    }
    out.push_back(load);
  }
  if (out.empty()) out.push_back({});  // for the tail alone
  return out;
}

// Whenever a stream is free: of the buckets that are ready the one that the next forward needs first.
std::vector<uint32_t> by_need(const std::vector<Load>& loads, const CostTable& cost, uint32_t streams) {
  std::vector<uint32_t> arriving(loads.size()), out;
  std::iota(arriving.begin(), arriving.end(), 0u);
  std::stable_sort(arriving.begin(), arriving.end(),
                   [&](uint32_t a, uint32_t b) { return loads[a].ready < loads[b].ready; });
  const auto later = [&](uint32_t a, uint32_t b) { return loads[b].read_before(loads[a]); };
  std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(later)> waiting(later);
  std::vector<double> free(streams, 0.0);
  for (size_t next = 0; out.size() < loads.size();) {
    double& soonest = *std::min_element(free.begin(), free.end());
    if (waiting.empty()) soonest = std::max(soonest, loads[arriving[next]].ready);
    for (; next < arriving.size() && loads[arriving[next]].ready <= soonest; ++next)
      waiting.push(arriving[next]);
    out.push_back(waiting.top());
    waiting.pop();
    soonest += cost.ns(loads[out.back()].bytes);
  }
  return out;
}

// In turn, or to the stream that is free first.
void give_streams(std::vector<Load>& loads, const CostTable& cost, uint32_t streams, bool in_turn) {
  std::vector<double> free(streams, 0.0);
  for (size_t i = 0; i < loads.size(); ++i) {
    const auto soonest = static_cast<size_t>(std::min_element(free.begin(), free.end()) - free.begin());
    const size_t stream = in_turn ? i % streams : soonest;
    loads[i].stream = static_cast<uint32_t>(stream);
    free[stream] = std::max(free[stream], loads[i].ready) + cost.ns(loads[i].bytes);
  }
}

// Bytes of gradients that would have to be brought to where their bucket is sent from.
uint64_t outside_views(const std::vector<Bucket>& buckets) {
  uint64_t out = 0;
  for (const Bucket& bucket : buckets) {
    for (const BucketMember& member : bucket.members) {
      const bool inside = std::any_of(bucket.views.begin(), bucket.views.end(), [&](const BucketView& view) {
        return view.offset <= member.offset && member.offset + member.bytes <= view.offset + view.bytes;
      });
      if (!inside) out += member.bytes;
    }
  }
  return out;
}

class Planner {
 public:
  Planner(const StepProfile& step, const CommTarget& target, const OverlapOptions& options)
      : step_(step),
        target_(target),
        options_(options),
        costs_(target, options),
        tail_(tail_for(target.ranks, static_cast<uint32_t>(step.gradients.size()))) {
    for (const Gradient& gradient : step.gradients) latest_ = std::max(latest_, gradient.ready_ns);
  }

  CommPlan::State run() { return finished(options_.mode == BucketRule::automatic ? best() : by_rule()); }

 private:
  const std::vector<Piece>& row(Along along, uint64_t partition) {
    return rows_.emplace_back(sequence_of(step_, along, target_.alignment, partition));
  }

  // For pieces that are ready when computing has come so far, each of which waits for `delay` before it moves.
  Cuts exact(const std::vector<Piece>& row, uint32_t streams, double reserve, const Progress& computing = {},
             double delay = 0) const {
    std::vector<double> ready;
    std::vector<uint64_t> sums{0};
    for (const Piece& piece : row) {
      ready.push_back(computing.clock(piece.ready));
      sums.push_back(sums.back() + piece.slot);
    }
    if (!options_.sharded) sums.back() += tail_.bytes;
    const Limits limits{.bytes = options_.fuse_grad_size_in_mb * mib, .count = options_.fuse_grad_max_layers};
    const CostTable cost = cost_among(costs_.before_update(), streams, target_.flows, delay);
    return exact_cuts(ready, sums, cost, limits, reserve).cuts;
  }

  // Sizes into which larger gradients may be cut; 0: none is.
  std::vector<uint64_t> partitions() const {
    if (options_.sharded) return {0};
    if (options_.partition_mb != 0) return {options_.partition_mb * mib};
    const uint64_t size = paying_piece(costs_.before_update(), target_.contention.delay_ns);
    const bool worth =
        size != 0 && std::any_of(step_.gradients.begin(), step_.gradients.end(), [&](const Gradient& g) {
          return !g.sparse && bytes(g.dtype, g.elements) >= 2 * size;
        });
    return worth ? std::vector<uint64_t>{0, size} : std::vector<uint64_t>{0};
  }

  Draft best() {
    const uint32_t asked = options_.nccl_comm_num;
    const uint32_t most = options_.sync_nccl_allreduce ? 1 : target_.max_streams;
    Draft best;
    const auto consider = [&](Draft draft) {
      const double gain = best.timing.prediction.step_ns - draft.timing.prediction.step_ns;
      const bool simpler = draft.sending.streams <= best.sending.streams && draft.row == best.row &&
                           draft.cuts.size() <= best.cuts.size();
      const double needed = simpler ? 0 : worth_it() * best.timing.prediction.step_ns;
      if (best.row == nullptr || gain > needed) best = std::move(draft);
    };
    for (const uint64_t partition : partitions()) {
      if (best.row != nullptr && nothing_to_gain(best)) break;
      const std::vector<Piece>& pieces = row(Along::arrival, partition);
      for (uint32_t n = asked != 0 ? asked : 1; n <= (asked != 0 ? asked : most); ++n) {
        if (best.row != nullptr && nothing_to_gain(best)) break;
        drafts(pieces, exact(pieces, n, spare), n, consider);
        if (target_.contention)  // gradients come later than alone: as late as by the best so far
          drafts(pieces, exact(pieces, n, spare, best.timing.progress), n, consider);
        if (const double delay = target_.contention.delay_ns; delay > 0)
          drafts(pieces, exact(pieces, n, spare, best.timing.progress, delay), n, consider);
        // Many small buckets serve what one end does not show: several streams at once, parameters that come early.
        if (early() || options_.sharded) drafts(pieces, exact(pieces, n, never_joined), n, consider);
        if (early() || options_.sharded || n > 1) drafts(pieces, small_buckets(pieces), n, consider);
      }
    }
    return best;
  }

  // Whether all bytes at the link's best rate, from when the first are ready, would not end sooner by what is worth it.
  bool nothing_to_gain(const Draft& best) const {
    if (early() || options_.sharded) return false;  // there the end is not what counts
    double bytes = 0, first = latest_;
    for (const Load& load : best.loads) bytes += static_cast<double>(load.bytes);
    for (const Piece& piece : *best.row) first = std::min(first, piece.ready);
    const double moving = bytes * least_rate(costs_.before_update());
    const double least = std::max(first + moving / std::max(1.0, target_.flows),
                                  backward_of(step_) + moving * target_.contention.occupies);
    const double gain = best.timing.prediction.end_ns - least;
    return gain <= worth_it() * best.timing.prediction.step_ns;
  }

  double worth_it() const { return target_.contention ? disturbed_gain : least_gain; }

  // As small as latencies allow, within the limits.
  Cuts small_buckets(const std::vector<Piece>& pieces) const {
    const uint64_t most = options_.fuse_grad_size_in_mb * mib;
    const uint64_t floor = paying_piece(costs_.before_update(), target_.contention.delay_ns);
    Cuts cuts;
    uint64_t held = 0;
    for (uint32_t i = 0, begin = 0; i < pieces.size(); ++i) {
      const bool full = (most != 0 && held + pieces[i].slot > most) ||
                        (options_.fuse_grad_max_layers != 0 && i - begin == options_.fuse_grad_max_layers);
      if (i > begin && (full || held >= floor)) {
        cuts.push_back(i);
        begin = i;
        held = 0;
      }
      held += pieces[i].slot;
    }
    if (!pieces.empty()) cuts.push_back(static_cast<uint32_t>(pieces.size()));
    return cuts;
  }

  Draft by_rule() {
    const bool layers = options_.mode == BucketRule::documents;
    const std::vector<Piece>& pieces = row(layers ? Along::layers : Along::arrival, 0);
    return draft(pieces, cuts_by_rule(pieces), std::max(options_.nccl_comm_num, 1u), false);
  }

  Cuts cuts_by_rule(const std::vector<Piece>& pieces) const {
    switch (options_.mode) {
      case BucketRule::documents:
        return groups_of_layers(pieces, step_.gradients, options_.fuse_grad_size_in_mb * mib,
                                options_.fuse_grad_max_layers);
      case BucketRule::ddp:
        return floors(pieces, 1'000'000, 25'000'000);
      case BucketRule::paddle:
        return floors(pieces, 32 * mib, 32 * mib);
      case BucketRule::mg_wfbp:
        return merged_gradually(pieces, costs_.before_update());
      case BucketRule::none:
        return all_in_one(pieces);
      case BucketRule::automatic:
      case BucketRule::per_tensor:
        break;
    }
    return one_each(pieces);
  }

  // Whether a bucket that is there early lets the next forward begin early.
  bool early() const { return gate_of(step_).empty(); }

  template <class Consider>
  void drafts(const std::vector<Piece>& pieces, const Cuts& cuts, uint32_t streams,
              Consider&& consider) const {
    consider(draft(pieces, cuts, streams, false));
    if (options_.priority && early()) consider(draft(pieces, cuts, streams, true));
  }

  Draft draft(const std::vector<Piece>& pieces, Cuts cuts, uint32_t streams, bool need_first) const {
    Draft out{.row = &pieces, .cuts = std::move(cuts)};
    out.sending = sending(streams, target_, options_);
    const std::vector<Load> loads = loads_of(pieces, out.cuts);
    out.order.resize(loads.size());
    std::iota(out.order.begin(), out.order.end(), 0u);
    if (need_first)
      out.order = by_need(loads, costs_.before_update(), streams);
    else
      std::stable_sort(out.order.begin(), out.order.end(),
                       [&](uint32_t a, uint32_t b) { return loads[a].ready < loads[b].ready; });
    for (const uint32_t i : out.order) out.loads.push_back(loads[i]);
    out.loads.back().ready = latest_;  // what rides in the last one is known when all are ready
    if (!options_.sharded) out.loads.back().bytes += tail_.bytes;
    give_streams(out.loads, costs_.before_update(), streams, options_.mode != BucketRule::automatic);
    out.timing = time_of(out.loads, step_, costs_, out.sending);
    return out;
  }

  CommPlan::State finished(Draft draft) const {
    CommPlan::State state{.target = target_.name,
                          .ranks = target_.ranks,
                          .streams = draft.sending.streams,
                          .ranks_per_group = costs_.ranks_per_group(),
                          .alignment = target_.alignment,
                          .contention = target_.contention,
                          .division = target_.division,
                          .step = step_,
                          .options = options_};
    Placed placed = place(*draft.row, draft.cuts, step_.gradients.size(), target_.alignment,
                          options_.sharded ? target_.ranks : 1, tail_);
    if (placed.buckets.empty()) placed.buckets.emplace_back();
    for (size_t i = 0; i < draft.order.size(); ++i) {
      state.buckets.push_back(std::move(placed.buckets[draft.order[i]]));
      if (i + 1 == draft.order.size()) add_tail(state.buckets.back(), placed.tail);
      draft.loads[i].bytes = state.buckets.back().bytes;
    }
    state.arena = std::move(placed.arena);
    state.tail = placed.tail;
    state.arena.copied_bytes = outside_views(state.buckets);
    draft.timing = time_of(draft.loads, step_, costs_, draft.sending);
    for (size_t i = 0; i < state.buckets.size(); ++i) describe(state.buckets[i], draft, i);
    state.gathers = draft.timing.gathers;
    state.prediction = draft.timing.prediction;
    return state;
  }

  void describe(Bucket& bucket, const Draft& draft, size_t i) const {
    bucket.stream = draft.loads[i].stream;
    bucket.route = costs_.route(bucket.bytes);
    bucket.ready_ns = draft.timing.progress.clock(draft.loads[i].ready);
    bucket.needed_ns = draft.loads[i].needed;
    bucket.start_ns = draft.timing.sent[i].start;
    bucket.end_ns = draft.timing.sent[i].end;
    if (draft.timing.gathered.empty()) return;
    bucket.gather_start_ns = draft.timing.gathered[i].start;
    bucket.gather_end_ns = draft.timing.gathered[i].end;
  }

  const StepProfile& step_;
  const CommTarget& target_;
  OverlapOptions options_;
  Costs costs_;
  CommTail tail_;
  double latest_ = 0;
  std::deque<std::vector<Piece>> rows_{};
};

// What it costs that the host waits for each collective.
CommPlan::Note price_of_waiting(const StepProfile& step, const CommTarget& target, OverlapOptions options,
                                double step_ns) {
  options.sync_nccl_allreduce = false;
  const double free = Planner(step, target, options).run().prediction.step_ns;
  const double ms = std::max(0.0, step_ns - free) / 1e6;
  return {"sync_nccl_allreduce = true", "true",
          "collectives follow each other whatever their stream, which costs " + std::to_string(ms) +
              " ms a step"};
}

}  // namespace
}  // namespace overlap

Result<CommPlan> plan_communication(const StepProfile& step, const CommTarget& target,
                                    const OverlapOptions& options) {
  TN_TRY(overlap::check(step, target, options));
  std::vector<CommPlan::Note> notes;
  const OverlapOptions holding = overlap::effective(target, options, notes);
  auto state = std::make_shared<CommPlan::State>(overlap::Planner(step, target, holding).run());
  if (holding.sync_nccl_allreduce)
    notes.push_back(overlap::price_of_waiting(step, target, holding, state->prediction.step_ns));
  state->notes = std::move(notes);
  overlap::seal(*state);
  return CommPlan(std::move(state));
}

}  // namespace tenon
