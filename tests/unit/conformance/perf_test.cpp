// SPDX-License-Identifier: Apache-2.0
// The statistics of --perf and what figures are held against.
#include "conformance/perf.hpp"
#include "conformance/report.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace tenon::conform;

namespace {

Figure figure(const char* name, Figure::Against against, double median, double flops_per_byte = 0) {
  Figure out{
      .group = "kernel", .name = name, .unit = "GB/s", .against = against, .flops_per_byte = flops_per_byte};
  summarise(out, {median});
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("perf: a figure is the middle of its samples, with how far they spread") {
  Figure out;
  summarise(out, {5, 1, 4, 2, 3});
  CHECK(out.samples == 5);
  CHECK(out.median == doctest::Approx(3));
  CHECK(out.low == doctest::Approx(1.4));
  CHECK(out.high == doctest::Approx(4.6));
  CHECK(out.spread == doctest::Approx(100 * 1.5811388 / 3));
}

TEST_CASE("perf: one far sample moves the spread and not the middle") {
  Figure calm, noisy;
  summarise(calm, {10, 10, 10, 10, 10});
  summarise(noisy, {10, 10, 10, 10, 1000});
  CHECK(calm.spread == doctest::Approx(0));
  CHECK(noisy.median == doctest::Approx(10));
  CHECK(noisy.spread > 100);
}

TEST_CASE("perf: no samples leave a figure as it was") {
  Figure out{.trouble = "the plugin has no host_call"};
  summarise(out, {});
  CHECK(out.samples == 0);
  CHECK(figure_text(out) == "not measured: the plugin has no host_call");
}

TEST_CASE("perf: a ceiling is the best of its kind in the same run") {
  std::vector<Figure> all{
      figure("pageable", Figure::Against::link, 6), figure("pinned", Figure::Against::link, 12),
      figure("copy", Figure::Against::memory, 100), figure("relu", Figure::Against::memory, 80),
      figure("record", Figure::Against::nothing, 7)};
  relate(all);
  CHECK(all[0].percent == doctest::Approx(50));
  CHECK(all[1].percent == doctest::Approx(100));
  CHECK(all[3].percent == doctest::Approx(80));
  CHECK(has(all[3].ceiling, "100.0 GB/s"));
  CHECK(all[4].percent == 0);
}

TEST_CASE("perf: arithmetic stands under a roofline") {
  std::vector<Figure> all{figure("copy", Figure::Against::memory, 10),
                          figure("large", Figure::Against::arithmetic, 100, 50),
                          figure("thin", Figure::Against::arithmetic, 4, 0.5)};
  relate(all);
  CHECK(all[1].percent == doctest::Approx(100));  // 10 GB/s would feed 500: the arithmetic bounds it
  CHECK(all[2].percent == doctest::Approx(80));   // 10 GB/s feed 5, whatever the arithmetic could
  CHECK(has(all[2].ceiling, "memory traffic could feed"));
}

TEST_CASE("perf: figures are told group by group, each in the order of its measurement") {
  std::vector<Figure> all{{.group = "kernel", .name = "a"},
                          {.group = "call", .name = "b"},
                          {.group = "kernel", .name = "c"},
                          {.group = "copy", .name = "d"},
                          {.group = "call", .name = "e"}};
  order(all);
  std::string names;
  for (const Figure& each : all) names += each.name;
  CHECK(names == "bedac");
}

TEST_CASE("perf: three digits count, whatever the size") {
  const auto text = [](double value) { return figure_text(figure("f", Figure::Against::nothing, value)); };
  CHECK(has(text(0.051234), "0.0512 GB/s"));
  CHECK(has(text(5.1234), "5.12 GB/s"));
  CHECK(has(text(512.34), "512 GB/s"));
  CHECK(has(text(51234), "51234 GB/s"));
}

TEST_CASE("perf: what was not measured is no ceiling and has no percentage") {
  Figure none{.group = "copy", .unit = "GB/s", .against = Figure::Against::link, .trouble = "no"};
  std::vector<Figure> all{none};
  relate(all);
  CHECK(all[0].percent == 0);
}

TEST_CASE("perf: the text names group, figure, ceiling and remark") {
  Performance told{
      .asked = true, .figures = {figure("relu", Figure::Against::memory, 80)}, .remark = "it died"};
  relate(told.figures);
  std::ostringstream out;
  print_figures(out, told, Style{});
  CHECK(has(out.str(),
            "Kernels\n    relu: 80.0 GB/s, 100 % of the greatest memory traffic reached, 80.0 GB/s"));
  CHECK(has(out.str(), "it died"));
  std::ostringstream silent;
  print_figures(silent, Performance{}, Style{});
  CHECK(silent.str().empty());
}
