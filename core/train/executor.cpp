// SPDX-License-Identifier: Apache-2.0
// executor.cpp: one step after the other.
#include "base/text.hpp"
#include "graph/number.hpp"
#include "runtime/device_state.hpp"
#include "train/state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace tenon {
namespace {

using State = Executor::State;

Status bad(const std::string& text) { return Status(TN_INVALID, "executor: " + text); }

}  // namespace

void State::bind() {
  for (Form& form : forms) form.bind(lasting, block);
  for (std::optional<Form>& form : updates)
    if (form) form->bind(lasting, block);
}

const State::Form::Output* State::find(const Form& form, std::string_view output) const noexcept {
  const Form::Output* const found = form.find(output);
  const std::optional<Form>& second = updates_of(form);
  return found == nullptr && second ? second->find(output) : found;
}

Result<size_t> State::choose(std::span<const Binding> given) {
  if (failure) return Status(*failure);
  if (!has_begun) {
    const std::vector<std::string> missing = lasting.not_begun();
    if (!missing.empty())
      return bad(
          "parameter " + base::quoted(missing.front()) +
          (missing.size() == 1 ? " has" : " and " + std::to_string(missing.size() - 1) + " more have") +
          " no value: call initialize, or set them");
    has_begun = true;
  }
  const size_t shape = TN_TRY(inputs.check(given));
  if (shape != train::Inputs::no_shape) return shape;
  if (without_samples == none) TN_TRY(add_without_samples());
  return without_samples;
}

Status State::check_fetches(const Form& form, std::span<const Binding> fetches) const {
  for (const Binding& fetch : fetches) {
    const Form::Output* output = find(form, fetch.name);
    if (output == nullptr) {
      std::vector<std::string_view> names;
      for (const Form::Output& one : form.outputs) names.push_back(one.name);
      if (updates_of(form))
        for (const Form::Output& one : updates_of(form)->outputs) names.push_back(one.name);
      return bad("the step has no output " + base::quoted(fetch.name) +
                 base::did_you_mean(fetch.name, names) +
                 (lasting.has(fetch.name) ? ": it is a parameter, which get() gives" : ""));
    }
    if (const std::string why = train::why_no_place(fetch, output->spec.dtype); !why.empty())
      return bad("output '" + output->name + "' " + why);
    if (fetch.span.bytes != output->place.bytes())
      return bad("output '" + output->name + "' has " + std::to_string(output->place.bytes()) +
                 " bytes, it is to be written to " + std::to_string(fetch.span.bytes));
  }
  return {};
}

Status State::enqueue(Form& form, size_t shape, std::span<const Binding> given) {
  if (form.averages && TN_TRY(form.averages->begin(compute))) bind();
  size_t input = 0;
  TN_TRY(inputs.feed(shape, given, compute, timeline, [&](uint32_t number, const tn_span& span) {
    form.bound[number] = span;
    form.launches.put(number, span);
    form.replays.put(input++, span);
  }));
  TN_TRY(launch(form, form.averages && form.averages->measures()));
  if (form.averages) TN_TRY(form.averages->finish(compute));
  if (is_sharded) TN_TRY(update(form));
  if (form.samples == 0)
    TN_TRY(lasting.carry(updates_of(form) ? updates_of(form)->ties : form.ties, compute, timeline));
  TN_TRY(inputs.used(compute));
  lasting.renewed();
  ++steps;
  return steps % strategy.num_iteration_per_drop_scope == 0 ? device.trim() : Status();
}

// `by_hand`: its launches are to be seen one by one.
Status State::launch(Form& form, bool by_hand) {
  form.replays.begin(lasting.in_turns() > 0 ? lasting.turn() : 0, by_hand);
  for (size_t i = 0; i < form.replays.stretches().size(); ++i) {
    if (form.averages) TN_TRY(form.averages->await(compute, form.replays.stretches()[i].first));
    TN_TRY(enqueue_stretch(form, i));
  }
  form.replays.end();
  return {};
}

Status State::enqueue_stretch(Form& form, size_t number) {
  const auto [first, end] = form.replays.stretches()[number];
  const tn_span memory = block;
  const bool replayed = !form.replays.by_hand();
  if (replayed) {
    const auto launch = [&, begin = first, behind = end]() -> Status {
      for (uint32_t at = begin; at < behind; ++at)
        TN_TRY(form.launches.enqueue(compute, at, lasting.turn(), timeline));
      return {};
    };
    TN_TRY(form.replays.enqueue(compute, number,
                                std::ref(launch)));  // by reference: it is not copied to the heap
  }
  for (uint32_t at = first; at < end; ++at) {
    if (!replayed) TN_TRY(form.launches.enqueue(compute, at, lasting.turn(), timeline));
    if (form.averages) TN_TRY(form.averages->made(compute, at, memory));
  }
  if (form.averages) return {};
  for (const Plan::State::Sum& sum : form.plan.state().sums) {
    if (first <= sum.after && sum.after < end) TN_TRY(take(sum, form.plan.graph()));
  }
  return {};
}

// A sum that updates need, of what this rank has of it.
Status State::take(const Plan::State::Sum& sum, const Graph& graph) {
  const tn_span place = sum.at.in(block);
  const Timeline::Work work{
      .kind = TraceKind::collective, .name = graph.values()[sum.sum].name, .bytes = place.bytes};
  return timeline.measure(compute, work, [&] { return comm.all_reduce(compute, place, place, sum.dtype); });
}

Status State::ended(Status status) {
  if (status.ok() || failure) return status;
  failure = Error(status.error());
  failure->message += "; parameters may be half updated: restore a checkpoint in a new executor";
  return Status(*failure);
}

Status State::run(size_t form, std::span<const Binding> given) {
  last = form;
  if (forms[form].samples > 0) shown = form;
  return ended(enqueue(forms[form], form, given));
}

Status State::fetch(std::span<const Binding> fetches) { return ended(fetch_all(forms[last], fetches)); }

Status State::fetch_all(Form& form, std::span<const Binding> fetches) {
  for (const Binding& fetch : fetches) {
    TN_TRY(timeline.measure(compute, {.kind = TraceKind::copy, .name = fetch.name, .bytes = fetch.span.bytes},
                            [&] { return compute.copy(fetch.span, find(form, fetch.name)->place); }));
  }
  float found_inf = 0, bad_steps = 0;
  if (const Form::Output* const verdict = find(form, step.found_inf))
    TN_TRY(compute.download(std::span(&found_inf, 1), verdict->place));
  if (!step.skipped.empty())
    TN_TRY(compute.download(std::span(&bad_steps, 1), TN_TRY(lasting.place(step.skipped))));
  TN_TRY(timeline.measure_host({.name = "fetches"}, [&] { return compute.sync(); }));
  tell_unseen_bad_steps(bad_steps, found_inf != 0);
  return found_inf == 0 ? Status() : tell_bad_step(form);
}

// Of bad steps that nobody fetched only the number is left: later steps have changed what their gradients came from.
void State::tell_unseen_bad_steps(float now, bool is_last_bad) {
  const float unseen = now - skipped.value_or(now) - (is_last_bad && skipped ? 1.0f : 0.0f);
  if (unseen > 0) {
    device.state()->log(
        LogLevel::warn,
        base::counted(static_cast<uint64_t>(unseen), "step") + " since step " + std::to_string(fetched_at) +
            " changed no weight: with fetch_every = 1 each names its first gradient that is not finite");
  }
  skipped = now;
  fetched_at = steps;
}

// Its scale is renewed already; everything else is as the step found it.
Status State::tell_bad_step(Form& form) {
  if (!form.diagnosis) {
    const FusionTarget target = TN_TRY(fusion_target(device));
    form.diagnosis =
        TN_TRY(train::Diagnosis::open(step, form.plan, device, {.fusion = strategy.fusion(target)}));
  }
  TN_TRY(settle());
  lasting.bind(form.ties, form.bound, lasting.turn());
  const std::string why =
      TN_TRY(form.diagnosis->run(device, compute, [&](const std::string& name) -> tn_span {
        return name == step.scale ? find(form, step.scale_used)->place.span()
                                  : form.bound[form.plan.state().names.at(name)];
      }));
  device.state()->log(LogLevel::warn, "step " + std::to_string(steps) + " changed no weight: " + why);
  return {};
}

Executor::Executor(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

Status Executor::also(const TrainingGraph& shorter) { return state_->also(shorter); }

Result<bool> Executor::run(std::span<const Binding> inputs, std::span<const Binding> fetches) {
  const size_t form = TN_TRY(state_->choose(inputs));
  const bool has_outputs = state_->forms[form].samples > 0;
  TN_TRY(state_->check_fetches(has_outputs ? state_->forms[form] : state_->full(), fetches));
  TN_TRY(state_->run(form, inputs));
  if (fetches.empty() || !has_outputs || state_->steps % state_->strategy.fetch_every != 0) return false;
  TN_TRY(state_->fetch(fetches));
  return true;
}

Result<bool> Executor::run(std::initializer_list<Binding> inputs, std::initializer_list<Binding> fetches) {
  return run(std::span(inputs.begin(), inputs.size()), std::span(fetches.begin(), fetches.size()));
}

Result<uint32_t> Executor::run(const Feed& feed, std::span<const Binding> fetches) {
  TN_TRY(state_->check_fetches(state_->full(), fetches));
  uint32_t ran = 0;
  for (std::vector<Binding> inputs; ran < state_->strategy.num_iteration_per_run; ++ran) {
    inputs.clear();
    if (!TN_TRY(feed(inputs))) break;
    TN_TRY(state_->run(TN_TRY(state_->choose(inputs)), inputs));
  }
  const State::Form& last = state_->forms[state_->last];
  if (ran == 0 || fetches.empty() || last.samples == 0) return ran;
  TN_TRY(state_->check_fetches(last, fetches));
  TN_TRY(state_->fetch(fetches));
  return ran;
}

Status Executor::sync() {
  if (state_->failure) return Status(*state_->failure);
  return state_->ended(state_->compute.sync());
}

Status Executor::set(std::string_view name, std::span<const std::byte> bytes) {
  if (state_->failure) return Status(*state_->failure);
  TN_TRY(state_->ended(state_->settle()));
  TN_TRY(state_->lasting.set(state_->compute, name, bytes));
  if (name == state_->step.skipped && !name.empty())
    std::memcpy(&state_->skipped.emplace(), bytes.data(), sizeof(float));
  return {};
}

Result<std::vector<std::byte>> Executor::get(std::string_view name) {
  if (state_->failure) return Status(*state_->failure);
  TN_TRY(state_->ended(state_->settle()));
  return state_->lasting.get(state_->compute, name);
}

Status Executor::initialize(uint64_t seed) {
  const std::vector<std::string> missing = state_->lasting.not_begun();
  for (const InitialValue& value : initial_values(state_->step.graph, seed)) {
    if (std::find(missing.begin(), missing.end(), value.param) != missing.end())
      TN_TRY(set(value.param, value.bytes));
  }
  return {};
}

Status Executor::share(uint32_t root) {
  if (state_->failure) return Status(*state_->failure);
  if (!state_->comm) return {};
  if (state_->comm.rank() != root) state_->skipped.reset();
  TN_TRY(state_->ended(state_->settle()));
  return state_->ended(state_->lasting.share(state_->compute, root));
}

Status Executor::set_rate(double rate) {
  if (state_->failure) return Status(*state_->failure);
  if (!std::isfinite(rate) || rate < 0)
    return bad("rate = " + std::to_string(rate) + ": give a number of 0 or more");
  const tn_span place = TN_TRY(state_->lasting.place(state_->step.rate));
  return state_->ended(
      state_->compute.fill(place, std::bit_cast<uint32_t>(static_cast<float>(rate)), sizeof(float)));
}

Result<double> Executor::value(std::string_view name) {
  const State::Form::Output* output = state_->find(state_->forms[state_->last], name);
  if (output == nullptr) output = state_->find(state_->forms[state_->shown], name);
  TensorSpec spec;
  std::vector<std::byte> bytes;
  if (output == nullptr) {
    bytes = TN_TRY(get(name));
    spec = *state_->lasting.spec(name);
  } else {
    if (state_->failure) return Status(*state_->failure);
    spec = output->spec;
    bytes.resize(spec.bytes());
    TN_TRY(state_->compute.download(bytes, output->place));
    TN_TRY(state_->ended(state_->compute.sync()));
  }
  if (spec.elements() != 1)
    return bad(base::quoted(name) + " has " + base::counted(spec.elements(), "element") +
               ", and no one value");
  return graph::read_element(spec.dtype, bytes.data());
}

std::span<const Executor::Lasting> Executor::lasting() const noexcept { return state_->lasting.names(); }
Stream& Executor::stream() noexcept { return state_->compute; }
uint64_t Executor::steps() const noexcept { return state_->steps; }
const TrainingGraph& Executor::step() const noexcept { return state_->step; }
const Plan& Executor::plan() const noexcept { return state_->full().plan; }

}  // namespace tenon
