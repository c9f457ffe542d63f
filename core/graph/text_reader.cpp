// SPDX-License-Identifier: Apache-2.0
// text_reader.cpp: a graph from its text. The grammar is in docs/graph.md.
//
// Invariant: whatever the bytes, the result is a graph that check() is content with or one message with line and column.
#include "base/schema.hpp"
#include "base/text.hpp"
#include "graph/definitions.hpp"
#include "graph/scanner.hpp"
#include "graph/state.hpp"
#include "graph/words.hpp"

#include <utility>

namespace tenon {

class GraphReader {
 public:
  explicit GraphReader(std::string_view text) : scan_(text) {}

  Result<Graph> run() {
    TN_TRY(heading());
    while (scan_.next_line()) {
      start_ = scan_.at();
      if (TN_TRY(statement())) return finish();
      TN_TRY(scan_.expect_line_end("the statement"));
    }
    return scan_.expected("another line or 'end'");
  }

 private:
  struct Made {
    std::string name{};  // "" where left out
    TensorSpec spec{};
    size_t at = 0;
  };
  struct Leaf {
    std::string name;
    TensorSpec spec;
  };

  Graph::State& state() { return *graph_.state_; }

  Status heading() {
    if (!scan_.next_line() || scan_.word() != "tenon-graph")
      return scan_.fail("expected 'tenon-graph 1' at the head of the text", 0);
    const int64_t form = TN_TRY(scan_.whole_number("the number of the text form"));
    if (form != 1)
      return scan_.fail("the text is of form " + std::to_string(form) +
                        ", form 1 is known here: it comes from a newer "
                        "version");
    graph_ = Graph(std::string(scan_.word()));
    TN_TRY(told(0));
    return scan_.expect_line_end("the graph's name");
  }

  Result<Graph> finish() {
    TN_TRY(scan_.expect_line_end("'end'"));
    if (scan_.next_line()) return scan_.fail("there is more after 'end'");
    return std::move(graph_);
  }

  // The builder's mistake, with the place of what was wrong.
  Status told(size_t at) {
    const Status found = graph_.check();
    return found.ok() ? Status() : scan_.fail(std::string(found.message()), at);
  }

  static Result<bool> read(Status done) {
    TN_TRY(std::move(done));
    return false;
  }

  // True after 'end'.
  Result<bool> statement() {
    const char next = scan_.peek();
    if (next == '%') return read(node());
    const size_t at = scan_.at();
    const std::string_view word = scan_.word();
    if (word == "_") return read(node(at));
    if (word == "end") return true;
    if (word == "input") return read(leaf(Graph::Role::input));
    if (word == "param") return read(leaf(Graph::Role::param));
    if (word == "constant" && scan_.peek() == '%') return read(leaf(Graph::Role::constant));
    if (word == "output") return read(output());
    if (word == "comm") return read(communicator());
    if (!word.empty() && scan_.peek() == '(') return read(call({}, word, at));
    return scan_.fail("expected a statement (%name: …, input, param, constant, output, comm, end), found " +
                          (word.empty() ? base::quoted({&next, 1}) : base::quoted(word, 32)),
                      at);
  }

  Result<std::string> reference() {
    if (!scan_.take('%')) return scan_.expected("a value, written as %name");
    const std::string_view word = scan_.word();
    if (word.empty()) return scan_.expected("a name after '%'");
    return std::string(word);
  }

  Result<TensorSpec> type() {
    scan_.skip_blanks();
    const size_t at = scan_.at();
    const std::string_view word = scan_.word();
    const auto dtype = dtype_from(word);
    if (word.empty()) return scan_.expected("a type such as f32[2,3]");
    if (!dtype.ok()) return scan_.fail(std::string(dtype.message()), at);
    TensorSpec spec{.dtype = *dtype};
    if (!graph::all_whole(TN_TRY(scan_.numbers("a dim")), spec.dims))
      return scan_.fail("the dims of a type are whole numbers", at);
    return spec;
  }

  // %name: type
  Result<Leaf> declaration() {
    Leaf out;
    out.name = TN_TRY(reference());
    TN_TRY(scan_.expect(':', "after the name of a value"));
    out.spec = TN_TRY(type());
    return out;
  }

  Status leaf(Graph::Role role) {
    Leaf read = TN_TRY(declaration());
    if (scan_.peek() == '{') TN_TRY(placement(read.spec));
    if (role != Graph::Role::constant) {
      state().leaf(role, read.name, std::move(read.spec), {});
      return told(start_);
    }
    TN_TRY(scan_.expect('=', "before a constant's elements"));
    scan_.skip_blanks();
    const size_t at = scan_.at();
    auto bytes = TN_TRY(elements(read.spec.dtype));
    if (!bytes.ok()) return scan_.fail(std::string(bytes.message()), at);
    state().leaf(role, read.name, std::move(read.spec), std::move(bytes).take());
    return told(start_);
  }

  // How a leaf lies in memory: {alignment=64, strides=[1,2]}
  Status placement(TensorSpec& spec) {
    const size_t at = scan_.at();
    for (Attribute& attribute : TN_TRY(attributes())) {
      auto* whole = std::get_if<int64_t>(&attribute.value);
      auto* list = std::get_if<std::vector<int64_t>>(&attribute.value);
      if (attribute.name == "alignment" && whole != nullptr && *whole > 0)
        spec.alignment = static_cast<uint64_t>(*whole);
      else if (attribute.name == "strides" && list != nullptr)
        spec.strides = std::move(*list);
      else
        return scan_.fail(
            "a leaf takes {alignment=NUMBER, strides=[…]}, not " + base::quoted(attribute.name, 32), at);
    }
    return {};
  }

  // The outer failure is one of form, the inner one of the elements.
  Result<Result<std::vector<std::byte>>> elements(DType dtype) {
    if (scan_.peek() == '[') return graph::bytes_from(dtype, TN_TRY(scan_.numbers("an element")));
    const std::string_view hex = scan_.word();
    if (!hex.starts_with("0x")) return scan_.expected("a constant's elements, [1, 2] or 0x…");
    return graph::bytes_from_hex(hex.substr(2));
  }

  Status output() {
    const std::string name(scan_.word());
    if (name.empty()) return scan_.expected("the name of the output");
    TN_TRY(scan_.expect('=', "after the name of an output"));
    graph_.output(name, TN_TRY(value()));
    return told(start_);
  }

  Status communicator() {
    const int64_t comm = TN_TRY(scan_.whole_number("the number of a communicator"));
    TN_TRY(scan_.expect('=', "after the number of a communicator"));
    graph_.communicator(comm, TN_TRY(scan_.whole_number("how many ranks it has")));
    return told(start_);
  }

  // %name: type, _, … = op(…) {…}; the first output may be one that was read already, left out.
  Status node(std::optional<size_t> left_out = {}) {
    std::vector<Made> made;
    if (left_out) made.push_back({.name = {}, .spec = {}, .at = *left_out});
    while (!left_out || scan_.take(',')) {
      const bool named = scan_.peek() == '%';
      const size_t at = scan_.at();
      if (!named && scan_.word() != "_") return scan_.expected("an output, %name: type or _");
      Leaf read = named ? TN_TRY(declaration()) : Leaf{};
      made.push_back({std::move(read.name), std::move(read.spec), at});
      left_out = at;
    }
    TN_TRY(scan_.expect('=', "after the outputs of a node"));
    scan_.skip_blanks();
    const size_t at = scan_.at();
    const std::string_view op = scan_.word();
    if (op.empty()) return scan_.expected("the name of an op");
    return call(made, op, at);
  }

  Status call(const std::vector<Made>& made, std::string_view word, size_t at) {
    const auto op = op_from(word);
    if (!op.ok()) return scan_.fail(std::string(op.message()), at);
    TN_TRY(scan_.expect('(', "before the inputs"));
    std::vector<Graph::Value> inputs;
    if (!scan_.take(')')) {
      do inputs.push_back(TN_TRY(value()));
      while (scan_.take(','));
      TN_TRY(scan_.expect(')', "or ',' after an input"));
    }
    Graph::Attributes given;
    if (scan_.peek() == '{') given = TN_TRY(attributes());
    std::vector<std::string> names;
    for (const Made& one : made) names.push_back(one.name);
    const auto values = state().node(*op, std::move(names), inputs, std::move(given));
    TN_TRY(told(at));
    return compare(made, *op, values, at);
  }

  // What was declared against what was inferred.
  Status compare(const std::vector<Made>& made, Op op, const std::vector<Graph::Value>& values,
                 size_t at) const {
    if (made.size() != values.size()) {
      return scan_.fail(std::string(name(op)) + " gives " + base::counted(values.size(), "output") + ", " +
                            std::to_string(made.size()) + " are written here",
                        at);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const TensorSpec& given = graph_.spec(values[i]);
      const std::string left_out = "output " + std::to_string(i) + " of " + std::string(name(op)) + " is ";
      if (made[i].name.empty() && given.dtype != DType{})
        return scan_.fail(left_out + graph::words(given) + " and cannot be left out", made[i].at);
      if (!made[i].name.empty() && given.dtype == DType{})
        return scan_.fail(left_out + "not made with these inputs: write _", made[i].at);
      if (made[i].spec.dtype == given.dtype && made[i].spec.dims == given.dims) continue;
      if (made[i].name.empty()) continue;
      return scan_.fail("'" + made[i].name + "' is declared " + graph::words(made[i].spec) + " and " +
                            std::string(name(op)) + " gives " + graph::words(given),
                        made[i].at);
    }
    return {};
  }

  // %name of a value that is there, or _
  Result<Graph::Value> value() {
    const bool named = scan_.peek() == '%';
    const size_t at = scan_.at();
    if (!named && scan_.word() == "_") return Graph::Value{};
    if (!named) return scan_.fail("expected a value, written as %name or _", at);
    const std::string name = TN_TRY(reference());
    const auto known = state().names.find(name);
    if (known != state().names.end()) return state().handle(known->second);
    std::vector<std::string_view> names;
    for (const auto& [other, index] : state().names) names.push_back(other);
    return scan_.fail(graph::why_not_defined(scan_.text(), start_, name, names), at);
  }

  Result<Graph::Attributes> attributes() {
    Graph::Attributes out;
    TN_TRY(scan_.expect('{', "before attributes"));
    if (scan_.take('}')) return out;
    do {
      const std::string name(scan_.word());
      if (name.empty()) return scan_.expected("the name of an attribute");
      TN_TRY(scan_.expect('=', "after the name of an attribute"));
      AttributeValue given =
          TN_TRY(attribute());  // not inside the braces: a return there would leak the name
      out.push_back({name, std::move(given)});
    } while (scan_.take(','));
    TN_TRY(scan_.expect('}', "or ',' after an attribute"));
    return out;
  }

  Result<AttributeValue> attribute() {
    const char next = scan_.peek();
    if (next == '"') return AttributeValue(TN_TRY(scan_.string()));
    if (next == '[') return list(TN_TRY(scan_.numbers("a number")));
    graph::Scanner ahead = scan_;
    const bool is_word = (next >= 'a' && next <= 'z');
    const auto dtype = is_word ? dtype_from(ahead.word()) : Result<DType>(Status(TN_NOT_FOUND, "a number"));
    if (dtype.ok()) {
      scan_ = ahead;
      return AttributeValue(*dtype);
    }
    const graph::Number read = TN_TRY(scan_.number("a number, a [list], a \"string\" or a type"));
    return std::visit([](auto number) { return AttributeValue(number); }, read);
  }

  static AttributeValue list(const std::vector<graph::Number>& numbers) {
    std::vector<int64_t> whole;
    if (graph::all_whole(numbers, whole)) return whole;
    std::vector<double> real;
    for (const graph::Number& number : numbers)
      real.push_back(std::visit([](auto value) { return static_cast<double>(value); }, number));
    return real;
  }

  graph::Scanner scan_;
  Graph graph_{};
  size_t start_ = 0;  // of the statement
};

Result<Graph> Graph::parse(std::string_view text) { return GraphReader(text).run(); }

}  // namespace tenon
