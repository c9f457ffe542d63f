// SPDX-License-Identifier: Apache-2.0
// training.hpp: a model and its loss become ONE graph of a whole training step: forward, backward, sums over ranks, loss
// scaling, clipping, updates.
//
//   Graph model = …;                                          // forward; its output "loss" has one element
//   auto options = strategy.training();                       // loss scaling, stop_gradient
//   options.optimizer = {.op = Op::adamw, .rate = 1e-3, .no_decay = {"*.bias"}};
//   options.ranks = comm.size();
//   auto step = TN_TRY(tenon::training_graph(model, "loss", options));
//
// Invariant: what lasts from one step to the next is a parameter with an output that renews it (TrainingGraph::renewed), and
// nothing else. A step whose gradients are not all finite changes, with loss scaling or clipping, no weight, state or counter of steps.
#pragma once

#include <tenon/export.hpp>
#include <tenon/graph.hpp>
#include <tenon/passes.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Names are whole, or with a '*' that stands for anything.
struct Optimizer {
  Op op = Op::sgd;                      // sgd, momentum, adam, adamw
  double rate = 0.01;                   // the first one; Executor::set_rate changes it
  std::vector<Attribute> attributes{};  // of the op: {{"momentum", 0.95}}
  std::vector<std::string> no_decay{};  // parameters whose weight_decay is 0
};

// A good step: bad = 0, good + 1; at incr_every_n_steps the scale grows, if it stays finite, and good = 0. A bad step: good = 0,
// bad + 1; at decr_every_n_nan_or_inf the scale shrinks, to 1 at least, and bad = 0. All on the device.
struct LossScaling {
  bool dynamic = true;  // false: it stays what it is, and bad steps change nothing all the same
  double init = 32768;
  uint32_t incr_every_n_steps = 1000, decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2, decr_ratio = 0.5;
};

// An output that is the next step's value of a parameter: a running mean, a random offset.
struct Renewed {
  std::string param, output;
  friend bool operator==(const Renewed&, const Renewed&) = default;
};

struct TrainingOptions {
  Optimizer optimizer{};
  std::optional<LossScaling> scaling{};
  double clip_norm = 0;  // gradients are made shorter where their common norm is more; 0: never
  std::vector<std::string> stop_gradient{};  // parameters that are not trained, by name as in Optimizer
  std::vector<Renewed> renewed{};            // of the model itself
  uint32_t ranks = 1;                        // whose gradients are summed, and divided
  // Sums are divided by the step's input `divisor`, which is known when all gradients are summed, so updates wait for that. False: all
  // ranks bring as many samples, and sums are divided by the number of ranks, for which nobody waits.
  bool uneven_batches = true;
  // batch_norm_train with the mean and variance of all ranks' samples, of which each has as many; no change for one rank.
  bool sync_batch_norm = false;
  // How many samples a batch of the model has, and how many the batch of a full step (0: as many), which is equal on all ranks. With a
  // loss that is a mean over its batch, the average over ranks is that of all samples, also where some have a shorter last batch.
  uint64_t samples = 1, full_batch = 0;
};

// A step, and what its names mean; a name is "" where the step has no such thing.
struct TrainingGraph {
  // A parameter that is no weight: where it begins.
  struct Start {
    std::string param;
    double value = 0;
  };
  // A half weight, and the f32 parameter that is updated in its place.
  struct Master {
    std::string param, master, output;
  };

  Graph graph;
  std::vector<std::string> trained{};  // in the model's order
  std::vector<Renewed> renewed{};      // weights, states, what the model renews, loss scaling
  std::vector<Start> starts{};    // states, the rate, loss scaling; with sync_batch_norm running statistics
  std::vector<Master> masters{};  // of weights that the model has in halves
  std::string loss{};             // output
  std::string rate{};             // parameter
  uint32_t ranks = 1;             // that run it together
  uint64_t samples = 1, full_batch = 1;  // of TrainingOptions
  std::string divisor{};     // input: by which sums over ranks are divided; "" for a number that is known
  std::string scale{};       // parameter: of the loss
  std::string scale_used{};  // output: the scale as the step had it
  std::string found_inf{};   // output: 1 after a bad step
  std::string skipped{};     // parameter: how many steps were bad
  bool clips = false;
  std::string
      rules{};  // optimizer, clipping and loss scaling in words, a line each: what all ranks must have alike
  std::vector<passes::Note> notes{};  // what was changed of the model, and why not
  // Nodes, by a value they make, that compute in f32 whatever mixed precision does to the model.
  std::vector<std::string> in_f32{};
};

// `loss` is an output of `model` with one element. Trained is every parameter of a float type that it depends on, but for those
// that stop_gradient names or the model renews. The step has all outputs of the model. TN_INVALID naming the option, its value and
// the remedy, or the output; failures of Graph::gradients. [any-thread; does not block; may fail]
TN_API Result<TrainingGraph> training_graph(const Graph& model, std::string_view loss,
                                            const TrainingOptions& options = {});

// First bytes of a parameter.
struct InitialValue {
  std::string param;
  std::vector<std::byte> bytes{};
};
// For each parameter of `model`, by what reads it: weights of products and convolutions are drawn from a normal distribution
// of variance 2 / (inputs + outputs), those that a relu follows of 2 / inputs; tables of variance 0.0004; scales of normalisations
// and running variances are 1; the rest is 0. Drawn from `seed` and the name, so that a parameter does not depend on the others.
// [any-thread; does not block; cannot fail]
TN_API std::vector<InitialValue> initial_values(const Graph& model, uint64_t seed);

}  // namespace tenon
