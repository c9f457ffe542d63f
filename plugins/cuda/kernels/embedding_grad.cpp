// SPDX-License-Identifier: Apache-2.0
// embedding_grad.cpp: each row of the table gathers the rows of dy whose index it is.
//
// The indices are sorted first, with what they are the indices of, by a stable sort in the workspace: a pass of three steps for
// each eight bits of the table's rows. Two more steps find where each row's part begins, and add up whole pieces of 128 that
// one row fills, so that a row which a large part of all indices names (a padding token) is not one thread's work alone.
// What it costs for M indices, V rows of D: 8·M bytes read and written in each pass, log2 M looks for each row, and dy read and
// the table written once.
// Invariant: a row's sum is in the order of the indices, cut at multiples of 128 of the sorted ones: equal launches give equal
// bits, and no float is added atomically.
#include "alone.hpp"
#include "body.hpp"
#include "families.hpp"
#include "literal.hpp"
#include "prelude.hpp"
#include "walk.hpp"

#include <bit>

namespace tenon::cuda {

using author::text;

namespace {

constexpr uint64_t piece = 128;
constexpr uint64_t most_indices = uint64_t{1} << 31;

uint64_t rounded_room(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

// The workspace, by part.
struct Room {
  uint64_t keys[2] = {}, elements[2] = {}, counts = 0, totals = 0, starts = 0, pieces = 0, bytes = 0;
};

class EmbeddingGrad {
 public:
  EmbeddingGrad(const FragmentView& fragment, const Target& target)
      : fragment_(fragment),
        indices_(NodeView(fragment, 0).in(0)),
        dy_(NodeView(fragment, 0).in(1)),
        table_(fragment.output(0)),
        count_(indices_.elements()),
        rows_(static_cast<uint64_t>(table_.dims()[0])),
        width_(static_cast<uint64_t>(table_.dims()[1])),
        lookups_(indices_.dims()) {
    lay_lookups();
    const uint64_t wanted = uint64_t{target.multiprocessors} * 2;
    per_block_ = std::max<uint64_t>(1024, (count_ / wanted + block_threads) / block_threads * block_threads);
    blocks_ = (count_ + per_block_ - 1) / per_block_;
    lay_workspace();
  }

  uint64_t workspace() const { return table_.elements() == 0 ? 0 : room_.bytes; }

  void write(Source& out, Program& program) const {
    if (table_.elements() == 0) return;
    write_lookups(out);
    for (uint32_t pass = 0; count_ != 0 && pass < passes(); ++pass) write_pass(out, program, pass);
    if (count_ != 0) write_starts(out, program);
    if (count_ >= piece) write_sums(out, program, "pieces", &EmbeddingGrad::write_piece, count_ / piece);
    write_sums(out, program, "rows", &EmbeddingGrad::write_row, rows_);
  }

 private:
  using Writer = void (EmbeddingGrad::*)(Source&, uint32_t) const;

  // Keys are rows, and one more for what lies outside of the table.
  uint32_t passes() const { return (static_cast<uint32_t>(std::bit_width(rows_)) + 7) / 8; }
  uint32_t dtype() const { return table_.dtype(); }
  std::string type() const { return stored_type(dtype()); }
  std::string computed() const { return register_type(dtype()); }
  std::string workspace_of(uint64_t offset, const std::string& element) const {
    return text("reinterpret_cast<", element, "*>(static_cast<u8*>(p.at[", fragment_.binding_count(), "]) + ",
                offset, "ull)");
  }
  std::string words(uint64_t offset) const { return workspace_of(offset, "u32"); }

  void lay_lookups() {
    const Index index = lookups_.index();
    const auto steps = indices_.strides(), rows = dy_.strides();
    index_ = lookups_.add(dot(index, std::span(steps).first(indices_.rank())));
    row_ = lookups_.add(dot(index, std::span(rows).first(indices_.rank())));
    lookups_.close(index_);
  }

  void lay_workspace() {
    const auto reserve = [&](uint64_t bytes) {
      const uint64_t at = room_.bytes;
      room_.bytes += rounded_room(bytes);
      return at;
    };
    if (count_ == 0) return;
    for (uint32_t i = 0; i < std::min(passes(), 2u); ++i) {
      room_.keys[i] = reserve(count_ * 4);
      room_.elements[i] = reserve(count_ * 4);
    }
    room_.counts = reserve(blocks_ * 256 * 4);
    room_.totals = reserve(256 * 4);
    room_.starts = reserve((rows_ + 1) * 4);
    room_.pieces = reserve(count_ / piece * width_ * (bytes_of(dtype()) == 8 ? 8 : 4));
  }

  // Where an index and its row of dy are, by its number.
  void write_lookups(Source& out) const {
    out.line();
    const auto function = [&](const char* name, uint32_t sum) {
      out.open("__device__ inline ", lookups_.number(), " ", name, "([[maybe_unused]] u32 i)");
      lookups_.decode(out, "i");
      out.line("return ", lookups_.at(sum), ";");
      out.close();
    };
    function("index_at", index_);
    function("row_at", row_);
    const std::string held = stored_type(indices_.dtype());
    out.open("__device__ inline u32 row_of(const ", held, "* indices, u32 i)");
    out.line("const u64 row = static_cast<u64>(indices[index_at(i)]);");
    out.line("return row < ", rows_, "ull ? static_cast<u32>(row) : ", rows_, "u;");
    out.close();
  }

  void add_step(Source& out, Program& program, const std::string& name, uint64_t blocks,
                const std::function<void()>& body) const {
    out.line();
    out.open("TN_ENTRY(", name, ", Addresses)");
    body();
    out.close();
    program.steps.push_back(
        {.wide = {},
         .any = {.name = name, .blocks = static_cast<uint32_t>(blocks), .threads = block_threads}});
  }

  // The first pass reads the indices, the others what the pass before has left.
  void write_keys(Source& out, uint32_t pass) const {
    const uint32_t from = (pass + 1) % 2;
    if (pass == 0) {
      out.line("const ", stored_type(indices_.dtype()), "* const indices = static_cast<const ",
               stored_type(indices_.dtype()), "*>(p.at[", binding_of(fragment_, 0), "]);");
      out.line("const auto key = [=](u32 i) { return row_of(indices, i); };");
      out.line("[[maybe_unused]] const auto element = [](u32 i) { return i; };");
    } else {
      out.line("const u32 *const keys = ", words(room_.keys[from]),
               ", *const elements = ", words(room_.elements[from]), ";");
      out.line("const auto key = [=](u32 i) { return keys[i]; };");
      out.line("[[maybe_unused]] const auto element = [=](u32 i) { return elements[i]; };");
    }
    out.line("const u32 begin = blockIdx.x * ", per_block_, "u, end = begin + ", per_block_, "u < ", count_,
             "u ? begin + ", per_block_, "u : ", count_, "u;");
  }

  void write_pass(Source& out, Program& program, uint32_t pass) const {
    const uint32_t shift = pass * 8, to = pass % 2;
    add_step(out, program, text("count", pass), blocks_, [&] {
      write_keys(out, pass);
      out.line("count_digits(key, begin, end, ", shift, ", ", words(room_.counts), ");");
    });
    add_step(out, program, text("sum", pass), 256, [&] {
      out.line("sum_digits(", words(room_.counts), ", ", words(room_.totals), ", ", blocks_, "u);");
    });
    add_step(out, program, text("place", pass), blocks_, [&] {
      write_keys(out, pass);
      out.line("place_digits(key, element, begin, end, ", shift, ", ", words(room_.counts), ", ",
               words(room_.totals), ", ", words(room_.keys[to]), ", ", words(room_.elements[to]), ");");
    });
  }

  void write_starts(Source& out, Program& program) const {
    add_step(out, program, "starts", rows_ / block_threads + 1, [&] {
      out.line("const u32 row = blockIdx.x * ", block_threads, "u + threadIdx.x;");
      out.line("if (row <= ", rows_, "u) (", words(room_.starts), ")[row] = first_at_least(", sorted_keys(),
               ", ", count_, "u, row);");
    });
  }

  std::string sorted_keys() const { return words(room_.keys[(passes() + 1) % 2]); }
  std::string sorted_elements() const { return words(room_.elements[(passes() + 1) % 2]); }

  // Lanes along the rows of dy and of the table.
  uint32_t lanes() const {
    const uint32_t lanes = 16 / bytes_of(dtype());
    const auto to = table_.strides();
    const auto from = dy_.strides();
    bool fits = width_ % lanes == 0 && to[1] == 1 && from[dy_.rank() - 1] == 1 && to[0] % lanes == 0;
    for (uint32_t i = 0; i + 1 < dy_.rank(); ++i) fits = fits && (dy_.dims()[i] == 1 || from[i] % lanes == 0);
    return fits ? lanes : 1;
  }

  // A thread for each chunk of `count` rows of sums.
  void write_sums(Source& out, Program& program, const char* name, Writer writer, uint64_t count) const {
    Step step;
    const auto entry = [&](const std::string& suffix, uint32_t lanes) {
      const uint64_t columns = width_ / lanes, chunks = count * columns;
      const std::string entry_name = name + suffix;
      out.line();
      out.open("TN_ENTRY(", entry_name, ", Addresses)");
      out.line("const u64 chunk = static_cast<u64>(blockIdx.x) * ", block_threads, "u + threadIdx.x;");
      out.open("if (chunk < ", chunks, "ull)");
      out.line("const u32 row = static_cast<u32>(chunk / ", columns, "ull);");
      out.line("const u64 column = chunk % ", columns, "ull * ", lanes, "u;");
      out.line(computed(), " all[", lanes, "] = {};");
      (this->*writer)(out, lanes);
      out.close();
      out.close();
      return Entry{.name = entry_name,
                   .blocks = static_cast<uint32_t>((chunks + block_threads - 1) / block_threads),
                   .threads = block_threads};
    };
    if (lanes() > 1) step.wide = entry("_wide", lanes());
    step.any = entry("_any", 1);
    program.steps.push_back(std::move(step));
  }

  // Adds the rows of dy of sorted elements begin … end - 1.
  void add_rows(Source& out, uint32_t lanes, const std::string& begin, const std::string& end) const {
    const auto from = dy_.strides();
    out.plain("#pragma unroll 4\n");
    out.open("for (u32 i = ", begin, "; i < ", end, "; ++i)");
    out.line("const Lanes<", type(), ", ", lanes, "> dy = load<", lanes, ", ", lanes * bytes_of(dtype()),
             ", true>(static_cast<const ", type(), "*>(p.at[", binding_of(fragment_, 1), "]) + (row_at((",
             sorted_elements(), ")[i]) + column * ", from[dy_.rank() - 1], "));");
    add_lanes(out, lanes, "widen(dy.at[v])");
    out.close();
  }
  static void add_lanes(Source& out, uint32_t lanes, const std::string& value) {
    out.open_unrolled("v", lanes);
    out.line("all[v] = add(all[v], ", value, ");");
    out.close();
  }
  std::string piece_at(const std::string& number) const {
    return text(workspace_of(room_.pieces, computed()), " + (", number, " * ", width_, "ull + column)");
  }

  // A piece that one row of the table fills; the others are left to their rows.
  void write_piece(Source& out, uint32_t lanes) const {
    out.line("const u32 first = row * ", piece, "u, key = (", sorted_keys(), ")[first];");
    out.open("if (key < ", rows_, "u && key == (", sorted_keys(), ")[first + ", piece - 1, "u])");
    add_rows(out, lanes, "first", text("first + ", piece, "u"));
    out.line("Lanes<", computed(), ", ", lanes, "> sum;");
    out.open_unrolled("v", lanes);
    out.line("sum.at[v] = all[v];");
    out.close();
    out.line("store<", lanes, ", ", piece_bytes(lanes), ">(", piece_at("static_cast<u64>(row)"), ", sum);");
    out.close();
  }

  // Up to the first whole piece, the pieces, and what is behind the last.
  void write_row(Source& out, uint32_t lanes) const {
    if (count_ != 0) {
      const std::string starts = words(room_.starts);
      out.line("const u32 begin = (", starts, ")[row], end = (", starts, ")[row + 1];");
      if (count_ >= piece) {
        out.line("const u32 whole = (begin + ", piece - 1, "u) / ", piece, "u, after = end / ", piece, "u;");
        out.line("const u32 head = whole < after ? whole * ", piece,
                 "u : end, tail = whole < after ? after * ", piece, "u : end;");
        add_rows(out, lanes, "begin", "head");
        out.open("for (u32 i = whole; i < after; ++i)");
        out.line("const Lanes<", computed(), ", ", lanes, "> sum = load<", lanes, ", ", piece_bytes(lanes),
                 ", false>(", piece_at("static_cast<u64>(i)"), ");");
        add_lanes(out, lanes, "sum.at[v]");
        out.close();
        add_rows(out, lanes, "tail", "end");
      } else {
        add_rows(out, lanes, "begin", "end");
      }
    }
    out.line("Lanes<", type(), ", ", lanes, "> to;");
    out.open_unrolled("v", lanes);
    out.line("to.at[v] = stored<", type(), ">(all[v]);");
    out.close();
    const auto steps = table_.strides();
    out.line("store<", lanes, ", ", lanes * bytes_of(dtype()), ">(static_cast<", type(), "*>(p.at[",
             output_binding(fragment_), "]) + (static_cast<u64>(row) * ", steps[0], " + column * ", steps[1],
             "), to);");
  }

  uint32_t piece_bytes(uint32_t lanes) const {
    return std::min<uint32_t>(16, lanes * (bytes_of(dtype()) == 8 ? 8 : 4));
  }

  const FragmentView& fragment_;
  TensorView indices_, dy_, table_;
  uint64_t count_, rows_, width_, per_block_ = 0, blocks_ = 0;
  Walk lookups_;
  uint32_t index_ = 0, row_ = 0;
  Room room_{};
};

}  // namespace

bool takes_embedding_grad(const FragmentView& fragment) {
  return std::ranges::any_of(fragment.nodes(),
                             [](const tn_node& node) { return node.op == TN_OP_embedding_grad; });
}

Status check_embedding_grad(const FragmentView& fragment) {
  TN_TRY(check_alone(fragment));
  const NodeView node(fragment, 0);
  const uint64_t indices = node.in(0).elements(), rows = static_cast<uint64_t>(node.out(0).dims()[0]);
  if (indices < most_indices && rows < most_indices) return {};
  return node.unsupported(
      text(indices, " indices of ", rows, " rows: at most 2^31 of each are sorted; add up parts"));
}

Result<Program> write_embedding_grad(const FragmentView& fragment, const Target& target) {
  Program program;
  Source out;
  open_source(out, fragment.binding_count(), sort_source());
  const EmbeddingGrad kernels(fragment, target);
  kernels.write(out, program);
  close_source(out);
  program.source = out.text();
  program.workspace_bytes = kernels.workspace();
  return program;
}

uint64_t workspace_of_embedding_grad(const FragmentView& fragment, const Target& target) {
  return EmbeddingGrad(fragment, target).workspace();
}

}  // namespace tenon::cuda
