// SPDX-License-Identifier: Apache-2.0
// update_kind.cpp: the piece of code of one kind of job: loads, arithmetic, stores.
//
// A thread takes `unroll` chunks of `lanes` neighbours, 256 of them apart, so that a warp's accesses are neighbours; all loads
// stand before the first use, and before every store, since any result may take the place of any operand. What is left of a
// tensor behind its last whole chunk is taken element by element by the block of its first one.
#include "literal.hpp"
#include "update.hpp"

#include <algorithm>

namespace tenon::cuda {

using author::text;

namespace {

// Which elements the threads of a block take, as the source spells it.
struct BlockWalk {
  UpdateTile tile{};
  std::string index{}, wanted{};  // of the chunk, in a loop over u; whether it is there
  std::string where{};            // where its first element lies in a flat operand
};

class KindText {
 public:
  KindText(Source& out, const UpdateKind& kind, uint32_t dtype, const std::string& step)
      : out_(out), kind_(kind), computed_(register_type(dtype)), step_(step) {}

  void write(const UpdateTile& tile) {
    if (kind_.op == TN_OP_update_loss_scaling) return loss_scale();
    if (scans()) out_.line("bool bad = false;");
    out_.line("const u64 most = job.count", over(tile.lanes), ";");
    out_.line("const u64 from = static_cast<u64>(chunk - begin) * ", tile.unroll * 256, "u + threadIdx.x;");
    walk({.tile = tile,
          .index = "from + u * 256u",
          .wanted = "i < most",
          .where = text("i", times(tile.lanes))});
    if (tile.tail) {
      out_.open("if (chunk == begin && threadIdx.x < job.count % ", tile.lanes, "u)");
      walk({.tile = {}, .index = text("most * ", tile.lanes, "u + threadIdx.x"), .wanted = "", .where = "i"});
      out_.close();
    }
    if (scans()) raise();
  }

 private:
  bool scans() const { return kind_.op == TN_OP_check_finite_and_unscale; }
  static std::string over(uint32_t lanes) { return lanes > 1 ? text(" / ", lanes, "u") : ""; }
  static std::string times(uint32_t lanes) { return lanes > 1 ? text(" * ", lanes, "u") : ""; }
  std::string place(size_t i) const { return text("at(job.at[", i, "])"); }
  size_t slot(const UpdateOperand& write) const {
    return kind_.reads.size() + static_cast<size_t>(&write - kind_.writes.data());
  }
  const UpdateOperand* read(std::string_view name) const {
    const auto found = std::ranges::find(kind_.reads, name, &UpdateOperand::name);
    return found == kind_.reads.end() ? nullptr : &*found;
  }

  void open_chunks(const BlockWalk& walk) {
    out_.open_unrolled("u", walk.tile.unroll);
    out_.line("[[maybe_unused]] const u64 i = ", walk.index, ";");
    if (!walk.wanted.empty()) out_.open("if (", walk.wanted, ")");
    if (!kind_.flat)
      out_.line("[[maybe_unused]] const Offsets<", kind_.reads.size() + kind_.writes.size(),
                "> offset = offsets_of<", kind_.reads.size() + kind_.writes.size(), ">(shapes", step_,
                " + job.shape, i);");
  }
  void close_chunks(const BlockWalk& walk) {
    if (!walk.wanted.empty()) out_.close();
    out_.close();
  }
  std::string element(const BlockWalk& walk, size_t operand) const {
    return kind_.flat ? walk.where : text("offset.at[", operand, "]");
  }
  static uint32_t word(const UpdateTile& tile, uint32_t dtype) {
    return std::min(16u, tile.lanes * bytes_of(dtype));
  }

  // Operands begin as zeros: left without a value, those of all kinds would be kept in registers from chunk to chunk.
  void walk(const BlockWalk& walk) {
    for (const UpdateOperand& one : kind_.reads)
      out_.line("Lanes<", stored_type(one.dtype), ", ", walk.tile.lanes, "> ", one.name, "[",
                walk.tile.unroll, "] = {};");
    open_chunks(walk);
    for (size_t n = 0; n < kind_.reads.size(); ++n) {
      const UpdateOperand& one = kind_.reads[n];
      out_.line(one.name, "[u] = load<", walk.tile.lanes, ", ", word(walk.tile, one.dtype), ", ",
                one.read_only ? "true" : "false", ">(static_cast<const ", stored_type(one.dtype), "*>(",
                place(n), ") + ", element(walk, n), ");");
    }
    close_chunks(walk);
    open_chunks(walk);
    for (const UpdateOperand& one : kind_.writes)
      out_.line("Lanes<", stored_type(one.dtype), ", ", walk.tile.lanes, "> next_", one.name, ";");
    out_.open_unrolled("v", walk.tile.lanes);
    compute();
    out_.close();
    for (const UpdateOperand& one : kind_.writes)
      out_.line("store<", walk.tile.lanes, ", ", word(walk.tile, one.dtype), ">(static_cast<",
                stored_type(one.dtype), "*>(", place(slot(one)), ") + ", element(walk, slot(one)), ", next_",
                one.name, ");");
    close_chunks(walk);
  }

  void compute() {
    if (kind_.op == TN_OP_identity) {
      out_.line("next_value.at[v] = value[u].at[v];");
    } else if (scans()) {
      out_.line("bad = bad || !is_finite(widen(gradient[u].at[v]));");
      if (!kind_.writes.empty())
        out_.line("next_gradient.at[v] = divided(gradient[u].at[v], f.scale, f.inverse);");
    } else {
      optimize();
    }
  }

  // An operand as it is computed with.
  std::string wide(std::string_view name) const {
    const std::string value = text("widen(", name, "[u].at[v])");
    const bool same = computed_ == std::string_view(register_type(read(name)->dtype));
    return same ? value : text("static_cast<", computed_, ">(", value, ")");
  }
  // `value`, of the type computed in, as an element of `dtype`: rounded once.
  std::string narrowed(const std::string& value, uint32_t dtype) const {
    const bool direct = computed_ == std::string_view(register_type(dtype));
    return direct ? text("stored<", stored_type(dtype), ">(", value, ")")
                  : text("stored<", stored_type(dtype), ">(cast<", stored_type(dtype), ">(", value, "))");
  }

  void optimize() {
    if (kind_.divides) out_.line("gradient[u].at[v] = divided(gradient[u].at[v], f.scale, f.inverse);");
    const std::string_view weight = read("weight") != nullptr ? "weight" : "master";
    std::string call = kind_.op == TN_OP_momentum
                           ? text("momentum<", kind_.nesterov ? "true" : "false", ">(f, ")
                           : text(author::op_name(kind_.op), "(f, ");
    call += wide(weight) + ", " + wide("gradient");
    for (const std::string_view state : {"state0", "state1"}) {
      if (read(state) != nullptr) call += ", " + wide(state);
    }
    out_.line("const Updated<", computed_, "> made = ", call, ");");
    for (const UpdateOperand& one : kind_.writes)
      out_.line("next_", one.name, ".at[v] = ", next(one, weight), ";");
  }

  // What a bad step keeps it keeps bit by bit; a weight beside its master is always the master, rounded.
  std::string next(const UpdateOperand& one, std::string_view weight) const {
    std::string made = "made.weight";
    if (one.name == "gradient") made = "made.gradient";
    if (one.name.starts_with("state")) made = text("made.state[", one.name.substr(5), "]");
    if (read(one.name) != nullptr)
      return text("f.held ? ", one.name, "[u].at[v] : ", narrowed(made, one.dtype));
    return narrowed(text("f.held ? ", wide(weight), " : ", made), one.dtype);
  }

  // Threads that find something raise the one flag to the same value, so their order does not matter; once each is enough.
  void raise() {
    const std::string flag = text("job.at[", kind_.reads.size() + kind_.writes.size(), "]");
    out_.open("if (bad && told != ", flag, ")");
    out_.line("told = ", flag, ";");
    out_.line("*static_cast<f32*>(at(told)) = 1.0f;");
    out_.close();
  }

  void loss_scale() {
    out_.open("if (threadIdx.x == 0)");
    std::string arguments;
    for (size_t i = 0; i < 4; ++i) arguments += text(", scalar_at(job.at[", i, "], 0.0f, at)");
    out_.line("const LossScale made = next_loss_scale(settings", step_, "[job.setting]", arguments, ");");
    for (const UpdateOperand& one : kind_.writes)
      out_.line("*static_cast<f32*>(", place(slot(one)), ") = made.", one.name, ";");
    out_.close();
  }

  Source& out_;
  const UpdateKind& kind_;
  const std::string_view computed_;
  const std::string& step_;
};

}  // namespace

UpdateTile tile_of(const UpdateKind& kind, bool wide) {
  if (!kind.flat || kind.op == TN_OP_update_loss_scaling) return {};
  uint32_t narrowest = 8, widest = 1;
  for (const auto* list : {&kind.reads, &kind.writes}) {
    for (const UpdateOperand& one : *list) {
      narrowest = std::min(narrowest, bytes_of(one.dtype));
      widest = std::max(widest, bytes_of(one.dtype));
    }
  }
  UpdateTile out{.lanes = wide ? std::min(16 / narrowest, 64 / widest) : 1, .unroll = 8};
  uint32_t loads = 0;
  for (const UpdateOperand& one : kind.reads) loads += std::max(1u, out.lanes * bytes_of(one.dtype) / 16);
  const uint32_t most = !wide ? 16 : kind.writes.empty() ? 8 : 4;
  while (out.unroll > 1 && out.unroll * loads > most) out.unroll /= 2;
  return out;
}

void write_update(Source& out, const UpdateKind& kind, uint32_t dtype, const UpdateTile& tile,
                  const std::string& step) {
  KindText(out, kind, dtype, step).write(tile);
}

}  // namespace tenon::cuda
