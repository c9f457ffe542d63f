// SPDX-License-Identifier: Apache-2.0
// pass.cpp: a pass over tiles that sums what it computes.
//
// Elements are cut into chunks by the shape alone. Chunk c belongs to lane c mod lanes, which folds its chunks in order into
// sums of its own; the lanes' sums are merged in order at the end. Where rows have sums of their own, a chunk is whole rows,
// and finishes them.
#include "pass.hpp"

#include "chain_nodes.hpp"
#include "epilogue.hpp"
#include "past_cache.hpp"
#include "reduce_ops.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

constexpr uint64_t chunk_elements = 16 << 10;
constexpr uint64_t most_lanes = 32;
constexpr uint32_t finished_at_once = 512;

// One reduction of a pass: its value is the chain's result of the same number.
struct Fold {
  ReduceOps ops;
  Place to;
  View to_view;
  StoreFn store;
};

struct Walk {
  uint64_t count, row;    // elements, and those of one row
  uint64_t chunk, lanes;  // elements of a chunk
  bool rows;              // each `unit` elements have `outputs` sums of their own, else all have them
  uint64_t unit, outputs;
  View sums;  // the sum of each element

  uint64_t length() const noexcept { return (rows ? unit : count) / outputs; }  // behind one sum
  uint64_t chunk_sums() const noexcept { return rows ? chunk / unit * outputs : outputs; }
};

class PassStep final : public RangedStep {
 public:
  PassStep(const Walk& walk, Reg reg, Chain chain, std::vector<Fold> folds, const Place& sums)
      : walk_(walk), reg_(reg), chain_(std::move(chain)), folds_(std::move(folds)), sums_(sums) {}

  std::string engine() const override { return folds_.empty() ? "pass" : "pass+reduce"; }

  Status run(const Run& run) const override {
    open(run);
    run_rows(run, 0, walk_.count / walk_.row);
    close(run);
    return {};
  }

  void open(const Run& run) const override {
    for (uint64_t lane = 0; !walk_.rows && lane < walk_.lanes; ++lane) start(run, lane, walk_.outputs);
  }

  void run_rows(const Run& run, uint64_t first, uint64_t end) const override {
    const uint64_t from = first * walk_.row, to = end * walk_.row;
    const uint64_t work = std::max<uint64_t>(1, (to - from) / walk_.lanes);
    run.team.run(walk_.lanes, std::max<uint64_t>(1, parallel_grain / work),
                 [&](uint64_t lane, uint64_t last) {
                   Chain::Scratch scratch;
                   for (; lane < last; ++lane) run_lane(run, lane, from, to, scratch);
                   finish_past_cache();
                 });
  }

  void close(const Run& run) const override {
    if (walk_.rows) return;
    for (size_t f = 0; f < folds_.size(); ++f) {
      for (uint64_t lane = 1; lane < walk_.lanes; ++lane)
        folds_[f].ops.merge(sums(run, 0, f), sums(run, lane, f), static_cast<uint32_t>(walk_.outputs));
      finish(run, f, sums(run, 0, f), 0, walk_.outputs);
    }
  }

 private:
  Accumulator* sums(const Run& run, uint64_t lane, size_t fold) const noexcept {
    return reinterpret_cast<Accumulator*>(run.at(sums_)) + (lane * folds_.size() + fold) * walk_.chunk_sums();
  }
  void start(const Run& run, uint64_t lane, uint64_t n) const {
    for (size_t f = 0; f < folds_.size(); ++f)
      folds_[f].ops.start(sums(run, lane, f), static_cast<uint32_t>(n));
  }

  // The lane's chunks of [from, to), each maybe cut at either end.
  void run_lane(const Run& run, uint64_t lane, uint64_t from, uint64_t to, Chain::Scratch& scratch) const {
    const uint64_t first = from / walk_.chunk,
                   ahead = (lane + walk_.lanes - first % walk_.lanes) % walk_.lanes;
    for (uint64_t chunk = first + ahead; chunk * walk_.chunk < to; chunk += walk_.lanes)
      run_chunk(run, lane, std::max(from, chunk * walk_.chunk), std::min(to, (chunk + 1) * walk_.chunk),
                scratch);
  }

  void run_chunk(const Run& run, uint64_t lane, uint64_t from, uint64_t to, Chain::Scratch& scratch) const {
    const uint64_t first = walk_.rows ? from / walk_.unit * walk_.outputs : 0,
                   n = walk_.rows ? (to - from) / walk_.unit * walk_.outputs : 0;
    if (walk_.rows) start(run, lane, n);
    for (uint64_t at = from; at < to; at += chain_.tile()) {
      const auto now = static_cast<uint32_t>(std::min<uint64_t>(chain_.tile(), to - at));
      const Chain::Tiles tiles = chain_.read(run, at, now, scratch, true);
      for (size_t f = 0; f < folds_.size(); ++f)
        fold(folds_[f].ops, sums(run, lane, f), first, at, now, static_cast<const std::byte*>(tiles.of(f)));
    }
    for (size_t f = 0; walk_.rows && f < folds_.size(); ++f) finish(run, f, sums(run, lane, f), first, n);
  }

  // Neighbours either have one sum, or neighbouring ones.
  void fold(const ReduceOps& ops, Accumulator* to, uint64_t first, uint64_t at, uint32_t n,
            const std::byte* tile) const {
    walk_.sums.for_runs(at, n, [&](int64_t sum, uint64_t length, int64_t stride) {
      Accumulator* const sums = to + (static_cast<uint64_t>(sum) - first);
      const auto fold = stride == 0 ? ops.fold_row : ops.fold_columns;
      fold(sums, tile, static_cast<uint32_t>(length), 0);
      tile += length * class_bytes(reg_);
    });
  }

  void finish(const Run& run, size_t f, const Accumulator* from, uint64_t first, uint64_t n) const {
    alignas(64) std::byte values[finished_at_once * 8];
    const Fold& fold = folds_[f];
    for (uint64_t done = 0; done < n; done += finished_at_once) {
      const auto now = static_cast<uint32_t>(std::min<uint64_t>(finished_at_once, n - done));
      fold.ops.finish(from + done, now, walk_.length(), values);
      fold.store(fold.to_view, run.at(fold.to), first + done, now, values);
    }
  }

  Walk walk_;
  Reg reg_;
  Chain chain_;
  std::vector<Fold> folds_;
  Place sums_;
};

// The number of each element's sum, in the order of the elements.
View sums_of(const PassForm& form) {
  std::array<int64_t, TN_MAX_RANK> strides{};
  int64_t step = 1;
  for (size_t i = form.dims.size(); i-- > 0;) {
    if (form.reduced[i]) continue;
    strides[i] = step;
    step *= form.dims[i];
  }
  return View(TN_DTYPE_f32, form.dims, {strides.data(), form.dims.size()});
}

Walk walk_of(const PassForm& form) {
  Walk walk{.count = 1, .row = 1, .rows = form.rows, .unit = form.unit, .outputs = form.outputs};
  for (const int64_t dim : form.dims) walk.count *= static_cast<uint64_t>(dim);
  if (!form.dims.empty()) walk.row = static_cast<uint64_t>(form.dims.back());
  const uint64_t whole = form.rows ? form.unit : walk.row <= chunk_elements ? walk.row : 1;
  walk.chunk = std::max<uint64_t>(1, chunk_elements / whole) * whole;
  walk.lanes = std::clamp<uint64_t>((walk.count + walk.chunk - 1) / walk.chunk, 1, most_lanes);
  // The sums of all lanes take no more than a part of what is read.
  if (!form.reductions.empty() && !form.rows)
    walk.lanes = std::clamp<uint64_t>(walk.count / 8 / walk.outputs, 1, walk.lanes);
  if (!form.reductions.empty()) walk.sums = sums_of(form);
  return walk;
}

class Build {
 public:
  Build(Builder& builder, const Nodes& nodes, PassForm form)
      : builder_(builder),
        fragment_(builder.fragment()),
        nodes_(nodes),
        form_(std::move(form)),
        chain_(form_.reg),
        values_(fragment_.tensors().size(), Chain::none) {}

  Status run() {
    for (uint32_t n = nodes_.first; n < nodes_.end; ++n) {
      const tn_node& node = fragment_.nodes()[n];
      if (is_chained(node.op)) add(node);
    }
    const Walk walk = walk_of(form_);
    std::vector<Fold> folds;
    for (const uint32_t n : form_.reductions) folds.push_back(fold(fragment_.nodes()[n]));
    if (!chain_.finish())
      return Status(TN_UNSUPPORTED, "more values live at once than a pass holds in L1: cut the fragment");
    const Place sums = builder_.scratch(walk.lanes * folds.size() * walk.chunk_sums() * sizeof(Accumulator));
    builder_.add(std::make_unique<PassStep>(walk, form_.reg, std::move(chain_), std::move(folds), sums));
    return {};
  }

 private:
  Chain::Value value_of(uint32_t tensor) {
    Chain::Value& value = values_[tensor];
    if (value == Chain::none)
      value = chain_.load(builder_.place(tensor), View(fragment_.tensor(tensor), form_.dims));
    return value;
  }

  void add(const tn_node& node) {
    const uint32_t made = node.outputs[0];
    Chain::Value operands[3] = {Chain::none, Chain::none, Chain::none};
    for (uint32_t i = 0; i < operand_count(node); ++i) operands[i] = value_of(node.inputs[i]);
    const Chain::Value value = chain_node(builder_, chain_, form_.reg, node, operands);
    values_[made] = value;
    const TensorView tensor = fragment_.tensor(made);
    if (wanted_outside(fragment_, made, nodes_))
      chain_.store(value, builder_.output_place(made), tensor.dtype(), tensor.elements(), true);
  }

  Fold fold(const tn_node& node) {
    chain_.result(value_of(node.inputs[0]));
    const TensorView to = fragment_.tensor(node.outputs[0]);
    return {.ops = reduce_ops(node.op, fragment_.tensor(node.inputs[0]).dtype()),
            .to = builder_.output_place(node.outputs[0]),
            .to_view = View(to),
            .store = store_op(to.dtype())};
  }

  Builder& builder_;
  const FragmentView& fragment_;
  Nodes nodes_;
  PassForm form_;
  Chain chain_;
  std::vector<Chain::Value> values_;  // by tensor
};

}  // namespace

Status build_pass(Builder& builder, uint32_t first, uint32_t end, unsigned /*threads*/) {
  const Nodes nodes{first, end};
  return Build(builder, nodes, TN_TRY(pass_of(builder.fragment(), nodes))).run();
}

}  // namespace tenon::cpu
