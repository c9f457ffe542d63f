// SPDX-License-Identifier: Apache-2.0
// The parts of pictures.
#include "base/svg.hpp"

#include <doctest/doctest.h>

namespace svg = tenon::base::svg;

TEST_CASE("svg: figures have one decimal") {
  CHECK(svg::figure(0) == "0.0");
  CHECK(svg::figure(-12.34) == "-12.3");
  CHECK(svg::figure(1e6) == "1000000.0");
}

TEST_CASE("svg: text from outside is well-formed afterwards, and in ASCII") {
  CHECK(svg::escaped("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(svg::escaped("\x01\xff\x7f y") == "??? y");
}

TEST_CASE("svg: rectangles and lines of text") {
  CHECK(svg::rectangle("node", {1, 2, 3, 4}, 5) ==
        "<rect class=\"node\" x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"4.0\" rx=\"5\"/>\n");
  CHECK(svg::rectangle("node", {1, 2, 3, 4}, 5, "><title>t</title></rect>\n") ==
        "<rect class=\"node\" x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"4.0\" "
        "rx=\"5\"><title>t</title></rect>\n");
  CHECK(svg::text("dim end", 1, 2, "µs") == "<text class=\"dim end\" x=\"1.0\" y=\"2.0\">µs</text>\n");
}
