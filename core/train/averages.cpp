// SPDX-License-Identifier: Apache-2.0
// averages.cpp: see averages.hpp.
#include "train/averages.hpp"

#include "base/text.hpp"
#include "train/split.hpp"

#include <algorithm>
#include <unordered_map>

namespace tenon::train {
namespace {

// When each launch is predicted to begin, since the first one does; and last when all are over.
std::vector<double> clock_of(const Plan::State& plan) {
  std::vector<double> out{0};
  for (const FusionGroup& group : plan.cut.groups) out.push_back(out.back() + group.cost_ns);
  return out;
}

// When the first launch begins that reads it, by its number among what is bound.
std::unordered_map<uint32_t, double> first_reads(const Plan::State& plan, const std::vector<double>& clock) {
  std::unordered_map<uint32_t, double> out;
  for (size_t launch = 0; launch < plan.launches.size(); ++launch)
    for (const Plan::State::Slot& slot : plan.launches[launch].slots) out.emplace(slot.bound, clock[launch]);
  return out;
}

// As the planner of buckets sees them: ready when the launches before are predicted to be. Where weights come back under the next
// forward (`gathered`) each is needed by the first launch that reads it; else that forward begins behind all updates.
std::vector<Gradient> gradients_of(const Plan::State& plan, bool gathered) {
  const std::vector<double> clock = clock_of(plan);
  const auto reads = gathered ? first_reads(plan, clock) : std::unordered_map<uint32_t, double>();
  std::vector<Gradient> out;
  for (const auto& exchange : plan.exchanges) {
    const Graph::ValueInfo& sum = plan.graph.values()[exchange.sum];
    Gradient gradient{
        .name = parameter_of(sum.name), .dtype = sum.spec.dtype, .elements = sum.spec.elements()};
    gradient.ready_ns = clock[exchange.after + 1];
    const auto weight = plan.names.find(gradient.name);
    const auto read = weight == plan.names.end() ? reads.end() : reads.find(weight->second);
    if (gathered) gradient.needed_ns = read == reads.end() ? clock.back() : read->second;
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
  if (from.strategy.sharded && options.updates_wait.empty())
    options.updates_wait = "updates of shards are launched together";
  options.sums = !plan.sums.empty();
  options.full_batch = from.step.full_batch;
  options.rules = from.step.rules;
  options.target = from.target;
  options.timeline = from.timeline;
  Averages out;
  out.timeline_ = from.timeline;
  out.all_ = std::make_shared<const std::vector<Gradient>>(gradients_of(plan, from.strategy.sharded));
  out.sync_ = std::make_shared<GradientSync>(
      TN_TRY(GradientSync::create(device, comm, *out.all_, from.strategy.overlap(), std::move(options))));
  out.samples_ = from.step.samples;
  TN_TRY(out.find_gradients(plan, from.step.divisor));
  TN_TRY(out.find_weights(plan));
  out.take(from.step, plan);
  return out;
}

Result<Averages> Averages::beside(const TrainingGraph& step, const Plan& plan, uint64_t samples) const {
  Averages out;
  out.sync_ = sync_;
  out.timeline_ = timeline_;
  out.all_ = all_;
  out.samples_ = samples;
  TN_TRY(out.find_gradients(plan.state(), step.divisor));
  TN_TRY(out.find_weights(plan.state()));
  out.take(step, plan.state());
  return out;
}

Averages Averages::without_launches() const {
  Averages out;
  out.sync_ = sync_;
  out.all_ = all_;
  out.samples_ = 0;
  return out;
}

// What is sent, or comes as an input, by its position among all gradients.
Status Averages::find_gradients(const Plan::State& plan, std::string_view divisor) {
  const auto bad = [](const std::string& text) { return Status(TN_INVALID, "executor: " + text); };
  const auto position = [&](const Graph::ValueInfo& sum) -> Result<uint32_t> {
    const std::string name = parameter_of(sum.name);
    const auto found =
        std::find_if(all_->begin(), all_->end(), [&](const auto& g) { return g.name == name; });
    if (found == all_->end()) return bad("the full step has no gradient " + base::quoted(name));
    if (found->dtype != sum.spec.dtype || found->elements != sum.spec.elements())
      return bad("gradient " + base::quoted(name) + " has another type or size in the full step");
    return static_cast<uint32_t>(found - all_->begin());
  };
  std::vector<bool> there(all_->size());
  for (const Plan::State::Exchange& exchange : plan.exchanges) {
    gradient_.push_back(TN_TRY(position(plan.graph.values()[exchange.sum])));
    there[gradient_.back()] = true;
  }
  for (const Graph::ValueInfo& info : plan.graph.values()) {
    if (samples_ > 0 || info.role != Graph::Role::input || info.name == divisor) continue;
    const uint32_t gradient = TN_TRY(position(info));
    summed_.push_back({plan.names.at(info.name), gradient});
  }
  const auto missing = std::find(there.begin(), there.end(), false);
  if (samples_ == 0 || missing == there.end()) return {};
  return bad("gradient " + base::quoted((*all_)[static_cast<size_t>(missing - there.begin())].name) +
             " of the full step is not made");
}

// The first launch that reads a weight of each bucket, in sharded mode.
Status Averages::find_weights(const Plan::State& plan) {
  weights_.resize(plan.launches.size());
  if (!is_sharded()) return {};
  std::unordered_map<uint32_t, uint32_t> gradient_of;  // a number of what is bound
  for (uint32_t i = 0; i < all_->size(); ++i) {
    const auto bound = plan.names.find((*all_)[i].name);
    if (bound == plan.names.end()) continue;  // nothing reads it
    if (plan.bound[bound->second].bytes != sync_->parameter(i).bytes)
      return Status(TN_UNSUPPORTED, "executor: sharded = true: " + base::quoted((*all_)[i].name) + " is no " +
                                        std::string(tenon::name((*all_)[i].dtype)) +
                                        ", as its gradient is: leave sharded off");
    gradient_of.emplace(bound->second, i);
  }
  std::vector<bool> awaited(this->plan().buckets().size());
  for (uint32_t at = 0; at < plan.launches.size(); ++at) {
    for (const Plan::State::Slot& slot : plan.launches[at].slots) {
      const auto found = gradient_of.find(slot.bound);
      if (found == gradient_of.end()) continue;
      bool is_new = false;
      for (const uint32_t bucket : buckets_of(found->second)) {
        is_new = is_new || !awaited[bucket];
        awaited[bucket] = true;
      }
      if (is_new) weights_[at].push_back(found->second);
    }
  }
  return {};
}

std::vector<uint32_t> Averages::buckets_of(uint32_t gradient) const {
  std::vector<uint32_t> out;
  for (uint32_t bucket = 0; bucket < plan().buckets().size(); ++bucket) {
    const auto& members = plan().buckets()[bucket].members;
    if (std::any_of(members.begin(), members.end(),
                    [&](const BucketMember& m) { return m.gradient == gradient; }))
      out.push_back(bucket);
  }
  return out;
}

std::vector<Piece> Averages::pieces() const {
  std::vector<Piece> out;
  for (const Shard& shard : sync_->shards()) {
    const uint64_t width = bytes(shard.dtype, 1);
    for (const Shard::Part& part : shard.parts) {
      Piece& piece = out.emplace_back(
          Piece{.param = (*all_)[part.parameter].name, .first = part.first, .elements = part.elements});
      piece.sum = elements_of(shard.gradient, part.at, part.elements, width);
      piece.place = elements_of(shard.parameter, part.at, part.elements, width);
    }
  }
  return out;
}

tn_span Averages::weight(std::string_view name) const noexcept {
  for (uint32_t i = 0; i < all_->size(); ++i)
    if ((*all_)[i].name == name) return sync_->parameter(i);
  return {};
}

Status Averages::settle(Stream& stream) const {
  for (uint32_t i = 0; i < all_->size(); ++i) TN_TRY(sync_->await(stream, i));
  return {};
}

uint64_t Averages::copied_bytes() const noexcept {
  uint64_t out = 0;
  for (const Plan::State::Exchange& exchange : exchanges_)
    if (exchange.from.bound == Plan::State::in_block) out += exchange.from.bytes;
  return out;
}

void Averages::take(const TrainingGraph& step, const Plan::State& plan) {
  exchanges_ = plan.exchanges;
  after_.resize(plan.launches.size());
  for (uint32_t i = 0; i < plan.exchanges.size(); ++i) after_[plan.exchanges[i].after].push_back(i);
  sums_ = plan.sums;
  sums_after_.resize(plan.launches.size());
  for (uint32_t i = 0; i < plan.sums.size(); ++i) sums_after_[plan.sums[i].after].push_back(i);
  for (const Plan::State::Launch& launch : plan.launches) reads_.push_back(launch.sums);
  first_late_ = plan.first_late;
  first_with_all_ = this->plan().gate().empty() ? plan.first_with_all : plan.first_late;
  if (const auto found = plan.names.find(step.divisor); found != plan.names.end()) divisor_ = found->second;
}

// Each bucket by the first launch that reads some of it.
void Averages::find_waits() {
  std::vector<std::vector<uint32_t>> by_gradient(all_->size()), buckets_of;
  for (uint32_t bucket = 0; bucket < plan().buckets().size(); ++bucket) {
    for (const BucketMember& member : plan().buckets()[bucket].members)
      by_gradient[member.gradient].push_back(bucket);
  }
  bucket_.clear();
  for (const uint32_t gradient : gradient_) {
    buckets_of.push_back(by_gradient[gradient]);
    const auto& of = by_gradient[gradient];
    bucket_.push_back(of.empty() ? std::nullopt : std::optional(of.front()));
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
  phase_ = Phase::backward;
  return sync_->begin(compute);
}

void Averages::bind(std::span<tn_span> bound) {
  find_waits();
  for (uint32_t i = 0; i < exchanges_.size(); ++i) bound[exchanges_[i].bound] = sync_->gradient(gradient_[i]);
  for (const Summed& input : summed_) bound[input.bound] = sync_->gradient(input.gradient);
  if (divisor_ != TN_ABSENT) bound[divisor_] = sync_->divisor();
}

std::vector<uint32_t> Averages::departures() const {
  std::vector<uint32_t> out;
  for (const Plan::State::Exchange& exchange : exchanges_)
    if (exchange.from.bound == Plan::State::in_block) out.push_back(exchange.after);
  for (const Plan::State::Sum& sum : sums_) out.push_back(sum.after);
  std::vector<uint32_t> made(all_->size());  // the launch behind which a gradient is there
  for (uint32_t i = 0; i < exchanges_.size(); ++i) made[gradient_[i]] = exchanges_[i].after;
  for (const Bucket& bucket : plan().buckets()) {
    uint32_t last = 0;
    for (const BucketMember& member : bucket.members) last = std::max(last, made[member.gradient]);
    if (!bucket.members.empty() && !exchanges_.empty()) out.push_back(last);
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
  for (uint32_t at = 0; at < weights_.size(); ++at)
    if (!weights_[at].empty()) out.push_back(at);
  std::sort(out.begin(), out.end());
  return out;
}

Status Averages::await(Stream& compute, uint32_t at) {
  for (const uint32_t i : weights_[at]) TN_TRY(sync_->await(compute, i));
  if (at < first_late_ || phase_ == Phase::finished) return {};
  if (at >= first_with_all_) return finish(compute);
  if (phase_ == Phase::backward) TN_TRY(sync_->send({.samples = samples_}));
  phase_ = Phase::updates;
  for (const uint32_t bucket : waits_[at]) TN_TRY(sync_->await_bucket(compute, bucket));
  return {};
}

Status Averages::finish(Stream& compute) {
  if (phase_ == Phase::finished) return {};
  phase_ = Phase::finished;
  return sync_->finish(compute, {.samples = samples_});
}

// Somebody else reads it where it was made.
Status Averages::bring(Stream& compute, uint32_t exchange, const tn_span& from) {
  const tn_span to = sync_->gradient(gradient_[exchange]);
  const Timeline::Work work{.kind = TraceKind::copy,
                            .name = (*all_)[gradient_[exchange]].name,
                            .bytes = to.bytes,
                            .bucket = bucket_[exchange]};
  return timeline_.measure(compute, work, [&] { return compute.copy(to, from); });
}

Status Averages::made(Stream& compute, uint32_t at, const tn_span& block) {
  for (const uint32_t i : after_[at]) {
    const Plan::State::Exchange& exchange = exchanges_[i];
    if (exchange.from.bound == Plan::State::in_block) TN_TRY(bring(compute, i, exchange.from.in(block)));
    TN_TRY(sync_->ready(gradient_[i]));
  }
  for (const uint32_t i : sums_after_[at]) TN_TRY(sync_->sum(compute, sums_[i].at.in(block), sums_[i].dtype));
  return {};
}

}  // namespace tenon::train
