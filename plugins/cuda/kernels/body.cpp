// SPDX-License-Identifier: Apache-2.0
// body.cpp: what a thread does for its elements: loads, values, stores.
#include "body.hpp"

#include "expression.hpp"
#include "literal.hpp"

#include <algorithm>

namespace tenon::cuda {

using author::text;

Body::Body(const Frame& frame, const Trace& trace, const Tile& tile, size_t first, size_t last)
    : frame_(frame), trace_(trace), tile_(tile), first_(first), last_(last), index_(index_type(trace)) {
  used_.resize(trace.space.variables().size());
  const auto use = [&](const Affine& sum) {
    for (const Affine::Term& term : sum.terms) used_[term.variable] = true;
  };
  for (size_t i = first; i < last; ++i) {
    use(trace.values[i].sum);
    for (const Condition& one : trace.values[i].conditions) use(one.sum);
  }
  for (size_t v = used_.size(); v-- > 0;) {
    if (used_[v] && trace.space.is_derived(static_cast<uint32_t>(v))) use(*trace.space.variables()[v].from);
  }
}

const char* Body::index_type(const Trace& trace) {
  int64_t most = trace.space.count(false) * trace.space.count(true);
  const auto look = [&](const Affine& sum) {
    most = std::max({most, trace.space.most(sum), -trace.space.least(sum)});
  };
  for (const Value& value : trace.values) {
    look(value.sum);
    for (const Condition& one : value.conditions) look(one.sum);
  }
  for (const Store& store : trace.stores) look(store.sum);
  for (const Variable& variable : trace.space.variables()) {
    if (variable.from) look(*variable.from);
  }
  // A block's last chunk may lie past the end by a block's work.
  return most < (int64_t{1} << 31) ? "u32" : "u64";
}

std::string Body::number(int64_t value) const { return text(value, index_[1] == '6' ? "ull" : "u"); }

std::string Body::name(uint32_t variable, bool in_lane) const {
  if (trace_.space.is_derived(variable)) return text("d", variable);
  return text(in_lane && variable == tile_.variable ? "j" : "i", variable);
}

std::string Body::spelled(const Affine& sum, bool in_lane) const {
  std::string out;
  for (const Affine::Term& term : sum.terms) {
    out += out.empty() ? "" : " + ";
    out += name(term.variable, in_lane);
    if (term.factor != 1) out += " * " + number(term.factor);
  }
  if (out.empty()) out = number(0);
  if (sum.constant > 0) out = (sum.terms.empty() ? "" : out + " + ") + number(sum.constant);
  if (sum.constant < 0) out += " - " + number(-sum.constant);
  return out;
}

// Unsigned: what lies before the first element is far behind the last.
std::string Body::condition(const std::vector<Condition>& conditions, bool in_lane) const {
  std::string out;
  for (const Condition& one : conditions) {
    out += out.empty() ? "" : " && ";
    out += text("(", spelled(one.sum, in_lane), ") < ", number(one.extent));
  }
  return out;
}

bool Body::varies(const Affine& sum) const {
  return tile_.variable != no_variable && trace_.space.depends(sum, tile_.variable);
}

void Body::derive(Source& out, bool in_lane) const {
  for (uint32_t v = 0; v < used_.size(); ++v) {
    if (!used_[v] || !trace_.space.is_derived(v)) continue;
    const Variable& variable = trace_.space.variables()[v];
    if (varies(*variable.from) != in_lane) continue;
    std::string value = text("(", spelled(*variable.from, in_lane), ")");
    if (variable.divide != 1) value += " / " + number(variable.divide);
    if (trace_.space.most(*variable.from) / variable.divide >= variable.extent)
      value += " % " + number(variable.extent);
    out.line("[[maybe_unused]] const ", index_, " d", v, " = ", value, ";");
  }
}

// Not what each lane finds for itself, nor what is held already.
bool Body::is_loaded(const Value& value, Loads which) const {
  if (value.kind != Value::Kind::load || value.held != TN_ABSENT) return false;
  if (which != Loads::all && value.kept != (which == Loads::kept)) return false;
  return width_of(trace_.space, value.sum, value.conditions, bytes_of(value.dtype), tile_).kind !=
         Width::Kind::lane;
}

void Body::declare(Source& out, Loads which) const {
  for (size_t i = first_; i < last_; ++i) {
    const Value& value = trace_.values[i];
    if (!is_loaded(value, which)) continue;
    const Width width = width_of(trace_.space, value.sum, value.conditions, bytes_of(value.dtype), tile_);
    out.line("Lanes<", stored_type(value.dtype), ", ", width.kind == Width::Kind::once ? 1 : tile_.lanes,
             "> x", i, "[", is_shared(value) ? 1 : tile_.unroll, "];");
  }
}

void Body::decode(Source& out, const std::vector<uint32_t>& loops, const std::string& chunk) const {
  std::string rest = chunk;
  for (size_t n = loops.size(); n-- > 0;) {
    const uint32_t v = loops[n];
    const bool walked = v == tile_.variable;
    const int64_t extent = trace_.space.variables()[v].extent / (walked ? tile_.lanes : 1);
    std::string value = n == 0 ? rest : text(rest, " % ", number(extent));
    if (walked && tile_.lanes > 1) value += " * " + number(tile_.lanes);
    out.line("[[maybe_unused]] const ", index_, " i", v, " = ", value, ";");
    rest += " / " + number(extent);
  }
}

// Its address and its conditions follow steady loops alone. What each lane finds for itself is not among them.
bool Body::is_shared(const Value& value) const {
  if (value.kind != Value::Kind::load || tile_.steady.empty()) return false;
  const uint32_t bytes = bytes_of(value.dtype);
  if (width_of(trace_.space, value.sum, value.conditions, bytes, tile_).kind == Width::Kind::lane)
    return false;
  const auto stays = [&](const Affine& sum) {
    return std::ranges::all_of(sum.terms, [&](const Affine::Term& term) {
      return std::ranges::find(tile_.steady, term.variable) != tile_.steady.end();
    });
  };
  return stays(value.sum) && std::ranges::all_of(value.conditions, stays, &Condition::sum);
}

// Whether it has the same element all along some loop: then it is best kept near.
bool Body::is_read_again(const Value& value) const {
  if (!frame_.schedule.homes[value.tensor].read_only) return false;
  const auto stays = [&](uint32_t v) {
    return trace_.space.variables()[v].extent > 1 && !trace_.space.depends(value.sum, v);
  };
  return std::ranges::any_of(trace_.space.loops(false), stays) ||
         std::ranges::any_of(trace_.space.loops(true), stays);
}

bool Body::shares() const {
  return std::any_of(trace_.values.begin() + static_cast<std::ptrdiff_t>(first_),
                     trace_.values.begin() + static_cast<std::ptrdiff_t>(last_),
                     [&](const Value& value) { return is_shared(value); });
}

void Body::load_shared(Source& out) const {
  for (size_t i = first_; i < last_; ++i) {
    const Value& value = trace_.values[i];
    if (is_loaded(value, Loads::all) && is_shared(value)) load_one(out, i);
  }
}

void Body::load(Source& out, Loads which) const {
  for (size_t i = first_; i < last_; ++i) {
    const Value& value = trace_.values[i];
    if (is_loaded(value, which) && !is_shared(value)) load_one(out, i);
  }
}

void Body::load_one(Source& out, size_t i) const {
  const Value& value = trace_.values[i];
  const uint32_t bytes = bytes_of(value.dtype);
  const Width width = width_of(trace_.space, value.sum, value.conditions, bytes, tile_);
  const char* const read_only = frame_.schedule.homes[value.tensor].read_only ? "true" : "false";
  const std::string from = text(frame_.address(value.tensor), " + (", spelled(value.sum, false), ")");
  std::string made;
  switch (width.kind) {
    case Width::Kind::once:
      made = text("load<1, ", bytes, ", ", read_only, ">(", from, ")");
      break;
    case Width::Kind::words:
      made = width.bytes == 16 && is_read_again(value)
                 ? text("load_again<", tile_.lanes, ", 16>(", from, ")")
                 : text("load<", tile_.lanes, ", ", width.bytes, ", ", read_only, ">(", from, ")");
      break;
    default:
      made = text("load_steps<", tile_.lanes, ", ", read_only, ">(", from, ", ", width.step, "ull)");
  }
  const std::string wanted = condition(value.conditions, false);
  const uint32_t lanes = width.kind == Width::Kind::once ? 1 : tile_.lanes;
  if (!wanted.empty())
    made = text(wanted, " ? ", made, " : Lanes<", stored_type(value.dtype), ", ", lanes, ">{}");
  out.line("x", i, is_shared(value) ? "[0] = " : "[u] = ", made, ";");
}

void Body::open_lanes(Source& out) const {
  out.open_unrolled("v", tile_.lanes);
  if (tile_.variable != no_variable)
    out.line("[[maybe_unused]] const ", index_, " j", tile_.variable, " = i", tile_.variable, " + v;");
}

// A load's element in this lane.
std::string Body::element(const Value& value) const {
  const size_t own = static_cast<size_t>(&value - trace_.values.data());
  const size_t i = value.held != TN_ABSENT ? value.held : own;
  const uint32_t bytes = bytes_of(value.dtype);
  const Width width = width_of(trace_.space, value.sum, value.conditions, bytes, tile_);
  if (width.kind != Width::Kind::lane)
    return text("widen(x", i, is_shared(value) ? "[0]" : "[u]", ".at[",
                width.kind == Width::Kind::once ? "0" : "v", "])");
  const char* const read_only = frame_.schedule.homes[value.tensor].read_only ? "true" : "false";
  const std::string wanted = condition(value.conditions, true);
  std::string made = text("load<1, ", bytes, ", ", read_only, ">(", frame_.address(value.tensor), " + (",
                          spelled(value.sum, true), ")).at[0]");
  if (!wanted.empty()) made = text(wanted, " ? ", made, " : ", stored_type(value.dtype), "{}");
  return text("widen(", made, ")");
}

std::string Body::value_text(const Value& value) const {
  const auto argument = [&](size_t i) { return text("t", value.arguments[i]); };
  const FragmentView& fragment = frame_.fragment;
  switch (value.kind) {
    case Value::Kind::load:
      return element(value);
    case Value::Kind::look_up: {
      const char* const read_only = frame_.schedule.homes[value.tensor].read_only ? "true" : "false";
      std::string wanted = text("static_cast<u64>(", argument(0), ") < ", value.rows, "ull");
      if (!value.conditions.empty()) wanted += " && " + condition(value.conditions, true);
      return text("widen(", wanted, " ? load<1, ", bytes_of(value.dtype), ", ", read_only, ">(",
                  frame_.address(value.tensor), " + (static_cast<u64>(", argument(0), ") * ", value.step,
                  "ull + (", spelled(value.sum, true), "))).at[0] : ", stored_type(value.dtype), "{})");
    }
    case Value::Kind::number:
      return literal(value.dtype, value.bits);
    case Value::Kind::element:
      return spelled(value.sum, true);
    case Value::Kind::compute: {
      const tn_node& node = fragment.nodes()[value.node];
      std::vector<std::string> arguments;
      for (size_t i = 0; i < value.arguments.size(); ++i) arguments.push_back(argument(i));
      const uint32_t from = node.input_count > 0 ? fragment.tensor(node.inputs[0]).dtype() : value.dtype;
      return expression(node, arguments, from, value.dtype);
    }
    case Value::Kind::select:
      return text(condition(value.conditions, true), " ? ", argument(0), " : ", argument(1));
    case Value::Kind::one_hot:
      return text("static_cast<", register_type(value.dtype), ">(static_cast<u64>(", argument(0),
                  ") == ", spelled(value.sum, true), " ? 1 : 0)");
    case Value::Kind::reduced: {
      const tn_node& node = fragment.nodes()[value.node];
      // Lanes along a folded loop share it.
      const bool one = tile_.variable == no_variable || trace_.space.variables()[tile_.variable].reduced;
      return folded(node.op, text("whole", value.slot, one ? "[0]" : "[v]"),
                    fragment.tensor(node.inputs[0]).dtype(), trace_.space.count(true));
    }
  }
  return {};
}

void Body::compute(Source& out) const {
  derive(out, true);
  for (size_t i = first_; i < last_; ++i) {
    const Value& value = trace_.values[i];
    out.line("const ", register_type(value.dtype), " t", i, " = ", value_text(value), ";");
  }
}

void Body::declare_stores(Source& out) const {
  for (size_t i = 0; i < trace_.stores.size(); ++i) {
    if (!makes(trace_.stores[i])) continue;
    const uint32_t dtype = frame_.fragment.tensor(trace_.stores[i].tensor).dtype();
    out.line("Lanes<", stored_type(dtype), ", ", tile_.lanes, "> y", i, ";");
  }
}

void Body::fill_stores(Source& out) const {
  for (size_t i = 0; i < trace_.stores.size(); ++i) {
    const Store& store = trace_.stores[i];
    if (!makes(store)) continue;
    const uint32_t dtype = frame_.fragment.tensor(store.tensor).dtype();
    out.line("y", i, ".at[v] = stored<", stored_type(dtype), ">(t", store.value, ");");
  }
}

void Body::store(Source& out) const {
  for (size_t i = 0; i < trace_.stores.size(); ++i) {
    const Store& store = trace_.stores[i];
    if (!makes(store)) continue;
    const uint32_t dtype = frame_.fragment.tensor(store.tensor).dtype(), bytes = bytes_of(dtype);
    const Width width = width_of(trace_.space, store.sum, {}, bytes, tile_);
    std::vector<std::string> targets;
    for (const uint32_t binding : frame_.schedule.bindings_of(frame_.fragment, store.tensor))
      targets.push_back(frame_.address_to(binding, dtype));
    const Home& home = frame_.schedule.homes[store.tensor];
    if (home.kind == Home::Kind::workspace)
      targets.push_back(frame_.workspace(home.offset, stored_type(dtype)));
    for (const std::string& target : targets) {
      const std::string to = text(target, " + (", spelled(store.sum, false), ")");
      if (width.kind == Width::Kind::steps)
        out.line("store_steps(", to, ", ", width.step, "ull, y", i, ");");
      else
        out.line("store<", tile_.lanes, ", ", width.kind == Width::Kind::words ? width.bytes : bytes, ">(",
                 to, ", y", i, ");");
    }
  }
}

// How many loads each chunk takes.
uint32_t Body::words() const {
  uint32_t out = 0;
  for (size_t i = first_; i < last_; ++i) {
    const Value& value = trace_.values[i];
    if (value.kind != Value::Kind::load || value.held != TN_ABSENT || is_shared(value)) continue;
    const uint32_t bytes = bytes_of(value.dtype);
    const Width width = width_of(trace_.space, value.sum, value.conditions, bytes, tile_);
    out += width.kind == Width::Kind::words   ? tile_.lanes * bytes / width.bytes
           : width.kind == Width::Kind::steps ? tile_.lanes
                                              : 1;
  }
  return out;
}

bool Body::draws() const {
  return std::any_of(trace_.values.begin() + static_cast<std::ptrdiff_t>(first_),
                     trace_.values.begin() + static_cast<std::ptrdiff_t>(last_),
                     [](const Value& value) { return value.kind == Value::Kind::element; });
}

uint32_t Body::unroll(uint64_t most, uint32_t loads) const {
  uint32_t out = 4;
  while (out > 1 && (out * words() > loads || out > most || (draws() && out * tile_.lanes > 8))) out /= 2;
  return out;
}

uint32_t choose_lanes(const Frame& frame, const Trace& trace, uint32_t variable, size_t first, size_t last,
                      bool stores, bool tail) {
  struct Access {
    const Affine* sum;
    const std::vector<Condition>* conditions;
    uint32_t bytes;
    bool is_made;
  };
  static const std::vector<Condition> always;
  std::vector<Access> all;
  for (size_t i = first; i < last; ++i) {
    const Value& value = trace.values[i];
    if (value.kind == Value::Kind::load)
      all.push_back({&value.sum, &value.conditions, bytes_of(value.dtype), false});
  }
  for (size_t i = 0; stores && i < trace.stores.size(); ++i) {
    const Store& store = trace.stores[i];
    all.push_back({&store.sum, &always, bytes_of(frame.fragment.tensor(store.tensor).dtype()), true});
  }
  const int64_t extent = trace.space.variables()[variable].extent;
  // As many as the narrowest needs for 16 bytes, while the widest takes 64, all together half the registers, and what is made,
  // for all lanes before any of it is stored, a quarter.
  for (uint32_t lanes = 16; lanes > 1; lanes /= 2) {
    if (extent < lanes || (extent % lanes != 0 && !tail)) continue;
    uint32_t narrowest = 16, widest = 1, together = 0, made = 0;
    bool gains = false;
    for (const Access& one : all) {
      const Width width =
          width_of(trace.space, *one.sum, *one.conditions, one.bytes, {.lanes = lanes, .variable = variable});
      if (width.kind != Width::Kind::words) continue;
      gains = gains || width.bytes > one.bytes;
      if (width.bytes > one.bytes || one.bytes == 16) narrowest = std::min(narrowest, one.bytes);
      widest = std::max(widest, one.bytes);
      together += lanes * one.bytes;
      if (one.is_made) made += lanes * one.bytes;
    }
    const bool fits = lanes * widest <= 64 && together <= 512 && made <= 256;
    if (gains && lanes * narrowest <= 16 && fits) return lanes;
  }
  return 1;
}

}  // namespace tenon::cuda
