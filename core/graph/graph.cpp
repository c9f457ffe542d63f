// SPDX-License-Identifier: Apache-2.0
// graph.cpp: leaves, names, outputs and what can be asked of a Graph. How a node comes about is in node.cpp.
#include "base/extent.hpp"
#include "base/fragment_parts.hpp"
#include "base/text.hpp"
#include "graph/state.hpp"
#include "graph/words.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tenon {
namespace {

uint32_t next_tag() noexcept {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

std::string_view role_name(Graph::Role role) noexcept {
  constexpr std::string_view names[] = {"input", "param", "constant", "value"};
  return names[static_cast<size_t>(role)];
}

}  // namespace

void Graph::State::note(const std::string& where, const std::string& text) {
  if (mistake) return;
  const std::string graph = name.empty() ? "" : "graph " + base::quoted(name, 64) + ": ";
  mistake = Error{.code = TN_INVALID, .message = graph + where + ": " + text};
}

bool Graph::State::rename(uint32_t index, const std::string& wanted) {
  if (!graph::why_no_name(wanted).empty() || !names.emplace(wanted, index).second) return false;
  names.erase(values[index].name);
  values[index].name = wanted;
  return true;
}

void Graph::State::check_name(std::string_view wanted, const std::string& where) {
  const std::string why = graph::why_no_name(wanted);
  if (!why.empty()) return note(where, why);
  const auto taken = names.find(std::string(wanted));
  if (taken == names.end()) return;
  const ValueInfo& other = values[taken->second];
  note(where, "the name " + base::quoted(wanted, 64) + " is taken by " + std::string(role_name(other.role)) +
                  " " + graph::words(other.spec) + ": names are unique");
}

uint32_t Graph::State::append(ValueInfo info) {
  const auto index = static_cast<uint32_t>(values.size());
  names.emplace(info.name, index);
  values.push_back(std::move(info));
  is_output.push_back(false);
  return index;
}

Graph::Value Graph::State::leaf(Role role, std::string_view wanted, TensorSpec spec,
                                std::vector<std::byte> bytes) {
  if (broken()) return {};
  const std::string where = std::string(role_name(role)) + " " + base::quoted(wanted, 64);
  const Status fits = base::check_spec(spec);
  if (!fits.ok()) {
    note(where, std::string(fits.message()));
  } else if (spec.elements() >= element_limit) {
    note(where, graph::words(spec) + " has " + std::to_string(spec.elements()) +
                    " elements, a tensor has fewer than 2^40");
  } else if (role == Role::constant && (!spec.strides.empty() || spec.bytes() != bytes.size())) {
    note(where, !spec.strides.empty() ? "it has strides: constants are dense"
                                      : graph::words(spec) + " takes " + base::counted(spec.bytes(), "byte") +
                                            ", it is given " + std::to_string(bytes.size()));
  }
  check_name(wanted, where);
  if (role != Role::constant && has_output(wanted))
    note(where, "an output is called so: a run binds both by name, give one of them another");
  if (broken()) return {};
  base::drop_dense_strides(spec);
  ValueInfo info{.name = std::string(wanted), .spec = std::move(spec), .role = role};
  info.constant = std::move(bytes);
  return handle(append(std::move(info)));
}

bool Graph::State::has_output(std::string_view wanted) const noexcept {
  return std::any_of(outputs.begin(), outputs.end(), [&](const Output& one) { return one.name == wanted; });
}

void Graph::State::output(std::string_view wanted, Value value) {
  const std::string where = "output " + base::quoted(wanted, 64);
  if (const std::string why = graph::why_no_name(wanted); !why.empty()) return note(where, why);
  if (!has(value)) return note(where, "its value is not of this graph: pass what this graph gave");
  if (has_output(wanted)) return note(where, "there is an output of this name already");
  if (const auto other = names.find(std::string(wanted)); other != names.end()) {
    const Role role = values[other->second].role;
    if (role == Role::input || role == Role::param)
      return note(where, "the " + std::string(role_name(role)) +
                             " is called so: a run binds both by name, call it " +
                             base::quoted(std::string(wanted) + ".next", 64) + " for one");
  }
  const ValueInfo& info = values[value.index];
  if (info.role != Role::computed) {
    return note(where, "it is the " + std::string(role_name(info.role)) + " " + base::quoted(info.name) +
                           " itself: pass it through identity");
  }
  if (is_output[value.index])
    return note(where,
                "the value " + base::quoted(info.name) + " is an output already: each value is one once");
  is_output[value.index] = true;
  outputs.push_back({std::string(wanted), value.index});
}

Graph::Graph(std::string name) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->tag = next_tag();
  if (state_->name.empty()) return;
  const std::string why = graph::why_no_name(state_->name);
  if (!why.empty()) state_->note("its name", why);
}
Graph::Graph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Graph::Graph(const Graph& other) : state_(std::make_unique<State>(*other.state_)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph& other) {
  *this = Graph(other);
  return *this;
}
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph::Value Graph::input(std::string_view name, TensorSpec spec) {
  return state_->leaf(Role::input, name, std::move(spec), {});
}
Graph::Value Graph::param(std::string_view name, TensorSpec spec) {
  return state_->leaf(Role::param, name, std::move(spec), {});
}
Graph::Value Graph::constant(std::string_view name, TensorSpec spec, std::span<const std::byte> bytes) {
  return state_->leaf(Role::constant, name, std::move(spec), {bytes.begin(), bytes.end()});
}

Graph& Graph::communicator(int64_t comm, int64_t ranks) {
  const std::string where = "communicator " + std::to_string(comm);
  if (state_->broken()) return *this;
  if (comm < 0 || ranks < 1)
    state_->note(where, std::to_string(ranks) + " ranks: numbers from 0, ranks from 1 on");
  const auto [known, fresh] = state_->ranks.emplace(comm, ranks);
  if (!fresh && known->second != ranks) {
    state_->note(where, "it has " + std::to_string(known->second) + " ranks and cannot have " +
                            std::to_string(ranks) + " too");
  }
  return *this;
}

void Graph::output(std::string_view name, Value value) {
  if (!state_->broken()) state_->output(name, value);
}

Status Graph::check() const { return state_->broken() ? Status(*state_->mistake) : Status(); }

const std::string& Graph::name() const noexcept { return state_->name; }
std::span<const Graph::ValueInfo> Graph::values() const noexcept { return state_->values; }
std::span<const Graph::Node> Graph::nodes() const noexcept { return state_->nodes; }
std::span<const Graph::Output> Graph::outputs() const noexcept { return state_->outputs; }
const std::map<int64_t, int64_t>& Graph::communicators() const noexcept { return state_->ranks; }
Graph::Value Graph::value(uint32_t index) const noexcept {
  return index < state_->values.size() ? state_->handle(index) : Value{};
}
const TensorSpec& Graph::spec(Value value) const noexcept {
  static const TensorSpec none{.dtype = DType{}};
  return state_->has(value) ? state_->values[value.index].spec : none;
}

}  // namespace tenon
