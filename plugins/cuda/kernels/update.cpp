// SPDX-License-Identifier: Apache-2.0
// update.cpp: the source of a fragment of updates: tables, and an entry for each launch.
//
// What to expect: the time of a launch is its bytes over the memory's bandwidth. Adam of f32 moves 28 bytes an element; 25.6
// million of them take 167 µs at the 4.3 TB/s that a copy reaches on an H200, and a thread has four words of 16 bytes on
// their way: with eight it takes 78 registers, which leave room for three blocks on a processor, and a quarter of them begins when
// the others have ended. The grid is four blocks for each processor, which find room with the registers of Adam, so a block's
// start, where it makes the figures of all settings, is paid once for many chunks.
#include "update.hpp"

#include "families.hpp"
#include "literal.hpp"
#include "prelude.hpp"
#include "update_plan.hpp"

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::text;

namespace {

constexpr uint32_t update_threads = 256, blocks_per_processor = 4;
constexpr uint64_t most_elements_together = uint64_t{1} << 38;  // so that chunks are counted in 32 bits
constexpr uint64_t most_constant_memory = 60 << 10;             // of the device's 64 KiB

// The tables of one launch and its two entries.
class LaunchText {
 public:
  LaunchText(const FragmentView& fragment, const UpdateWork& work, const UpdateLaunch& launch,
             uint32_t number)
      : fragment_(fragment), work_(work), launch_(launch), step_(std::to_string(number)) {
    for (const UpdateJob& job : launch.jobs) places_ = std::max(places_, job.places.size());
    for (size_t i = 0; i < launch.kinds.size(); ++i) {
      plain_.push_back(tile_of(launch.kinds[i], false));
      wide_.push_back(wide_tile(i));
      is_wide_ = is_wide_ || wide_.back().lanes > 1;
    }
  }

  uint64_t table_bytes() const {
    const uint64_t job = (24 + 4 * places_ + 7) / 8 * 8, ends = 2 * sizeof(uint32_t), setting = 56;
    return launch_.jobs.size() * (job + ends) + launch_.settings.size() * setting + ends;
  }

  void write_tables(Source& out, const char* space) const {
    out.line();
    out.line(space, " const Job<", places_, "> jobs", step_, "[] = {");
    for (const UpdateJob& job : launch_.jobs) out.line("  ", row(job), ",");
    out.line("};");
    out.line(space, " const Setting settings", step_, "[] = {");
    for (const UpdateSetting& setting : launch_.settings) out.line("  ", row(setting), ",");
    out.line("};");
    if (launch_.shapes.empty()) return;
    out.line("__device__ const u64 shapes", step_, "[] = {");
    for (const uint64_t word : launch_.shapes) out.line("  ", word, "ull,");
    out.line("};");
  }

  Step write(Source& out, const char* space, const Target& target) const {
    Step step;
    if (is_wide_) step.wide = write_entry(out, space, "wide", wide_, target);
    step.any = write_entry(out, space, "any", plain_, target);
    return step;
  }

 private:
  // A kind without a tensor of as many elements moves none of them in words.
  UpdateTile wide_tile(size_t kind) const {
    UpdateTile tile = tile_of(launch_.kinds[kind], true);
    bool fills = false;
    for (const UpdateJob& job : launch_.jobs) {
      if (job.kind != kind) continue;
      fills = fills || job.count >= tile.lanes;
      tile.tail = tile.tail || job.count % tile.lanes != 0;
    }
    return fills ? tile : tile_of(launch_.kinds[kind], false);
  }

  std::string row(const UpdateJob& job) const {
    std::string places;
    for (const uint32_t place : job.places) places += text(places.empty() ? "" : ", ", place, "u");
    return text("{", job.count, "ull, ", job.shape, "ull, ", job.kind, "u, ", job.setting, "u, {", places,
                "}}");
  }
  static std::string row(const UpdateSetting& s) {
    std::string numbers;
    for (const double number : s.numbers)
      numbers += text(numbers.empty() ? "" : ", ", std::bit_cast<uint64_t>(number), "ull");
    return text("{{", numbers, "}, ", s.rate, "u, ", s.step, "u, ", s.found_inf, "u, ", s.inverse_scale,
                "u, ", s.scale, "u, ", s.decoupled ? 1 : 0, "u}");
  }

  // Where each job's chunks begin, and where the last ends.
  std::vector<uint64_t> chunks(const std::vector<UpdateTile>& tiles) const {
    std::vector<uint64_t> out{0};
    for (const UpdateJob& job : launch_.jobs) {
      const UpdateTile& tile = tiles[job.kind];
      const uint64_t elements = uint64_t{tile.lanes} * tile.unroll * update_threads,
                     whole = job.count / tile.lanes * tile.lanes;
      out.push_back(out.back() + std::max<uint64_t>((whole + elements - 1) / elements, 1));
    }
    return out;
  }

  // From a place to an address.
  void write_places(Source& out) const {
    const uint32_t bindings = fragment_.binding_count();
    std::string address = "p.at[place]";
    if (work_.workspace_bytes > 0) {
      address = text("place >= ", bindings, "u ? static_cast<u8*>(p.at[", bindings, "]) + (place - ",
                     bindings, "u) * ", place_bytes, "ull : ", address);
    }
    if (!work_.constants.empty()) {
      address = text("place >= ", first_constant_place, "u ? const_cast<u32*>(constants[place - ",
                     first_constant_place, "u]) : ", address);
    }
    out.line("const auto at = [&](u32 place) -> void* { return ", address, "; };");
  }

  Entry write_entry(Source& out, const char* space, const char* which, const std::vector<UpdateTile>& tiles,
                    const Target& target) const {
    const std::vector<uint64_t> first = chunks(tiles);
    const uint64_t blocks =
        std::min<uint64_t>(first.back(), uint64_t{target.multiprocessors} * blocks_per_processor);
    const std::string table = text("first", step_, "_", which), name = text("step", step_, "_", which);
    std::string numbers;
    for (const uint64_t chunk : first) numbers += text(numbers.empty() ? "" : ", ", chunk, "u");
    out.line();
    out.line(space, " const u32 ", table, "[] = {", numbers, "};");
    out.open("TN_ENTRY(", name, ", Addresses)");
    write_places(out);
    write_figures(out);
    out.line("[[maybe_unused]] u32 begin = 0;");
    out.line("u32 row = 0, end = 0;");
    out.open("for (u32 chunk = blockIdx.x; chunk < ", first.back(), "u; chunk += ", blocks, "u)");
    out.open("if (chunk >= end)");
    out.line("row = row_of(", table, ", ", launch_.jobs.size(), "u, chunk);");
    out.line("begin = ", table, "[row];");
    out.line("end = ", table, "[row + 1];");
    out.close();
    out.line("const Job<", places_, ">& job = jobs", step_, "[row];");
    out.line("[[maybe_unused]] const Figures<", register_type(launch_.dtype), ">& f = figures[job.setting];");
    write_kinds(out, tiles);
    out.close();
    out.close();
    return {.name = name, .blocks = static_cast<uint32_t>(blocks), .threads = update_threads};
  }

  // Of all settings, once for a block.
  void write_figures(Source& out) const {
    const char* const type = register_type(launch_.dtype);
    const bool scans = std::ranges::any_of(
        launch_.kinds, [](const UpdateKind& kind) { return kind.op == TN_OP_check_finite_and_unscale; });
    out.line("__shared__ Figures<", type, "> figures[", launch_.settings.size(), "];");
    out.line("if (threadIdx.x < ", launch_.settings.size(), "u) figures[threadIdx.x] = figures_of<", type,
             ">(settings", step_, "[threadIdx.x], at);");
    out.line("__syncthreads();");
    if (scans) out.line("u32 told = nothing;");
  }

  void write_kinds(Source& out, const std::vector<UpdateTile>& tiles) const {
    out.open("switch (job.kind)");
    for (size_t i = 0; i < launch_.kinds.size(); ++i) {
      out.open("case ", i, ":");
      write_update(out, launch_.kinds[i], launch_.dtype, tiles[i], step_);
      out.line("break;");
      out.close();
    }
    out.close();
  }

  const FragmentView& fragment_;
  const UpdateWork& work_;
  const UpdateLaunch& launch_;
  const std::string step_;
  size_t places_ = 0;
  std::vector<UpdateTile> plain_{}, wide_{};  // by kind
  bool is_wide_ = false;
};

void write_constants_of(const FragmentView& fragment, const UpdateWork& work, Source& out) {
  if (work.constants.empty()) return;
  std::string names;
  for (const uint32_t tensor : work.constants) {
    const author::TensorView view = fragment.tensor(tensor);
    if (view.elements() > 0) out.plain(constant_array(text("constant", tensor), view));
    names += text(names.empty() ? "" : ", ", view.elements() > 0 ? text("constant", tensor) : "nullptr");
  }
  out.line("__device__ const u32* const constants[] = {", names, "};");
}

// One block clears every flag before anybody looks at a gradient.
Step write_clearing(const FragmentView& fragment, const UpdateWork& work, Source& out) {
  out.line();
  out.open("TN_ENTRY(clear_any, Addresses)");
  for (size_t i = 0; i < work.found_infs.size(); ++i) {
    const uint32_t place = work.found_infs[i], bindings = fragment.binding_count();
    const std::string address = place < bindings ? text("p.at[", place, "]")
                                                 : text("static_cast<u8*>(p.at[", bindings, "]) + ",
                                                        (place - bindings) * place_bytes, "ull");
    out.line("if (threadIdx.x == ", i % update_threads, "u) *reinterpret_cast<f32*>(", address, ") = 0.0f;");
  }
  out.close();
  return {.wide = {}, .any = {.name = "clear_any", .blocks = 1, .threads = update_threads}};
}

}  // namespace

bool takes_updates(const FragmentView& fragment) {
  return std::ranges::all_of(fragment.nodes(), [](const tn_node& node) {
    const std::string_view family = author::op_row(node.op).family;
    return family == "OPTIMIZER" || family == "SCALING";
  });
}

Status check_updates(const FragmentView& fragment) {
  uint64_t elements = 0;
  for (const tn_tensor& tensor : fragment.tensors()) elements += author::TensorView(tensor).elements();
  if (elements <= most_elements_together) return {};
  return Status(TN_UNSUPPORTED,
                text("the fragment's tensors have ", elements, " elements together; one launch counts ",
                     most_elements_together, ": cut it"));
}

Result<Program> write_updates(const FragmentView& fragment, const Target& target) {
  const UpdateWork work = plan_updates(fragment);
  std::vector<LaunchText> launches;
  uint64_t bytes = 0;
  for (const UpdateLaunch& launch : work.launches) {
    launches.emplace_back(fragment, work, launch, static_cast<uint32_t>(launches.size()));
    bytes += launches.back().table_bytes();
  }
  const char* const space = bytes <= most_constant_memory ? "__constant__" : "__device__";
  Source out;
  open_source(out, fragment.binding_count(), update_source());
  write_constants_of(fragment, work, out);
  Program program{.workspace_bytes = work.workspace_bytes};
  if (!work.found_infs.empty()) program.steps.push_back(write_clearing(fragment, work, out));
  for (const LaunchText& launch : launches) {
    launch.write_tables(out, space);
    program.steps.push_back(launch.write(out, space, target));
  }
  close_source(out);
  program.source = out.text();
  return program;
}

uint64_t workspace_of_updates(const FragmentView& fragment, const Target& /*target*/) {
  return plan_updates(fragment).workspace_bytes;
}

author::Honoured honoured_by_updates(const FragmentView& fragment) {
  if (fragment.aliases().empty()) return {};
  const UpdatePlan plan(fragment);
  return author::honoured_of(fragment.aliases(), [&](const tn_alias& pair) { return plan.honours(pair); });
}

}  // namespace tenon::cuda
