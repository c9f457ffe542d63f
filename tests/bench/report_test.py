#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page and its charts from a report whose figures are made up here and stay here.
Invariant: what is drawn is where its number says; what was not measured is told and not drawn."""
import pathlib
import re
import tempfile
import unittest
import xml.etree.ElementTree as xml

import chart
import report

TARGETS = """s = [
  { row = "add", peer = "torch *", kind = "min_ratio", value = 2, source = "x" },
  { row = "mul", kind = "min_limit_fraction", value = 0.8, source = "x", why = "the adder is faster" },
]
"""


def row(name, **changes):
    base = {"name": name, "peer": None, "ours": 1.0, "theirs": None, "unit": "ms", "ratio": None, "spread": 0.1,
            "limit_fraction": None, "target": None, "met": None}
    return base | changes


ROWS = [
    row("add", peer="torch eager", theirs=4.0, ratio=4.0, target="ratio >= 2", met=True),
    row("add", peer="torch compile", theirs=1.0, ratio=1.0, target="ratio >= 2", met=False),
    row("mul", bytes=3_000_000, limit=0.5, limit_fraction=0.5, target=">= 80% of the limit", met=False),
    row("sub", peer="torch eager (missing: torch is not <installed>)"),
    *[row(f"fuse/blocks/{size}k", ours=size * 2.0) for size in (1, 10, 100)],
    row("fuse/two/1k"), row("fuse/two/10k"),
]


def elements(picture, tag):
    return xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}" + tag)


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "t.toml").write_text(TARGETS, encoding="utf-8")

    def write(self, rows, suite="s", beside=None):
        given = {"suite": suite, "machine": "a machine, 2 cores", "commit": "abc-dirty", "notes": ["torch 9"], "rows": rows}
        written = report.write([given], self.folder / "t.toml", self.folder, beside)
        return (self.folder / "performance.md").read_text(encoding="utf-8"), [path.name for path in written]

    def test_machine_commit_command_notes_and_verdicts_are_told(self):
        page, _ = self.write(ROWS)
        for part in ("`./dev bench s --peers --json FILE` on a machine, 2 cores, commit abc-dirty",
                     "1 of 3 rows that could be judged are met", "- torch 9", "| add | torch eager |  | 1 | 4 |  | ms | 4 | 0.1 |", "| mul |  | 3 MB | 1 |  | 0.5 | ms |",
                     "**missed**", "torch is not <installed>", "grows with the 1.00th power",
                     "- Missed: `mul`: the adder is faster"):
            self.assertIn(part, page)

    def test_every_picture_of_the_page_is_written_and_is_xml(self):
        page, written = self.write(ROWS)
        self.assertEqual(written, ["s-ratio.svg", "s-limit.svg", "s-growth.svg", "performance.md"])
        for link in re.findall(r"\]\((img/[^)]+)\)", page):
            xml.fromstring((self.folder / link).read_text(encoding="utf-8"))
        self.assertEqual(len(re.findall(r"\]\(img/", page)), 3)

    def test_a_report_without_figures_has_no_pictures(self):
        page, written = self.write([ROWS[3]])
        self.assertEqual(written, ["performance.md"])
        self.assertNotIn("img/", page)


    def test_a_report_replaces_the_section_of_its_suite_alone(self):
        first, _ = self.write(ROWS, "u")
        both, _ = self.write(ROWS[:1], "s")
        again, _ = self.write(ROWS[1:2], "s")
        kept = first[first.index("## u"):]
        self.assertTrue(both.endswith(kept) and again.endswith(kept), again)
        self.assertEqual(again.count("\n## s\n"), 1)
        self.assertIn("torch compile", again[:again.index("## u")])
        self.assertNotIn("torch eager", again[:again.index("## u")])

    def test_a_section_beside_its_suite_replaces_none_and_has_pictures_of_its_own(self):
        first, _ = self.write(ROWS, "s")
        both, written = self.write(ROWS, "s", "arm")
        self.assertTrue(both.startswith(first), both)
        self.assertIn("## s-arm\n\n`./dev bench s --peers --json FILE`", both)
        self.assertEqual(written, ["s-arm-ratio.svg", "s-arm-limit.svg", "s-arm-growth.svg", "performance.md"])
        self.assertEqual(self.write(ROWS, "s", "arm")[0], both)


class Bars(unittest.TestCase):
    def test_rows_of_one_name_are_told_apart_by_their_peers(self):
        targets = [{"row": "add", "kind": "min_ratio", "value": 2, "peer": "torch *"}]
        self.assertEqual(report.bars(ROWS, targets, "ratio", "min_ratio"),
                         [("add / torch eager", 4.0, 2, True), ("add / torch compile", 1.0, 2, False)])

    def test_a_ratio_of_nothing_is_left_out(self):
        nothing = dict(ROWS[0], ratio=0.0)
        self.assertEqual(report.bars([nothing, ROWS[1]], [], "ratio", "min_ratio"), [("add / torch compile", 1.0, None, None)])

    def test_twice_as_fast_is_half_as_far_as_four_times(self):
        picture = chart.ratio_bars([("a", 2.0, None, None), ("b", 4.0, 2.0, True), ("c", 0.5, None, False)])
        two, four, half = [(float(bar.get("x")), float(bar.get("width"))) for bar in list(elements(picture, "rect"))[1:]]
        self.assertAlmostEqual(four[1], 2 * two[1], delta=0.2)
        self.assertAlmostEqual(half[0] + half[1], two[0], delta=0.2)
        aim = [float(mark.get("x1")) for mark in elements(picture, "line") if mark.get("class") == "aim"]
        self.assertAlmostEqual(aim[0], two[0] + two[1], delta=0.2)

    def test_a_part_is_as_long_as_it_says(self):
        picture = chart.part_bars([("a", 0.5, 0.75, False), ("b <&>", 1.0, None, None)])
        half, whole = [float(bar.get("width")) for bar in list(elements(picture, "rect"))[1:]]
        self.assertAlmostEqual(whole, 2 * half, delta=0.2)
        self.assertIn("b <&>", [words.text for words in elements(picture, "text")])


class Lanes(unittest.TestCase):
    PANELS = [("(a)", [("compute", [["kernel", 0.0, 40.0]]), ("<gradients>", [["collective", 40.0, 80.0]])]),
              ("(b)", [("compute", [["kernel", 0.0, 40.0]]), ("gradients", [["collective", 20.0, 60.0], ["copy", 60.0, 70.0]])])]

    def test_work_stands_where_its_times_say_on_one_scale_for_all_panels(self):
        picture = chart.lanes(self.PANELS)
        bars = [(bar.get("fill"), float(bar.get("x")), float(bar.get("width"))) for bar in elements(picture, "rect")
                if bar.get("height") == str(chart.ROW - 6)]
        self.assertEqual([fill for fill, _, _ in bars],
                         [chart.WORK[kind] for kind in ("kernel", "collective", "kernel", "collective", "copy")])
        start, unit = bars[0][1], bars[0][2] / 40
        for (_, x, width), (begin, end) in zip(bars, [(0, 40), (40, 80), (0, 40), (20, 60), (60, 70)]):
            self.assertAlmostEqual(x, start + begin * unit, delta=0.2)
            self.assertAlmostEqual(width, (end - begin) * unit, delta=0.2)
        words = [words.text for words in elements(picture, "text")]
        for part in ("(a): 80 ms", "(b): 70 ms", "<gradients>", "20", "80"):
            self.assertIn(part, words)

    def test_marks_are_round_and_at_least_as_many_as_asked_for(self):
        self.assertEqual([chart.step_of(4, most) for most in (8, 39, 80, 610, 1000)], [2, 5, 20, 100, 200])

    def test_panels_of_one_name_are_one_picture(self):
        given = [{"picture": name, "title": title, "lanes": [{"name": lane, "events": events} for lane, events in rows]}
                 for name in ("streams/1Gbit", "streams/10Gbit") for title, rows in self.PANELS]
        found = report.charts({"rows": [], "pictures": given}, [])
        self.assertEqual(list(found), ["streams-1Gbit", "streams-10Gbit"])
        for words, picture in found.values():
            self.assertIn("in one step of rank 0", words)
            self.assertEqual(len(list(elements(picture, "rect"))), 1 + 5 + 3)


class Growth(unittest.TestCase):
    def test_families_of_three_sizes_are_found(self):
        self.assertEqual(report.growth(ROWS), {("fuse/blocks", "ms"): [(1000, 2.0), (10_000, 20.0), (100_000, 200.0)]})

    def test_what_is_linear_is_a_straight_line_on_its_guide(self):
        picture = chart.growth({"f": ([(1000, 2.0), (10_000, 20.0), (100_000, 200.0)], "ms")})
        points = [tuple(map(float, point.split(","))) for point in next(elements(picture, "polyline")).get("points").split()]
        (x1, y1), (x2, y2), (x3, y3) = points
        self.assertAlmostEqual((y2 - y1) / (x2 - x1), (y3 - y2) / (x3 - x2), delta=0.01)
        guide = next(mark for mark in elements(picture, "line") if mark.get("class") == "guide")
        self.assertAlmostEqual(float(guide.get("y2")), y3, delta=0.2)


if __name__ == "__main__":
    unittest.main()
