#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `./dev demo` shows, made smaller: two samples that print a table of their ways and leave timelines, and the pages of those in
a browser.

Invariant: what a page says of a run is what the sample printed of it. Photographs lie in TENON_TEST_BUILD_DIR/tests/page for a
person to look at. No browser: the tables are checked all the same, and then it is a visible skip.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "page"))
import browser  # noqa: E402
from looks import OUTSIDE, SPILLED  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
BROWSER = browser.program()
RANKS, EAGER_STEPS = 2, 20  # steps of samples/eager_ddp that are shown
EAGER, DIGITS = ("no overlap", "one stream", "three streams"), ("as written", "fused", "fused, overlapped, bf16")
DIGITS_FILES = ("as-written", "fused", "overlapped")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rows(text, names):
    """The figures of each way's line in a table, by its name."""
    found = {}
    for name in names:
        line = re.findall(rf"(?m)^(?:\[0\] )?{re.escape(name)} {{2,}}([\d.% ]+)$", text)
        assert len(line) == 1, f"no line of '{name}' in\n{text}"
        found[name] = [float(word) for word in line[0].replace("%", " ").split()]
    return found


class Demo(browser.Page):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.eager = run(BIN / "eager_ddp", RANKS, cls.folder)
        cls.digits = run(BIN / "tenon", "run", "-n", RANKS, "--quiet", "--", BIN / "digits", 1, cls.folder)
        if BROWSER:
            cls.open_browser(BROWSER)

    def page(self, name, files):
        """The page of these runs, open; it is as clean as one of made-up numbers."""
        paths = [self.folder / f"{file}.rank{rank}.json" for file in files for rank in range(RANKS)]
        page = self.folder / f"{name}.html"
        run(BIN / "tenon", "trace", *paths, "--html", page)
        if self.browser is None:
            self.skipTest("no browser")
        for width in (360, 1200):
            self.browser.open(page, width)
            self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), width)
            self.assertEqual([self.ask(OUTSIDE), self.ask(SPILLED)], [[], []])
            self.browser.photograph(browser.PHOTOGRAPHS / f"{name}-{width}.png")
            self.is_clean(page)
        self.assertEqual(self.ask("trace.runs.map(run => run.name)"), list(files))

    def names(self, run_number, kind, stream):
        """Names of the events of a kind in lanes of one stream of rank 0."""
        return set(self.ask(f"""trace.lanes.filter(l => l.run === {run_number} && l.rank === 0 && l.stream.startsWith("{stream}"))
            .flatMap(l => [...Array(l.count).keys()].map(i => event(l, i))).filter(e => e.kind === "{kind}").map(e => e.name)"""))

    def test_eager_ddp_compares_three_ways(self):
        table = rows(self.eager, EAGER)
        for name, (wall, compute, communication, exposed, overlap) in table.items():
            self.assertGreater(min(wall, compute, communication), 0, name)
            self.assertLessEqual(exposed, communication, name)
            self.assertAlmostEqual(overlap, 100 * (1 - exposed / communication), delta=1 + 2 / communication, msg=name)
        self.assertEqual(len(re.findall(r"(?m)^.*: rank [01] of 2: right$", self.eager)), len(EAGER) * RANKS)

    def test_digits_compares_three_ways(self):
        table = rows(self.digits, DIGITS)
        written, fused, overlapped = (dict(zip(("ms", "launches", "sums", "moved", "peak", "accuracy"), table[name]))
                                      for name in DIGITS)
        self.assertLess(fused["launches"], written["launches"])
        self.assertEqual(fused["sums"], 1)
        self.assertGreater(written["sums"], fused["sums"])
        self.assertLess(fused["moved"], written["moved"])
        self.assertLess(overlapped["moved"], written["moved"])
        for row in (written, fused, overlapped):
            self.assertGreater(min(row.values()), 0)
            self.assertGreater(row["accuracy"], 50)  # after one epoch; one in ten is luck

    def test_the_page_of_eager_ddp_says_what_was_printed(self):
        files = [name.replace(" ", "-") for name in EAGER]
        self.page("demo-eager", files)
        steps, table = 1e6 * RANKS * EAGER_STEPS, rows(self.eager, EAGER)
        for number, name in enumerate(EAGER):
            told = self.ask(f"(t => [t.wall, t.compute, t.communication, t.exposed])(trace.runs[{number}].all)")
            self.assertEqual([f"{ns / steps:.2f}" for ns in told], [f"{ms:.2f}" for ms in table[name][:4]], name)
            self.assertTrue(self.names(number, "kernel", "compute"))
            self.assertTrue(self.names(number, "collective", "gradients"))
        lanes = self.ask("""trace.runs.map((_, run) => trace.lanes.filter(l => l.run === run && l.rank === 0 && l.kinds.includes(2)).length)""")
        self.assertEqual(lanes, [1, 1, 3])

    def test_the_page_of_digits_has_loader_step_and_buckets(self):
        self.page("demo-digits", DIGITS_FILES)
        for number in range(len(DIGITS_FILES)):
            self.assertIn("batch", self.names(number, "copy", "loader"))
            self.assertIn("batch", self.names(number, "wait", "compute"))
            self.assertIn("batch", self.names(number, "host", "host"))
            self.assertTrue(any(name.startswith("bucket ") for name in self.names(number, "wait", "compute")))
        sums = [int(rows(self.digits, DIGITS)[name][2]) for name in DIGITS]
        buckets = self.ask("trace.runs.map(run => run.buckets.length)")
        self.assertEqual(buckets[:2], sums[:2])
        self.assertGreater(buckets[2], 0)  # planned by costs, which the run that is traced measures for itself
        self.assertFalse(self.ask('$("buckets").hidden'))


if __name__ == "__main__":
    done = unittest.main(argv=sys.argv, exit=False).result
    if not done.wasSuccessful():
        sys.exit(1)
    if not BROWSER:
        browser.skip()
