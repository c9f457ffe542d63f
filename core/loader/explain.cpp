// SPDX-License-Identifier: Apache-2.0
// explain.cpp: a loader in words.
#include "base/text.hpp"
#include "loader/state.hpp"

#include <cstdio>

namespace tenon {
namespace {

using detail::LoaderState;

std::string number(uint64_t n) { return std::to_string(n); }

std::string epochs(const LoaderState& state) {
  const LoaderOptions& o = state.options;
  const uint64_t samples = state.dataset.samples, step = o.ranks * o.batch, steps = state.order.steps(),
                 rest = samples % step;
  std::string out = base::counted(samples, "sample") + " in " + base::counted(steps, "step") + " of " +
                    number(o.ranks) + " x " + number(o.batch);
  if (rest == 0) return out;
  out += "; " + std::string(name(o.uneven)) + ": ";
  switch (o.uneven) {
    case Uneven::pad:
      return out + "the last step repeats " + number(step - rest);
    case Uneven::fixed:
      return out + number(rest) + " are left out of each epoch";
    case Uneven::join:
      return out + "the last step has " + number(rest) + ", of which this rank " +
             number(state.order.share(steps - 1).real);
  }
  return out;
}

std::string order(const LoaderState& state) {
  if (!state.options.shuffle) return "as the samples come, in every epoch";
  return "shuffled by Fisher and Yates over Philox4x32-10, seed " + number(state.options.seed) +
         ", anew in every epoch";
}

std::string ahead(const LoaderState& state) {
  const bool pinned = state.slots.front().source.space == TN_SPACE_MEMORY;
  return number(state.options.depth) + " of " + number(state.slots.size()) + " batches, " +
         base::counted(state.options.workers, "worker") + "; a batch is " +
         base::bytes_in_words(state.memory.copied_bytes()) + " of " + (pinned ? "pinned" : "pageable") +
         " memory and " + base::bytes_in_words(state.memory.device_bytes()) + " on " + state.device.name();
}

std::string share(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string found(const LoaderFigures& figures) {
  const auto time = [](Timeout ns) { return base::time_in_words(static_cast<double>(ns.count())); };
  return number(figures.batches) + " given out, " + number(figures.late) + " of them late; waited " +
         time(figures.waited) + " of " + time(figures.lasted) + " (" + share(figures.waiting()) +
         "): " + (figures.loader_bound() ? "loader-bound" : "not loader-bound") + "; read for " +
         time(figures.read);
}

}  // namespace

std::string Loader::explain() const {
  const LoaderState& state = *state_;
  std::string out =
      "epoch    " + epochs(state) + "\norder    " + order(state) + "\nahead    " + ahead(state) + '\n';
  if (state.image) out += "image    " + state.image->words() + ", " + state.prepare.words() + '\n';
  return out + "batches  " + found(figures()) + '\n';
}

}  // namespace tenon
