// SPDX-License-Identifier: Apache-2.0
// Every bad text is one message with line and column, what was expected and what was found.
#include <tenon/graph.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace tenon;

namespace {

// What is said of a graph with these statements.
std::string told(const std::string& statements, const std::string& tail = "end\n") {
  const auto read = Graph::parse("tenon-graph 1\n" + statements + tail);
  CHECK(read.code() == TN_INVALID);
  return read.ok() ? "" : std::string(read.message());
}

const std::string x = "input %x: f32[2,3]\n";

}  // namespace

TEST_CASE("text mistakes: a cycle is told with its way round") {
  CHECK(told(x + "%a: f32[2,3] = add(%x, %b)\n%c: f32[2,3] = neg(%a)\n%b: f32[2,3] = exp(%c)\n") ==
        "line 3, column 24: a cycle: 'a' needs 'b', which needs 'c', which needs 'a'");
  CHECK(told("%a: f32[2] = neg(%a)\n") == "line 2, column 18: a cycle: 'a' needs 'a'");
}

TEST_CASE("text mistakes: a value used too early is told from one that is nowhere") {
  CHECK(told(x + "%a: f32[2,3] = neg(%b)\n%b: f32[2,3] = exp(%x)\n") ==
        "line 3, column 20: 'b' is made in line 4, after its use: move that line up");
  CHECK(told("input %weight: f32[2]\n%a: f32[2] = neg(%wieght)\n") ==
        "line 3, column 18: no value is called 'wieght' (did you mean 'weight'?)");
  CHECK(told("output y = %y\n") == "line 2, column 12: no value is called 'y'");
}

TEST_CASE("text mistakes: types, ranks and shapes are told at the op") {
  CHECK(told(x + "input %h: f16[2,3]\n%a: f32[2,3] = add(%x, %h)\n") ==
        "line 4, column 16: add 'a' (f32[2,3], f16[2,3]): input 0 is f32 and input 1 is f16: they must be of "
        "one type, cast "
        "one of them");
  CHECK(told(x + "%a: f32[2,3] = global_pool(%x)\n") ==
        "line 3, column 16: global_pool 'a' (f32[2,3]): input 0 has rank 2, it must be of rank 4");
  CHECK(told(x + "%a: f32[3] = neg(%x)\n") ==
        "line 3, column 1: 'a' is declared f32[3] and neg gives f32[2,3]");
  CHECK(told("input %a: u8[1048576,1048576]\n") ==
        "line 2, column 1: input 'a': u8[1048576,1048576] has 1099511627776 elements, a tensor has fewer "
        "than 2^40");
}

TEST_CASE("text mistakes: unknown words are told with the nearest one") {
  CHECK(told(x + "%a: f32[2,3] = sigmiod(%x)\n") ==
        "line 3, column 16: no op is called 'sigmiod' (did you mean 'sigmoid'?); the ops are listed in "
        "tenon/ops.def");
  CHECK(told("input %a: f31[2]\n").find("line 2, column 11: no element type is called 'f31'") == 0);
  CHECK(told("inptu %a: f32[2]\n") ==
        "line 2, column 1: expected a statement (%name: …, input, param, constant, output, comm, end), found "
        "'inptu'");
  CHECK(told(x + "%a: f32[2,3] = softmax(%x) {axes=1}\n")
            .find("softmax 'a' (f32[2,3]): has no attribute 'axes'") != std::string::npos);
}

TEST_CASE("text mistakes: wherever a text is cut, it is told that it ends") {
  Graph g("cut");
  const std::vector<float> two = {1, 2};
  const auto c = g.constant("c", {f32, {2}}, std::as_bytes(std::span(two)));
  g.output("y", g.named("y").softmax(g.cast(c, f16), {{"axis", 0}}));
  const std::string text = g.text();
  REQUIRE(Graph::parse(text).ok());
  for (size_t end = 0; end + 1 < text.size(); ++end) {
    const auto read = Graph::parse(std::string_view(text).substr(0, end));
    CAPTURE(end);
    REQUIRE_FALSE(read.ok());
    CHECK(read.message().find("line ") == 0);
  }
  CHECK(told(x, "") == "line 3, column 1: expected another line or 'end', found the end of the text");
  CHECK(told(x + "%a: f32[2,3] = neg(%x", "") ==
        "line 3, column 22: expected ')' or ',' after an input, found the end of the text");
}

TEST_CASE("text mistakes: the form of a statement is told piece by piece") {
  CHECK(told("input x: f32[2]\n") == "line 2, column 7: expected a value, written as %name, found 'x'");
  CHECK(told("input %x f32[2]\n") ==
        "line 2, column 10: expected ':' after the name of a value, found 'f32'");
  CHECK(told("input %x: f32[2.5]\n") == "line 2, column 11: the dims of a type are whole numbers");
  CHECK(told("input %x: f32[2 3]\n") == "line 2, column 17: expected ']' or ',' in a list, found '3'");
  CHECK(told("input %x: f32[-2]\n") == "line 2, column 1: input 'x': dim 0 is -2: it must be 0 or more");
  CHECK(told("input %x: f32[99999999999999999999]\n") ==
        "line 2, column 15: '99999999999999999999' does not fit in 64 bits");
  CHECK(told(x + "%a: f32[2,3] = scale(%x) {scale=1e400}\n") ==
        "line 3, column 33: '1e400' is too large or too close to 0 for a float of 64 bits");
  CHECK(told(x + "%a: f32[2,3] = scale(%x) {scale=1e-400}\n") ==
        "line 3, column 33: '1e-400' is too large or too close to 0 for a float of 64 bits");
  CHECK(told("input %x: f32[2] {strides=7}\n").find("a leaf takes {alignment=NUMBER, strides=[…]}") !=
        std::string::npos);
  CHECK(told(x + "%a: f32[2,3] neg(%x)\n") ==
        "line 3, column 14: expected '=' after the outputs of a node, found 'neg'");
  CHECK(told(x + "%a: f32[2,3], %b: f32[2,3] = neg(%x)\n") ==
        "line 3, column 30: neg 'a' (f32[2,3]): it is given 2 names, it has 1 output");
  CHECK(told(x + "neg(%x)\n") == "line 3, column 1: neg gives 1 output, 0 are written here");
  CHECK(told(x + "_ = neg(%x)\n") == "line 3, column 1: output 0 of neg is f32[2,3] and cannot be left out");
  CHECK(told(x + "%a: f32[2,3] = neg(%x) more\n") ==
        "line 3, column 24: expected the end of the line after the statement, found 'more'");
  CHECK(told("constant %c: bf16[1] = [1]\n") ==
        "line 2, column 24: constants of type bf16 are written in hex: 0x and their bytes");
  CHECK(told("constant %c: u8[1] = [256]\n") == "line 2, column 22: 256 is no u8");
  CHECK(told("constant %c: u8[2] = 0x0g00\n") == "line 2, column 22: '0g' at hex digit 0 is no byte");
  CHECK(told("constant %c: u8[2] = 0x00\n") ==
        "line 2, column 1: constant 'c': u8[2] takes 2 bytes, it is given 1");
}

TEST_CASE("text mistakes: a text of another form or of none is told") {
  CHECK(Graph::parse("").message() == "line 1, column 1: expected 'tenon-graph 1' at the head of the text");
  CHECK(Graph::parse("hello\n").message() ==
        "line 1, column 1: expected 'tenon-graph 1' at the head of the text");
  CHECK(Graph::parse("tenon-graph 2\nend\n").message().find("the text is of form 2, form 1 is known here") !=
        std::string::npos);
  CHECK(Graph::parse("tenon-graph 1\nend\nend\n").message() == "line 3, column 1: there is more after 'end'");
}
