// SPDX-License-Identifier: Apache-2.0
// optimizer_job.cpp: bringing an optimizer's operands in, running its loop, taking its results out.
//
// Invariant: of a row all is read before anything is written, since any result may stand in the place of any operand.
#include "optimizer_job.hpp"

#include "optimizer_loops.hpp"
#include "optimizer_operand.hpp"
#include "scaling_loops.hpp"

#include <cmath>

namespace tenon::cpu {
namespace {

float scalar(const Run& run, const Place& place) noexcept {
  return *reinterpret_cast<const float*>(run.at(place));
}
bool is_there(const Place& place) noexcept { return place.kind != Place::Kind::none; }

// An op's attributes, as numbers.
struct Settings {
  uint32_t op;
  bool nesterov;
  double decay, momentum, beta[2], epsilon;

  explicit Settings(const tn_node& node)
      : op(node.op),
        nesterov(author::attribute_i64(node, "nesterov").value_or(0) != 0),
        decay(author::attribute_f64(node, "weight_decay").value_or(0)),
        momentum(author::attribute_f64(node, "momentum").value_or(0)),
        beta{author::attribute_f64(node, "beta1").value_or(0),
             author::attribute_f64(node, "beta2").value_or(0)},
        epsilon(author::attribute_f64(node, "epsilon").value_or(0)) {}
};

template <class T>
class OptimizerJob final : public Job {
 public:
  OptimizerJob(const tn_node& node, const UpdateOperands& o)
      : settings_(node),
        count_(o.weight.view.count()),
        weight_(operand(o.master.there() ? o.master : o.weight)),
        gradient_(operand(o.gradient)),
        state_{operand(o.state[0]), operand(o.state[1])},
        next_(operand(o.next_master.there() ? o.next_master : o.next_weight)),
        rounded_(operand(o.next_master.there() ? o.next_weight : UpdateOperand{})),
        next_state_{operand(o.next_state[0]), operand(o.next_state[1])},
        next_gradient_(operand(o.next_gradient)),
        rate_(o.rate),
        step_(o.step),
        found_inf_(o.found_inf),
        inverse_scale_(o.inverse_scale),
        gradient_scale_(o.gradient_scale),
        widen_gradient_(widen_row(o.gradient.view.dtype())),
        narrow_gradient_(narrow_row(o.gradient.view.dtype())),
        divide_(unscale_row(std::is_same_v<T, float> ? TN_DTYPE_f32 : TN_DTYPE_f64)),
        loop_(update_loop<T>(node.op, settings_.nesterov, next_gradient_.there())),
        direct_(is_direct()) {}

  uint64_t count() const noexcept override { return count_; }

  void run(const Run& run, uint64_t begin, uint64_t n) const noexcept override {
    if (is_there(found_inf_) && scalar(run, found_inf_) != 0) return hold(run, begin, n);
    UpdateFigures<T> figures = figures_of(run);
    const bool divides = is_there(gradient_scale_) && !fold_into(run, figures);
    const uint64_t row = direct_ && !divides ? n : row_elements<T>;
    Rooms rooms;
    for (const uint64_t end = begin + n; begin < end; begin += std::min(row, end - begin))
      update(run, begin, std::min(row, end - begin), divides, figures, rooms);
  }

 private:
  using Operand = RowOperand<T>;
  struct Rooms {
    Room<T> weight, gradient, state[2], next, next_state[2], next_gradient;
  };

  static Operand operand(const UpdateOperand& o) { return o.there() ? Operand(o.place, o.view) : Operand(); }

  // Whether a row may be of any length: nothing passes through a room.
  bool is_direct() const noexcept {
    bool direct = weight_.direct() && gradient_.direct() && next_.direct() && !rounded_.there();
    for (size_t s = 0; s < 2; ++s) {
      if (state_[s].there()) direct = direct && state_[s].direct() && next_state_[s].direct();
    }
    return direct && (!next_gradient_.there() || next_gradient_.direct());
  }

  UpdateFigures<T> figures_of(const Run& run) const noexcept {
    const Settings& s = settings_;
    const double rate = scalar(run, rate_);
    UpdateFigures<T> out{.unscale = is_there(inverse_scale_) ? T(scalar(run, inverse_scale_)) : T(1),
                         .decay = static_cast<T>(s.decay),
                         .rate = static_cast<T>(rate),
                         .keep = {static_cast<T>(s.momentum)}};
    if (!is_there(step_)) return out;
    const double step = scalar(run, step_);
    const bool decoupled = s.op == TN_OP_adamw;
    out.decay = static_cast<T>(decoupled ? 0 : s.decay);
    out.shrink = static_cast<T>(decoupled ? 1 - rate * s.decay : 1);
    out.rate = static_cast<T>(rate / (1 - std::pow(s.beta[0], step)));
    out.root = static_cast<T>(1 / std::sqrt(1 - std::pow(s.beta[1], step)));
    out.epsilon = static_cast<T>(s.epsilon);
    for (size_t i = 0; i < 2; ++i) {
      out.keep[i] = static_cast<T>(s.beta[i]);
      out.take[i] = static_cast<T>(1 - s.beta[i]);
    }
    return out;
  }

  // Takes the division of a folded gradient into the loop's own factor, where that gives the same bits.
  bool fold_into(const Run& run, UpdateFigures<T>& figures) const noexcept {
    const float inverse = exact_inverse(scalar(run, gradient_scale_));
    if (inverse == 0 || figures.unscale != 1 || narrow_gradient_ != nullptr) return false;
    figures.unscale = static_cast<T>(inverse);
    return true;
  }

  const T* read_gradient(const Run& run, uint64_t begin, uint64_t n, bool divides,
                         Room<T>& room) const noexcept {
    const T* const row = gradient_.read(run, begin, n, room);
    if (!divides) return row;
    divide_(row, room.at, n, scalar(run, gradient_scale_));
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_gradient_ != nullptr) {
        alignas(64) uint16_t halves[row_elements<float>];
        narrow_gradient_(room.at, halves, n);
        widen_gradient_(halves, room.at, n);
      }
    }
    return room.at;
  }

  void update(const Run& run, uint64_t begin, uint64_t n, bool divides, const UpdateFigures<T>& figures,
              Rooms& rooms) const noexcept {
    UpdateRow<T> row{.weight = weight_.read(run, begin, n, rooms.weight),
                     .gradient = read_gradient(run, begin, n, divides, rooms.gradient),
                     .next = next_.target(run, begin, rooms.next),
                     .next_gradient = next_gradient_.target(run, begin, rooms.next_gradient),
                     .count = n};
    for (size_t s = 0; s < 2 && state_[s].there(); ++s) {
      row.state[s] = state_[s].read(run, begin, n, rooms.state[s]);
      row.next_state[s] = next_state_[s].target(run, begin, rooms.next_state[s]);
    }
    loop_(row, figures);
    if (rounded_.there()) rounded_.write(run, begin, n, row.next);
    if (next_.there()) next_.write(run, begin, n, row.next);
    for (size_t s = 0; s < 2; ++s) {
      if (next_state_[s].there()) next_state_[s].write(run, begin, n, row.next_state[s]);
    }
    if (next_gradient_.there()) next_gradient_.write(run, begin, n, row.next_gradient);
  }

  // A bad step.
  void hold(const Run& run, uint64_t begin, uint64_t n) const noexcept {
    struct Held {
      const Operand &from, &to;
      bool moves;
    } held[] = {{weight_, rounded_, true},
                {weight_, next_, true},
                {state_[0], next_state_[0], true},
                {state_[1], next_state_[1], true},
                {gradient_, next_gradient_, true}};
    const bool divides = is_there(gradient_scale_);
    bool any = false;
    for (Held& one : held) {
      const bool same =
          one.to.there() && one.to.same_memory(one.from, run) && !(divides && &one.from == &gradient_);
      one.moves = one.to.there() && !same;
      any = any || one.moves;
    }
    Room<T> rooms[std::size(held)];
    for (const uint64_t end = begin + n; any && begin < end;) {
      const uint64_t row = std::min(end - begin, row_elements<T>);
      for (size_t i = 0; i < std::size(held); ++i) {
        if (!held[i].moves) continue;
        const bool gradient = &held[i].from == &gradient_;
        const T* const at = gradient ? read_gradient(run, begin, row, divides, rooms[i])
                                     : held[i].from.read(run, begin, row, rooms[i]);
        if (at != rooms[i].at) std::memcpy(rooms[i].at, at, row * sizeof(T));
      }
      for (size_t i = 0; i < std::size(held); ++i) {
        if (held[i].moves) held[i].to.write(run, begin, row, rooms[i].at);
      }
      begin += row;
    }
  }

  Settings settings_;
  uint64_t count_;
  Operand weight_, gradient_, state_[2];  // weight_: the master where there is one
  Operand next_, rounded_, next_state_[2], next_gradient_;
  Place rate_, step_, found_inf_, inverse_scale_, gradient_scale_;
  WidenRow widen_gradient_;
  NarrowRow narrow_gradient_;
  UnscaleRow divide_;
  UpdateLoop<T> loop_;
  bool direct_;
};

bool has_f64(const UpdateOperands& o) {
  const UpdateOperand* const all[] = {&o.weight, &o.gradient, &o.state[0], &o.state[1], &o.master};
  return std::any_of(std::begin(all), std::end(all), [](const UpdateOperand* one) {
    return one->there() && one->view.dtype() == TN_DTYPE_f64;
  });
}

}  // namespace

std::unique_ptr<Job> optimizer_job(const tn_node& node, const UpdateOperands& operands) {
  if (has_f64(operands)) return std::make_unique<OptimizerJob<double>>(node, operands);
  return std::make_unique<OptimizerJob<float>>(node, operands);
}

}  // namespace tenon::cpu
