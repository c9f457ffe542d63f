// SPDX-License-Identifier: Apache-2.0
// gradient_sync.cpp: plans for a group of ranks, and the steps that run them.
//
// Invariant: which step is measured and when a plan is made follow from counts that all ranks share, so they take part in
// every exchange together.
#include <tenon/gradient_sync.hpp>

#include "base/text.hpp"
#include "overlap/agree.hpp"
#include "overlap/average.hpp"
#include "overlap/issuer.hpp"
#include "overlap/measure.hpp"
#include "overlap/shards.hpp"
#include "overlap/sparse_lane.hpp"
#include "runtime/device_state.hpp"

#include <algorithm>
#include <bit>

namespace tenon {

using overlap::Averaging;
using overlap::Issuer;
using overlap::Lane;
using overlap::Shards;
using overlap::SparseLane;

struct GradientSync::State {
  State(Device on, Communicator among, const OverlapOptions& overlap, SyncOptions settings)
      : device(std::move(on)), comm(std::move(among)), asked(overlap), options(std::move(settings)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Status open(std::span<const Gradient> parameters);
  Result<CommPlan> first_plan(const OverlapOptions& options) const;
  Result<bool> adopt(Result<CommPlan> planned);
  Result<bool> replan(bool judged);
  Result<bool> begin(Stream& on, Backward how);
  Status finish(Stream& stream, const Contribution& mine);
  Status tell(uint32_t i, const Point& when, const tn_span* from);
  Status bring_rows(uint32_t i, const tn_span& indices, const tn_span& values);
  Status arrive(uint32_t i, const Point& when, const tn_span& from);
  std::string called(uint32_t i) const { return "parameter " + base::quoted(step.gradients[i].name); }
  Result<bool> join(Stream& stream);
  Status gather(Stream& updated);
  Result<CommTail::Reading> totals(Stream& stream);
  Status refuse_unless(bool running) const;
  Status refuse_unless_sharded(const char* call) const;
  Status refuse_ungathered() const;
  Status let_go();
  Status follow(Stream& stream);
  bool is_measured() const noexcept;

  // A failure that leaves this rank out of step with the others is remembered.
  Status kept(Status status) {
    if (!status.ok() && broken.ok()) broken = Status(status.error());
    return status;
  }

  Device device;
  Communicator comm;
  const OverlapOptions asked;
  const SyncOptions options;
  StepProfile step{};
  CommTarget target{};
  bool known_costs = false;
  std::vector<Lane> lanes{};
  CommPlan plan{};
  Buffer arena{};
  Averaging averaging{};
  Issuer issuer{};
  Shards shards{};
  SparseLane sparse{};
  overlap::Arrivals arrivals{};
  Stream compute{}, reader{}, updater{};  // of the last begin, of the last finish, of the last gather
  Point done{};                           // the averages, or zeros of a new arena, are there
  Status broken{};
  uint64_t steps = 0;            // that were sent
  overlap::CopyTotals copied{};  // by issuers before this one
  bool running = false, measured = false;
  bool ungathered = false;  // sharded mode: the last step is finished, and its updates have not gone to all
};

namespace {

Status refused(const std::string& what) { return Status(TN_UNSUPPORTED, "GradientSync: " + what); }

Status check_sparse(std::span<const Gradient> parameters) {
  for (const Gradient& parameter : parameters) {
    if (parameter.sparse && (parameter.row_elements == 0 || parameter.most_rows == 0))
      return Status(TN_INVALID,
                    "GradientSync: parameter " + base::quoted(parameter.name) +
                        " is sparse, with row_elements = " + std::to_string(parameter.row_elements) +
                        " and most_rows = " + std::to_string(parameter.most_rows) +
                        ": say how large rows are, and how many one rank may bring to a step");
  }
  return {};
}

Status check_hook(const CommHook& hook, bool sharded) {
  const std::string called = "hook '" + hook.name + "'";
  if (!hook.name.empty() && !hook.all_reduce)
    return Status(TN_INVALID, "GradientSync: " + called + " has no all_reduce: give it one, or no name");
  if (hook.name.empty() && hook.all_reduce)
    return Status(TN_INVALID, "GradientSync: the hook has no name: ranks are compared by names");
  if (!hook.name.empty() && sharded)
    return refused(called + " sums whole buckets, which sharded mode does not: leave one of them out");
  return {};
}

CommTarget target_of(Device& device, const Communicator& comm, CommTarget given) {
  given.name = comm.name();
  given.ranks = comm.size();
  given.alignment = std::bit_ceil(std::max<uint64_t>(device.limits().alignment, TN_MEMORY_ALIGNMENT));
  // There is no communicator of groups yet.
  std::erase_if(given.all_reduce, [](const auto& measured) { return measured.route != Route::flat; });
  return given;
}

// Until arrivals are known there is nothing to plan by: buckets by size, in the order in which backward comes by.
OverlapOptions without_arrivals(OverlapOptions options, const StepProfile& step) {
  const auto is_known = [](const Gradient& gradient) { return gradient.ready_ns > 0; };
  if (options.mode == BucketRule::automatic &&
      std::none_of(step.gradients.begin(), step.gradients.end(), is_known))
    options.mode = BucketRule::ddp;
  return options;
}

}  // namespace

GradientSync::State::~State() { static_cast<void>(let_go()); }

// Sees out what is in flight on the lanes, and says what the arena was used for elsewhere.
Status GradientSync::State::let_go() {
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = std::move(status);
  };
  for (Lane& lane : lanes) note(lane.stream.sync());
  for (Stream* user : {&compute, &reader, &updater}) {
    if (!*user) continue;
    note(arena.used_on(*user));
    note(averaging.used_on(*user));
    if (asked.sharded) note(shards.used_on(*user));
    note(sparse.used_on(*user));
  }
  return first;
}

Result<CommPlan> GradientSync::State::first_plan(const OverlapOptions& overlap) const {
  TN_TRY(check_sparse(step.gradients));
  TN_TRY(check_hook(options.hook, overlap.sharded));
  return plan_communication(step, target, overlap);
}

// Later work on `stream` may write to the arena: what reads it was enqueued before.
Status GradientSync::State::follow(Stream& stream) {
  TN_TRY(stream.wait(done));
  for (Stream* user : {&reader, &updater}) {
    if (*user) TN_TRY(stream.wait(TN_TRY(user->record())));
  }
  return {};
}

Status GradientSync::State::open(std::span<const Gradient> parameters) {
  step.gradients.assign(parameters.begin(), parameters.end());
  step.loss_scaling = options.loss_scaling;
  step.clip_global_norm = options.clip_global_norm;
  step.uneven_batches = options.uneven_batches;
  arrivals = overlap::Arrivals(step.gradients.size());
  target = target_of(device, comm, options.target);
  known_costs = overlap::has_costs(target, asked.sharded);
  if (!known_costs) overlap::set_nominal_costs(target);
  lanes.push_back(TN_TRY(Lane::open(device, comm, 0)));
  const OverlapOptions first = without_arrivals(asked, step);
  auto draft = first_plan(first);
  if (!known_costs && comm.size() > 1) {
    // Agreed on before anything is sent whose size follows from it.
    draft = TN_TRY(overlap::agree(device, lanes[0], std::move(draft), options, known_costs));
    TN_TRY(
        overlap::measure_costs(device, lanes[0], draft->arena().bytes, asked.sharded, options.hook, target));
    draft = first_plan(first);
  }
  TN_TRY(adopt(std::move(draft)));
  return {};
}

// Makes it the plan; true when that gave gradients new places. All ranks together.
Result<bool> GradientSync::State::adopt(Result<CommPlan> planned) {
  CommPlan next = TN_TRY(overlap::agree(device, lanes[0], std::move(planned), options, known_costs));
  const bool moves = !plan || plan.hash() != next.hash();
  if (moves) {
    std::vector<Lane> more = lanes;
    while (more.size() < next.streams())
      more.push_back(TN_TRY(Lane::open(device, comm, static_cast<uint32_t>(more.size()))));
    Stream& line = more[0].stream;
    Buffer fresh = TN_TRY(device.allocate(line, next.arena().bytes));
    TN_TRY(line.fill(fresh));
    Averaging average = TN_TRY(Averaging::prepare(device, line, next, fresh, comm.rank(), options.average));
    done = TN_TRY(line.record());
    TN_TRY(let_go());
    copied += issuer.copied();
    copied += sparse.copied();
    lanes = std::move(more);
    const std::span<Lane> used = std::span(lanes).first(next.streams());
    issuer = TN_TRY(Issuer::prepare(device, used, next, fresh, options.hook));
    if (asked.sharded) shards = TN_TRY(Shards::prepare(device, used, next, fresh));
    sparse = TN_TRY(SparseLane::prepare(device, lanes[0], next, options.average));
    arena = std::move(fresh);
    averaging = std::move(average);
  }
  plan = std::move(next);
  device.state()->log(LogLevel::info, "gradients, " + plan.summary());
  return moves;
}

bool GradientSync::State::is_measured() const noexcept {
  if (asked.sharded) return false;  // a shard never moves
  if (steps < options.warm_up_steps) return true;
  const uint32_t every = options.measure_every;
  return every != 0 && (steps - options.warm_up_steps) % every == every - 1;
}

Result<bool> GradientSync::State::replan(bool judged) {
  StepProfile now = step;
  if (!TN_TRY(arrivals.take(device, lanes[0], now))) return false;
  if (judged) {
    const Replan judgement = TN_TRY(judge_replan(plan, now, target, true, 0));
    device.state()->log(LogLevel::debug, "gradients, " + judgement.reason);
    if (!judgement.due) return false;
  }
  step = std::move(now);
  return adopt(plan_communication(step, target, asked));
}

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

Result<bool> GradientSync::State::begin(Stream& on, Backward how) {
  bool moved = false;
  if (measured) {
    measured = false;
    TN_TRY(arrivals.close());
    if (steps >= options.warm_up_steps) moved = TN_TRY(replan(steps > options.warm_up_steps));
  }
  compute = on;
  TN_TRY(follow(compute));
  issuer.begin(compute, how);
  running = true;
  return moved;
}

Status GradientSync::State::tell(uint32_t i, const Point& when, const tn_span* from) {
  TN_TRY(refuse_unless(true));
  TN_TRY(issuer.check(i, from));
  if (step.gradients[i].sparse)
    return Status(TN_INVALID, called(i) + " is sparse: tell of it with bring_rows");
  return arrive(i, when, from != nullptr ? *from : tn_span{});
}

Status GradientSync::State::arrive(uint32_t i, const Point& when, const tn_span& from) {
  if (issuer.sends() && is_measured()) TN_TRY(kept(arrivals.note(i, compute)));
  return kept(issuer.ready(i, when, from));
}

Status GradientSync::State::bring_rows(uint32_t i, const tn_span& indices, const tn_span& values) {
  TN_TRY(refuse_unless(true));
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

Status GradientSync::State::finish(Stream& stream, const Contribution& mine) {
  TN_TRY(issuer.complete(mine));
  running = false;
  if (!issuer.sends()) return {};
  TN_TRY(sparse.launch(compute));
  TN_TRY(issuer.join(stream));
  TN_TRY(averaging.run(stream));
  TN_TRY(sparse.average(stream, averaging.divisor()));
  TN_TRY(issuer.scatter(stream));
  done = TN_TRY(stream.record());
  reader = stream;
  measured = is_measured();
  ungathered = asked.sharded;
  ++steps;
  return {};
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
  TN_TRY(state_->follow(stream));
  return stream.fill(TN_TRY(state_->arena.slice(0, state_->plan.tail().offset)));
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

Status GradientSync::finish(Stream& stream, const Contribution& mine) {
  TN_TRY(state_->refuse_unless(true));
  TN_TRY(state_->issuer.check(mine));
  return state_->kept(state_->finish(stream, mine));
}

Result<bool> GradientSync::join(Stream& stream) {
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
