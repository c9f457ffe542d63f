// SPDX-License-Identifier: Apache-2.0
// state.hpp: what stands behind an Executor.
//
// Invariant: nothing of a step is enqueued before all that it is given was found right; once something was, a failure is the
// end. Form i runs batches of the inputs' shape i; the first is the fullest.
#pragma once

#include "train/form.hpp"
#include "train/inputs.hpp"
#include "train/pieces.hpp"
#include "train/split.hpp"

#include <optional>

namespace tenon {

struct Executor::State {
  using Form = train::Form;
  static constexpr size_t none = SIZE_MAX;

  TrainingGraph step;
  Strategy strategy;
  CompileOptions compile{};
  Device device;
  Communicator comm;
  Timeline timeline{};
  Stream compute{};
  std::vector<passes::Note> notes{};  // of the full step
  Buffer block{};                     // between launches, of whichever form is run
  train::Lasting lasting{};
  train::Inputs inputs{};
  std::vector<Form> forms{};
  // Sharded mode: what follows the sums, of this rank's pieces, behind a form with samples and behind the one without; none where
  // this rank has nothing to update.
  bool is_sharded = false;
  Graph whole{};  // of which forms and updates are halves
  std::optional<Form> updates[2]{};
  size_t last = 0;                // the form that was run last
  size_t shown = 0;               // the last with samples, whose outputs are told
  size_t without_samples = none;  // the form of a rank that has none
  uint64_t steps = 0;
  uint64_t fetched_at = 0;              // steps, when it was looked at last
  std::optional<float> skipped = 0.0f;  // step.skipped then; none: another rank's, not looked at yet
  bool has_begun = false;               // all parameters have
  std::optional<Error> failure{};

  const Form& full() const noexcept { return forms.front(); }
  // A checkpoint; in sharded mode all ranks bring what they have, and one writes.
  bool writes() const noexcept { return !is_sharded || comm.rank() == 0; }
  static size_t half_of(const Form& form) noexcept { return form.samples > 0 ? 0 : 1; }
  const std::optional<Form>& updates_of(const Form& form) const noexcept { return updates[half_of(form)]; }
  // An output of a form or of its updates; nullptr for another name.
  const Form::Output* find(const Form& form, std::string_view output) const noexcept;

  // One more form; what differs from the first beside the batch is told. [one thread; blocks; may fail]
  Status also(const TrainingGraph& shorter);
  // The form of these inputs; one of a rank without samples is made when it is first wanted.
  // [one thread; does not block otherwise; may fail]
  Result<size_t> choose(std::span<const Binding> inputs);
  // [one thread; does not block; may fail]
  Status check_fetches(const Form& form, std::span<const Binding> fetches) const;
  // Enqueues one step; a failure is kept. [one thread; may block; may fail]
  Status run(size_t form, std::span<const Binding> given);
  // Waits; tells a bad step with its reason. [one thread; blocks; may fail]
  Status fetch(std::span<const Binding> fetches);
  // Keeps a failure, and tells what it means. [cannot fail]
  Status ended(Status status);

  // How plans of this step are made. [one thread; may block; may fail]
  Result<PlanOptions> planning();
  // Into `forms`, all of which are bound; until then nothing has changed. [one thread; may block; may fail]
  Status add(Form form, train::Inputs::Shape shape);
  // The step as passes leave it, and in sharded mode its halves, of which forms are the first one. [one thread; may fail]
  struct Work {
    passes::Rewritten passed;
    std::optional<train::Halves> halves{};
    const passes::Rewritten& first() const noexcept { return halves ? halves->gradients : passed; }
  };
  Result<Work> work_of(const TrainingGraph& of);
  // What lasts, and in sharded mode the second half of the step. [one thread; may block; may fail]
  Status open_lasting(Form& first, Work& work);
  // Weights are whole for what is enqueued next. [one thread; does not block; may fail]
  Status settle();

 private:
  void bind();
  Status check_also(const TrainingGraph& shorter) const;
  Status add_without_samples();
  Status add_without_samples_sharded();
  struct Cut;
  Result<Cut> cut(const passes::Rewritten& second, std::span<const train::Piece> pieces);
  Status open_updates(size_t which, Plan plan, const Form& first);
  Status prepare(Form& form, size_t varying);
  Status complete(Form& form, size_t varying);
  void find_crossings(Form& form) const;
  Status launch(Form& form, bool by_hand);
  Status update(Form& form);
  Status enqueue(Form& form, size_t shape, std::span<const Binding> given);
  Status enqueue_stretch(Form& form, size_t number);
  Status take(const Plan::State::Sum& sum, const Graph& graph);
  Status fetch_all(Form& form, std::span<const Binding> fetches);
  Status tell_bad_step(Form& form);
  void tell_unseen_bad_steps(float now, bool is_last_bad);
};

}  // namespace tenon
