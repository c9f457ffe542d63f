// SPDX-License-Identifier: Apache-2.0
// options.cpp: see options.hpp.
#include "train/options.hpp"

#include "graph/columns.hpp"
#include "graph/words.hpp"

#include <cmath>
#include <cstdio>

namespace tenon::train {
namespace {

std::string number(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%g", value);
  return out;
}

Status check(const LossScaling& scaling) {
  const auto within = [](double value, double low, double high) { return value >= low && value <= high; };
  if (!within(scaling.init, 1, 1e30))
    return bad_training("scaling.init = " + number(scaling.init) + ": give 1 to 1e30");
  if (!within(scaling.incr_ratio, 1, 1e6))
    return bad_training("scaling.incr_ratio = " + number(scaling.incr_ratio) + ": give 1 to 1e6");
  if (!(scaling.decr_ratio > 0 && scaling.decr_ratio <= 1))
    return bad_training("scaling.decr_ratio = " + number(scaling.decr_ratio) +
                        ": give more than 0, and 1 at most");
  if (scaling.incr_every_n_steps == 0 || scaling.decr_every_n_nan_or_inf == 0)
    return bad_training("scaling: incr_every_n_steps and decr_every_n_nan_or_inf count from 1");
  return {};
}

Status check_samples(const TrainingOptions& options) {
  const uint64_t samples = options.samples, full = options.full_batch;
  if (samples == 0)
    return bad_training("samples = 0: a rank without samples runs the step it has, with none");
  if (full == 0 || samples == full) return {};
  const std::string given =
      "samples = " + std::to_string(samples) + " of full_batch = " + std::to_string(full) + ": ";
  if (samples > full) return bad_training(given + "a batch has as many as a full one at most");
  if (options.ranks == 1) return {};
  if (!options.uneven_batches)
    return bad_training(given + "uneven_batches = false says that all ranks bring as many");
  if (options.sync_batch_norm)
    return bad_training(given + "sync_batch_norm takes as many from each rank: pad the last batch");
  return {};
}

}  // namespace

Status check(const TrainingOptions& options) {
  const Optimizer& optimizer = options.optimizer;
  if (graph::columns_of(optimizer.op).family != graph::Family::OPTIMIZER)
    return bad_training("optimizer.op = " + std::string(name(optimizer.op)) +
                        ": give sgd, momentum, adam or adamw");
  if (!(std::isfinite(optimizer.rate) && optimizer.rate >= 0))
    return bad_training("optimizer.rate = " + number(optimizer.rate) + ": give 0 or more");
  if (!(std::isfinite(options.clip_norm) && options.clip_norm >= 0))
    return bad_training("clip_norm = " + number(options.clip_norm) + ": give 0 (never) or more");
  if (options.ranks == 0) return bad_training("ranks = 0: give the size of the communicator");
  TN_TRY(check_samples(options));
  return options.scaling ? check(*options.scaling) : Status();
}

std::string rules(const TrainingOptions& options) {
  const Optimizer& optimizer = options.optimizer;
  std::string out = "optimizer " + std::string(name(optimizer.op)) + "\nrate " + number(optimizer.rate);
  for (const Attribute& one : optimizer.attributes) out += "\n" + one.name + " " + graph::words(one.value);
  for (const std::string& one : optimizer.no_decay) out += "\nno_decay " + one;
  for (const std::string& one : options.stop_gradient) out += "\nstop_gradient " + one;
  out += "\nclip_norm " + number(options.clip_norm);
  if (!options.scaling) return out + "\nno loss scaling";
  const LossScaling& scaling = *options.scaling;
  return out + "\nloss scaling " + (scaling.dynamic ? "" : "not ") + "dynamic, init " + number(scaling.init) +
         ", incr_every_n_steps " + std::to_string(scaling.incr_every_n_steps) + ", decr_every_n_nan_or_inf " +
         std::to_string(scaling.decr_every_n_nan_or_inf) + ", incr_ratio " + number(scaling.incr_ratio) +
         ", decr_ratio " + number(scaling.decr_ratio);
}

}  // namespace tenon::train
