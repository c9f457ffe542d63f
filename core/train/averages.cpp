// SPDX-License-Identifier: Apache-2.0
// averages.cpp: see averages.hpp.
#include "train/averages.hpp"

#include <algorithm>

namespace tenon::train {
namespace {

constexpr std::string_view suffix = ".gradient";

// As the planner of buckets sees them: ready when the launches before are predicted to be.
std::vector<Gradient> gradients_of(const Plan::State& plan) {
  std::vector<double> done;
  double now = 0;
  for (const FusionGroup& group : plan.cut.groups) done.push_back(now += group.cost_ns);
  std::vector<Gradient> out;
  for (const auto& exchange : plan.exchanges) {
    const Graph::ValueInfo& sum = plan.graph.values()[exchange.sum];
    Gradient gradient{.name = sum.name, .dtype = sum.spec.dtype, .elements = sum.spec.elements()};
    if (gradient.name.ends_with(suffix)) gradient.name.resize(gradient.name.size() - suffix.size());
    gradient.ready_ns = done[exchange.after];
    out.push_back(std::move(gradient));
  }
  return out;
}

}  // namespace

Result<Averages> Averages::open(const Open& from, Device& device, Communicator& comm) {
  const Plan::State& plan = from.plan.state();
  SyncOptions options = from.strategy.sync();
  options.average = Average::none;
  options.loss_scaling = !from.step.scale.empty();
  options.clip_global_norm = options.clip_global_norm || from.step.clips;
  options.uneven_batches = !from.step.divisor.empty();
  options.sums = !plan.sums.empty();
  options.target = from.target;
  options.timeline = from.timeline;
  const std::vector<Gradient> gradients = gradients_of(plan);
  Averages out(
      TN_TRY(GradientSync::create(device, comm, gradients, from.strategy.overlap(), std::move(options))));
  out.exchanges_ = plan.exchanges;
  out.after_.resize(plan.launches.size());
  for (uint32_t i = 0; i < plan.exchanges.size(); ++i) out.after_[plan.exchanges[i].after].push_back(i);
  out.sums_ = plan.sums;
  out.sums_after_.resize(plan.launches.size());
  for (uint32_t i = 0; i < plan.sums.size(); ++i) out.sums_after_[plan.sums[i].after].push_back(i);
  for (const Plan::State::Launch& launch : plan.launches) out.reads_.push_back(launch.sums);
  out.first_late_ = plan.first_late;
  out.first_with_all_ = out.plan().gate().empty() ? plan.first_with_all : plan.first_late;
  out.find_waits();
  if (const auto found = plan.names.find(from.step.divisor); found != plan.names.end())
    out.divisor_ = found->second;
  return out;
}

// Each bucket by the first launch that reads some of it.
void Averages::find_waits() {
  std::vector<std::vector<uint32_t>> buckets_of(exchanges_.size());
  for (uint32_t bucket = 0; bucket < plan().buckets().size(); ++bucket) {
    for (const BucketMember& member : plan().buckets()[bucket].members)
      buckets_of[member.gradient].push_back(bucket);
  }
  std::vector<bool> awaited(plan().buckets().size());
  waits_.assign(reads_.size(), {});
  for (uint32_t at = first_late_; at < first_with_all_; ++at) {
    for (const uint32_t i : reads_[at]) {
      for (const uint32_t bucket : buckets_of[i]) {
        if (awaited[bucket]) continue;
        awaited[bucket] = true;
        waits_[at].push_back(bucket);
      }
    }
  }
}

Result<bool> Averages::begin(Stream& compute) {
  const bool moved = TN_TRY(sync_.begin(compute));
  if (moved) find_waits();
  phase_ = Phase::backward;
  return moved;
}

void Averages::bind(std::span<tn_span> bound) const {
  for (uint32_t i = 0; i < exchanges_.size(); ++i) bound[exchanges_[i].bound] = sync_.gradient(i);
  if (divisor_ != TN_ABSENT) bound[divisor_] = sync_.divisor();
}

std::vector<uint32_t> Averages::departures() const {
  std::vector<uint32_t> out;
  for (const Plan::State::Exchange& exchange : exchanges_)
    if (exchange.from.bound == Plan::State::in_block) out.push_back(exchange.after);
  for (const Plan::State::Sum& sum : sums_) out.push_back(sum.after);
  for (const Bucket& bucket : plan().buckets()) {
    uint32_t last = 0;
    for (const BucketMember& member : bucket.members)
      last = std::max(last, exchanges_[member.gradient].after);
    if (!bucket.members.empty()) out.push_back(last);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<uint32_t> Averages::arrivals() const {
  std::vector<uint32_t> out{first_late_};
  for (uint32_t at = first_late_ + 1; at < first_with_all_; ++at)
    if (!waits_[at].empty()) out.push_back(at);
  if (first_with_all_ > first_late_) out.push_back(first_with_all_);
  return out;
}

Status Averages::await(Stream& compute, uint32_t at) {
  if (at < first_late_ || phase_ == Phase::finished) return {};
  if (at >= first_with_all_) return finish(compute);
  if (phase_ == Phase::backward) TN_TRY(sync_.send());
  phase_ = Phase::updates;
  for (const uint32_t bucket : waits_[at]) TN_TRY(sync_.await_bucket(compute, bucket));
  return {};
}

Status Averages::finish(Stream& compute) {
  if (phase_ == Phase::finished) return {};
  phase_ = Phase::finished;
  return sync_.finish(compute);
}

Status Averages::made(Stream& compute, uint32_t at, const tn_span& block) {
  for (const uint32_t i : after_[at]) {
    const Plan::State::Exchange& exchange = exchanges_[i];
    if (exchange.from.bound == Plan::State::in_block)
      TN_TRY(compute.copy(sync_.gradient(i), exchange.from.in(block)));
    TN_TRY(sync_.ready(i));
  }
  for (const uint32_t i : sums_after_[at]) TN_TRY(sync_.sum(compute, sums_[i].at.in(block), sums_[i].dtype));
  return {};
}

}  // namespace tenon::train
