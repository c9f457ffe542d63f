// SPDX-License-Identifier: Apache-2.0
// gradient_sync.cpp: the steps that run a plan, and the user's side of them.
//
// Invariant: a call that is refused has enqueued nothing, so the step goes on.
#include "overlap/sync_state.hpp"

namespace tenon {

Status GradientSync::State::refuse_unless(bool is_running) const {
  if (!broken.ok()) return Status(broken.error());
  if (running == is_running) return {};
  return Status(TN_INVALID, running ? "the backward before is not finished: call finish"
                                    : "no backward has begun: call begin");
}

Status GradientSync::State::refuse_unless_sharded(const char* call) const {
  if (asked.sharded) return {};
  return Status(TN_INVALID, std::string(call) + " belongs to sharded mode: create it with sharded = true");
}

Status GradientSync::State::refuse_ungathered() const {
  if (!ungathered) return {};
  return Status(TN_INVALID, "the updates of the last step have not gone to all ranks: call gather");
}

Status GradientSync::State::refuse_sent() const {
  if (!sent) return {};
  return Status(TN_INVALID, "this backward was sent: call finish, and begin another");
}

Status GradientSync::State::check_await(uint32_t bucket) const {
  TN_TRY(refuse_unless(true));
  const auto refused = [](const std::string& why) { return Status(TN_INVALID, "await_bucket: " + why); };
  if (bucket >= plan.buckets().size())
    return refused("there is no bucket " + std::to_string(bucket) + ": the plan has " +
                   std::to_string(plan.buckets().size()));
  if (options.average != Average::none)
    return refused("sums are divided in finish: create it with Average::none, and divide in the update");
  if (!plan.gate().empty()) return refused("updates wait for the last bucket: " + plan.gate());
  if (!sent || !issuer.sends()) return refused("nothing was sent: call send, in a backward of sync");
  return {};
}

Result<bool> GradientSync::State::begin(Stream& on, Backward how) {
  bool moved = false;
  if (measured) {
    measured = false;
    TN_TRY(arrivals.close());
    if (steps >= options.warm_up_steps) moved = TN_TRY(replan(steps > options.warm_up_steps));
  }
  compute = on;
  TN_TRY(follow(compute));
  issuer.begin(compute, how, is_ordered());
  if (issuer.sends() && is_measured()) TN_TRY(arrivals.begin(compute));
  sums.forget();
  running = true;
  return moved;
}

Status GradientSync::State::tell(uint32_t i, const Point& when, const tn_span* from) {
  TN_TRY(refuse_unless(true));
  TN_TRY(refuse_sent());
  TN_TRY(issuer.check(i, from));
  if (step.gradients[i].sparse)
    return Status(TN_INVALID, called(i) + " is sparse: tell of it with bring_rows");
  return arrive(i, when, from != nullptr ? *from : tn_span{});
}

Status GradientSync::State::arrive(uint32_t i, const Point& when, const tn_span& from) {
  if (issuer.sends() && is_measured()) TN_TRY(kept(arrivals.note(i, device, compute, when)));
  TN_TRY(kept(issuer.ready(i, when, from)));
  return is_ordered() && issuer.sends() ? kept(release(false)) : Status();
}

// Lets go what all ranks have ready. `now`: also where that is known only after waiting.
Status GradientSync::State::release(bool now) {
  const auto least = TN_TRY(sums.least(now));
  return least ? issuer.release(static_cast<uint32_t>(*least)) : Status();
}

Status GradientSync::State::check_sum(const tn_span& numbers, DType dtype) const {
  if (!broken.ok()) return Status(broken.error());
  if (!options.sums)
    return Status(TN_INVALID,
                  "sum needs its place in the order of buckets: create it with SyncOptions::sums = true");
  const uint64_t width = bytes(dtype, 1);
  if (numbers.bytes % width == 0) return {};
  return Status(TN_INVALID, "sum: " + std::to_string(numbers.bytes) + " bytes are no elements of " +
                                std::string(name(dtype)) + ", which have " + std::to_string(width));
}

Status GradientSync::State::sum(Stream& stream, const tn_span& numbers, DType dtype) {
  if (!is_ordered()) return {};
  if (!running || !issuer.sends()) return sums.launch(stream, numbers, dtype, {});
  TN_TRY(release(true));
  return sums.launch(stream, numbers, dtype, static_cast<int32_t>(issuer.complete_buckets()));
}

Status GradientSync::State::bring_rows(uint32_t i, const tn_span& indices, const tn_span& values) {
  TN_TRY(refuse_unless(true));
  TN_TRY(refuse_sent());
  TN_TRY(issuer.check(i, nullptr));
  if (!step.gradients[i].sparse)
    return Status(TN_INVALID, called(i) + " is not sparse: tell of it with ready or bring");
  if (!issuer.sends())
    return Status(TN_INVALID,
                  called(i) + " is sparse, and its rows are not held back: bring them to a backward of sync");
  TN_TRY(sparse.check(i, indices, values));
  sparse.bring(i, indices, values);
  return arrive(i, {}, {});
}

Status GradientSync::State::send(const Contribution& mine) {
  // A sum that failed ends the step here, before this rank sends what others would take for right.
  if (is_ordered() && issuer.sends()) TN_TRY(release(true));
  TN_TRY(issuer.complete(mine));
  sent = true;
  return {};
}

Status GradientSync::State::finish(Stream& stream, const Contribution& mine) {
  if (!sent) TN_TRY(send(mine));
  running = sent = false;
  if (!issuer.sends()) return {};
  TN_TRY(sparse.launch(compute));
  TN_TRY(divide(stream));
  TN_TRY(sparse.average(stream, averaging.divisor()));
  TN_TRY(issuer.scatter(stream));
  done = TN_TRY(stream.record());
  reader = stream;
  measured = is_measured();
  ungathered = asked.sharded;
  ++steps;
  return {};
}

// Later work on `stream` finds averages. Where the divisor is known, buckets are divided while others are on their way.
Status GradientSync::State::divide(Stream& stream) {
  for (uint32_t bucket = 0; averaging.by_bucket() && bucket < plan.buckets().size(); ++bucket) {
    TN_TRY(issuer.follow(stream, bucket));
    TN_TRY(timeline.measure(stream, {.name = "average", .bucket = bucket},
                            [&] { return averaging.run(stream, bucket); }));
  }
  TN_TRY(issuer.join(stream));
  if (averaging.by_bucket()) return {};
  return timeline.measure(stream, {.name = "average"}, [&] { return averaging.run(stream); });
}

Status GradientSync::State::gather(Stream& updated) {
  TN_TRY(shards.gather(updated, compute));
  updater = updated;
  ungathered = false;
  return {};
}

Result<CommTail::Reading> GradientSync::State::totals(Stream& stream) {
  const CommTail& tail = plan.tail();
  std::vector<float> words(tail.words());
  TN_TRY(stream.wait(done));
  TN_TRY(stream.download(words, TN_TRY(arena.slice(tail.offset, tail.bytes))));
  TN_TRY(stream.sync());
  return tail.read(words);
}

// Held samples of no_sync leave with the first of these steps, so a step in which all are done may still be one to update by.
Result<bool> GradientSync::State::join(Stream& stream) {
  TN_TRY(begin(stream, Backward::sync));
  TN_TRY(finish(stream, {.samples = 0, .done = true}));
  const CommTail::Reading all = TN_TRY(totals(stream));
  const bool goes_on = all.ranks_done < comm.size() || all.samples > 0;
  if (!goes_on) ungathered = false;  // nobody updates
  return goes_on;
}

GradientSync::GradientSync(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
GradientSync::GradientSync(GradientSync&&) noexcept = default;
GradientSync& GradientSync::operator=(GradientSync&&) noexcept = default;
GradientSync::~GradientSync() = default;

Result<GradientSync> GradientSync::create(Device& device, Communicator& comm,
                                          std::span<const Gradient> parameters, const OverlapOptions& overlap,
                                          SyncOptions options) {
  auto state = std::make_unique<State>(device, comm, overlap, std::move(options));
  TN_TRY(state->open(parameters));
  return GradientSync(std::move(state));
}

const CommPlan& GradientSync::plan() const noexcept { return state_->plan; }

tn_span GradientSync::gradient(uint32_t i) const noexcept {
  return i < state_->step.gradients.size() ? state_->issuer.slot(i) : tn_span{};
}

Status GradientSync::clear(Stream& stream) {
  TN_TRY(state_->refuse_unless(state_->running));
  TN_TRY(state_->refuse_sent());
  TN_TRY(state_->follow(stream));
  return stream.fill(TN_TRY(state_->arena.slice(0, state_->plan.tail().offset)));
}

bool GradientSync::measures() const noexcept {
  return state_->running && state_->issuer.sends() && state_->is_measured();
}

Result<bool> GradientSync::begin(Stream& compute, Backward how) {
  TN_TRY(state_->refuse_unless(false));
  TN_TRY(state_->refuse_ungathered());
  auto moved = state_->begin(compute, how);
  if (!moved.ok()) return state_->kept(std::move(moved).failure());
  return moved;
}

Status GradientSync::ready(uint32_t i) { return state_->tell(i, {}, nullptr); }
Status GradientSync::ready(uint32_t i, const Point& when) { return state_->tell(i, when, nullptr); }
Status GradientSync::bring(uint32_t i, const tn_span& gradient) { return state_->tell(i, {}, &gradient); }

Status GradientSync::bring_rows(uint32_t i, const tn_span& indices, const tn_span& values) {
  return state_->bring_rows(i, indices, values);
}

SparseRows GradientSync::rows(uint32_t i) const noexcept { return state_->sparse.rows(i); }

Status GradientSync::send(const Contribution& mine) {
  TN_TRY(state_->refuse_unless(true));
  TN_TRY(state_->refuse_sent());
  TN_TRY(state_->issuer.check(mine));
  return state_->kept(state_->send(mine));
}

Status GradientSync::await_bucket(Stream& stream, uint32_t bucket) {
  TN_TRY(state_->check_await(bucket));
  return state_->kept(state_->issuer.follow(stream, bucket));
}

Status GradientSync::finish(Stream& stream, const Contribution& mine) {
  TN_TRY(state_->refuse_unless(true));
  if (!state_->sent) TN_TRY(state_->issuer.check(mine));
  return state_->kept(state_->finish(stream, mine));
}

Status GradientSync::sum(Stream& stream, const tn_span& numbers, DType dtype) {
  TN_TRY(state_->check_sum(numbers, dtype));
  return state_->kept(state_->sum(stream, numbers, dtype));
}

Result<bool> GradientSync::join(Stream& stream) {
  if (state_->options.sums)
    return Status(TN_INVALID,
                  "join: a rank without batches has nothing for the sums of forward and backward: give all "
                  "ranks as many "
                  "batches");
  TN_TRY(state_->refuse_unless(false));
  TN_TRY(state_->refuse_ungathered());
  auto goes_on = state_->join(stream);
  if (!goes_on.ok()) return state_->kept(std::move(goes_on).failure());
  return goes_on;
}

tn_span GradientSync::parameter(uint32_t i) const noexcept {
  return state_->asked.sharded && i < state_->step.gradients.size() ? state_->shards.parameter(i) : tn_span{};
}

std::span<const Shard> GradientSync::shards() const noexcept { return state_->shards.own(); }

Status GradientSync::gather(Stream& updated) {
  TN_TRY(state_->refuse_unless(false));
  TN_TRY(state_->refuse_unless_sharded("gather"));
  if (!state_->ungathered)
    return Status(TN_INVALID, "no step was finished since the last gather: nothing is to be gathered");
  return state_->kept(state_->gather(updated));
}

Status GradientSync::await(Stream& stream, uint32_t i) {
  if (!state_->broken.ok()) return Status(state_->broken.error());
  TN_TRY(state_->refuse_unless_sharded("await"));
  TN_TRY(state_->refuse_ungathered());
  TN_TRY(state_->issuer.check(i));
  return state_->kept(state_->shards.follow(stream, i));
}

Result<CommTail::Reading> GradientSync::totals(Stream& stream) {
  TN_TRY(state_->refuse_unless(false));
  if (state_->steps == 0) return Status(TN_INVALID, "no step was finished: there are no totals yet");
  return state_->totals(stream);
}

tn_span GradientSync::divisor() const noexcept { return state_->averaging.divisor(); }
uint64_t GradientSync::copied_bytes() const noexcept {
  return state_->copied.bytes + state_->issuer.copied().bytes + state_->sparse.copied().bytes;
}
uint64_t GradientSync::copy_launches() const noexcept {
  return state_->copied.launches + state_->issuer.copied().launches + state_->sparse.copied().launches;
}

}  // namespace tenon
