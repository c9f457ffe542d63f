// SPDX-License-Identifier: Apache-2.0
// sharded.cpp: an executor's sharded mode: a step whose updates are of this rank's pieces, and go to all.
//
// Invariant: all ranks take the same sums in the same order, also one that has nothing to update.
#include "train/state.hpp"

namespace tenon {

using State = Executor::State;

// The second half of a step in pieces; without a plan where this rank has nothing to run.
struct State::Cut {
  train::PieceUpdates updates;
  Plan plan{};
};

Result<State::Cut> State::cut(const passes::Rewritten& second, std::span<const train::Piece> pieces) {
  auto in_pieces = TN_TRY(train::update_pieces(second, pieces, step.ranks));
  Cut out{std::move(in_pieces)};
  if (out.updates.work.graph.outputs().empty()) return out;
  const passes::Options options{.prune = passes::PruneOptions{}, .in_place = strategy.passes().in_place};
  out.updates.work = TN_TRY(passes::run(std::move(out.updates.work), options));
  out.plan = TN_TRY(tenon::plan(out.updates.work, device, TN_TRY(planning())));
  return out;
}

Status State::open_lasting(Form& first, Work& work) {
  train::Lasting::Open from{.step = step, .plans = {&first.plan}, .masters = work.passed.masters};
  if (!is_sharded) {
    lasting = TN_TRY(train::Lasting::open(from, device, compute, comm));
    return {};
  }
  const train::Averages& averages = *first.averages;
  const std::vector<train::Piece> pieces = averages.pieces();
  const Cut found = TN_TRY(cut(work.halves->updates, pieces));
  if (found.plan) from.plans.push_back(&found.plan);
  from.elsewhere = [&](std::string_view name) { return averages.weight(name); };
  from.wholes = found.updates.wholes;
  from.leaves = found.updates.leaves;
  lasting = TN_TRY(train::Lasting::open(from, device, compute, comm));
  first.crossings = std::move(work.halves->crossings);
  whole = std::move(work.passed.graph);
  return found.plan ? open_updates(0, found.plan, first) : Status();
}

// Sums of gradients and their divisor stay where they are; what crosses is given with each step.
Status State::open_updates(size_t which, Plan plan, const Form& first) {
  const train::Averages& averages = *first.averages;
  Form& form = updates[which].emplace(Form{.samples = which == 0 ? step.samples : 0});
  form.plan = std::move(plan);
  const auto& names = form.plan.state().names;
  for (const train::Piece& piece : averages.pieces()) {
    const auto found = names.find(piece.gradient());
    if (found != names.end()) form.fixed.emplace_back(found->second, piece.sum);
  }
  if (const auto found = names.find(step.divisor); found != names.end())
    form.fixed.emplace_back(found->second, averages.divisor());
  return prepare(form, first.crossings.size());
}

Status State::add_without_samples_sharded() {
  const Form& with = full();
  passes::Rewritten second = TN_TRY(train::updates_only(whole, step.divisor));
  second = TN_TRY(passes::run(std::move(second), {.prune = passes::PruneOptions{}}));
  Cut found = TN_TRY(cut(second, with.averages->pieces()));
  if (found.plan) TN_TRY(open_updates(1, std::move(found.plan), with));
  Form form{.samples = 0};
  form.averages = with.averages->without_launches();
  TN_TRY(add(std::move(form), inputs.none()));
  without_samples = forms.size() - 1;
  return {};
}

void State::find_crossings(Form& form) const {
  for (const train::Halves::Crossing& crossing : form.crossings)
    form.crossing_to.emplace_back(updates[half_of(form)]->plan.state().names.at(crossing.input),
                                  form.find(crossing.output)->place.span());
}

// What follows the sums of a step of `form`.
Status State::update(Form& form) {
  std::optional<Form>& second = updates[half_of(form)];
  if (second) {
    for (size_t i = 0; i < form.crossing_to.size(); ++i) {
      const auto& [number, place] = form.crossing_to[i];
      second->bound[number] = place;
      second->launches.put(number, place);
      second->replays.put(i, place);
    }
    TN_TRY(launch(*second, false));
    TN_TRY(lasting.settle(compute, timeline));
  }
  return form.averages->gather(compute);
}

Status State::settle() { return is_sharded ? full().averages->settle(compute) : Status(); }

}  // namespace tenon
