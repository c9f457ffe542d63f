// SPDX-License-Identifier: Apache-2.0
// explain.cpp: an executor in figures and in words.
#include "base/text.hpp"
#include "graph/columns.hpp"
#include "train/state.hpp"

#include <algorithm>

namespace tenon {
namespace {

using State = Executor::State;

// Of the weights that are gathered, with the gaps between them.
uint64_t weight_bytes(const State& s) { return s.is_sharded ? s.full().averages->plan().tail().offset : 0; }

// "memory   3.1 MiB: 1.2 MiB lasts, …"
std::string memory_line(const ExecutorFigures& f) {
  return "memory   " + base::bytes_in_words(f.peak_bytes()) + ": " + base::bytes_in_words(f.lasting_bytes) +
         " lasts, " + base::bytes_in_words(f.between_bytes) + " lies between launches, " +
         base::bytes_in_words(f.gradient_bytes) + " is gradients, " + base::bytes_in_words(f.edge_bytes) +
         " is inputs and outputs\n";
}

// "copied   none of 1.2 MiB of gradients: each is made where it is sent from"
std::string copies_line(const ExecutorFigures& f) {
  const std::string all = " of " + base::bytes_in_words(f.gradient_bytes) + " of gradients";
  if (f.copied_bytes == 0) return "copied   none" + all + ": each is made where it is sent from\n";
  return "copied   " + base::bytes_in_words(f.copied_bytes) + all +
         ": something else reads them where they are made\n";
}

// What a full step runs, one after the other.
std::vector<const State::Form*> halves(const State& s) {
  std::vector<const State::Form*> out{&s.full()};
  if (s.updates_of(s.full())) out.push_back(&*s.updates_of(s.full()));
  return out;
}

// "detected 5 subgraphs: …", "161 momentum operators, after fusion 1"
std::string fusion_lines(const State& s, const ExecutorFigures& f) {
  uint64_t groups = 0, updates = 0, launches = 0;
  Op op{};
  for (const State::Form* const form : halves(s)) {
    for (const FusionGroup& group : form->plan.cut().groups) {
      groups += group.nodes.size() > 1;
      uint64_t own = 0;
      for (const uint32_t node : group.nodes) {
        const Op found = form->plan.graph().nodes()[node].op;
        if (graph::columns_of(found).family != graph::Family::OPTIMIZER) continue;
        op = found;
        ++own;
      }
      updates += own;
      launches += own > 0;
    }
  }
  std::string out = "detected " + base::counted(groups, "subgraph") + ": " + base::counted(f.nodes, "node") +
                    " in " + std::to_string(f.launches) + " launches\n";
  if (updates > 0)
    out += base::counted(updates, std::string(name(op)) + " operator") + ", after fusion " +
           std::to_string(launches) + '\n';
  return out;
}

// "updates  of 1.2 MiB of 4.8 MiB, in 3 pieces, which go to all ranks under the next forward"
std::string shard_line(const State& s) {
  uint64_t own = 0;
  const std::vector<train::Piece> pieces = s.full().averages->pieces();
  for (const train::Piece& piece : pieces) own += piece.place.bytes;
  return "updates  of " + base::bytes_in_words(own) + " of " + base::bytes_in_words(weight_bytes(s)) +
         ", in " + base::counted(pieces.size(), "piece") +
         "; the rest comes from the other ranks under the next forward\n";
}

// "updates  in 4 parts, each behind its own buckets", "updates  wait for all gradients: loss scaling"
std::string updates_line(const State& s) {
  if (s.is_sharded) return shard_line(s);
  const std::string gate = s.full().averages->plan().gate();
  if (!gate.empty()) return "updates  wait for all gradients: " + gate + '\n';
  size_t parts = 0;
  for (const FusionGroup& group : s.full().plan.cut().groups) {
    parts += std::any_of(group.nodes.begin(), group.nodes.end(), [&](uint32_t node) {
      return graph::columns_of(s.full().plan.graph().nodes()[node].op).family == graph::Family::OPTIMIZER;
    });
  }
  if (parts == 1) return "updates  in one part, behind all gradients: more launches would not pay\n";
  return "updates  in " + base::counted(parts, "part") + ", each behind its own buckets\n";
}

uint64_t launches_of(const State& s, const State::Form& form) {
  const uint64_t own = form.plan ? form.launches.kernels() : 0;
  return own + (s.updates_of(form) ? s.updates_of(form)->launches.kernels() : 0);
}

// "batches  of 32 samples, of 5 in 12 launches, of none in 1 launch"
std::string batches_line(const State& s) {
  std::string out = "batches  of " + base::counted(s.full().samples, "sample");
  for (size_t i = 1; i < s.forms.size(); ++i) {
    const uint64_t samples = s.forms[i].samples;
    out += ", of " + (samples == 0 ? std::string("none") : std::to_string(samples)) + " in " +
           base::counted(launches_of(s, s.forms[i]), "launch");
  }
  return out + '\n';
}

}  // namespace

ExecutorFigures Executor::figures() const {
  const State& s = *state_;
  ExecutorFigures out;
  out.steps = s.steps;
  for (const State::Form* const form : halves(s)) {
    out.launches += form->launches.kernels();
    out.stretches += form->replays.stretches().size();
    for (const FusionGroup& group : form->plan.cut().groups) out.nodes += group.nodes.size();
  }
  out.replayed = s.full().replays.steps();
  out.in_place = s.lasting.in_place();
  out.in_turns = s.lasting.in_turns();
  out.lasting_bytes = s.lasting.bytes() + weight_bytes(s);
  out.between_bytes = s.block.bytes();
  out.edge_bytes = s.inputs.bytes();
  for (const State::Form& form : s.forms) {
    for (const State::Form::Output& output : form.outputs) out.edge_bytes += output.place.bytes();
  }
  for (const std::optional<State::Form>& form : s.updates) {
    for (size_t i = 0; form && i < form->outputs.size(); ++i)
      out.edge_bytes += form->outputs[i].place.bytes();
  }
  if (!s.full().averages) return out;
  out.gradients = s.full().averages->gradients();
  out.copied_bytes = s.full().averages->copied_bytes();
  out.all_reduces = s.full().averages->plan().buckets().size();
  for (const Bucket& bucket : s.full().averages->plan().buckets()) out.sent_bytes += bucket.bytes;
  out.gradient_bytes = s.full().averages->plan().arena().bytes;
  return out;
}

std::string Executor::summary() const {
  const std::string out = fusion_lines(*state_, figures());
  return state_->full().averages ? out + state_->full().averages->plan().summary() + '\n' : out;
}

std::string Executor::explain() const {
  const State& s = *state_;
  const ExecutorFigures f = figures();
  std::string out =
      summary() + passes::explain(s.step.notes) + passes::explain(s.notes) + s.full().plan.explain();
  if (s.updates_of(s.full())) out += s.updates_of(s.full())->plan.explain();
  out += "renewed  " + std::to_string(f.in_place) + " parameters in place, " + std::to_string(f.in_turns) +
         " in two places that take turns\n";
  const std::string& why = s.full().replays.why_not();
  out += "capture  ";
  out += why.empty() ? std::to_string(f.launches) + " launches as " + std::to_string(f.stretches) + ", " +
                           base::counted(f.replayed, "step") + " replayed so far\n"
                     : "none: " + why + '\n';
  if (s.full().averages) out += copies_line(f) + updates_line(s);
  if (s.full().averages && s.full().averages->sums() > 0)
    out += "sums     " + base::counted(s.full().averages->sums(), "sum") + " over ranks inside the step\n";
  if (s.forms.size() > 1) out += batches_line(s);
  out += memory_line(f);
  if (s.full().averages) out += s.full().averages->plan().explain();
  return out;
}

}  // namespace tenon
