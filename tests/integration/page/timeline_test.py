#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `tenon trace` in a browser: its sums, its lanes, mouse and keyboard, and how fast 50,000 events move.
Invariant: the page asks nobody for anything, complains of nothing, fits its screen. Photographs lie in
TENON_TEST_BUILD_DIR/tests/page for a person to look at. No browser: a visible skip.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser
import run_sample
from looks import CONTRAST, OUTSIDE, SPILLED

TOOL = os.environ["TENON_TEST_TOOL"]
FULL = os.environ.get("TENON_TEST_FULL") == "1"
CELLS, COPIES = 8000, 1000  # of each of two ranks: 50,000 events
# Lane, ns, and what is drawn there.
PLACES = ([0, 5500, "kernel"], [0, 7500, "row"], [1, 4700, "collective"], [1, 3000, "row"], [2, 1300, "copy"], [3, 15500, "kernel"],
          [4, 18500, "collective"])
READY = "Number(document.documentElement.dataset.ready)"
# The times that `draw` takes for 60 places of the mouse while it drags, and those from one frame to the next, sorted.
PAN = """(async () => {
  const at = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind, {pointerId: 1, clientX: x, clientY: 200, bubbles: true}));
  const frame = () => new Promise(done => requestAnimationFrame(done));
  zoom(0.25);
  const draws = [], frames = [];
  at("pointerdown", 600);
  let last = await frame();
  for (let i = 0; i < 60; ++i) {
    at("pointermove", 600 + 200 * Math.sin(i / 5));
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  at("pointerup", 600);
  for (let i = 0; i < 60; ++i) {
    await frame();
    move(i % 2 ? 0.01 : -0.01);
    const start = performance.now();
    draw();
    draws.push(performance.now() - start);
  }
  zoom(4);
  return [draws, frames].map(times => times.sort((a, b) => a - b));
})()"""


def p95(times):
    return times[int(len(times) * 0.95)]


def traced(*words):
    return subprocess.run([TOOL, "trace", *map(str, words)], capture_output=True, text=True, timeout=100, check=False)


def cells(section, line):
    return f'[...document.querySelectorAll("#{section} tbody tr")][{line}].innerText.split(/\\t/).map(t => t.trim())'


class Page(browser.Page):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.page = cls.folder / "timeline.html"
        cls.run_text = traced(*run_sample.write(cls.folder, 2, CELLS, COPIES), "--html", cls.page)
        assert cls.run_text.returncode == 0, cls.run_text.stderr
        cls.open_browser(browser.program())

    def open(self, path=None, width=1200, **more):
        self.browser.open(path or self.page, width, **more)

    def mouse(self, kind, x, y):
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                          clickCount=1)

    def place(self, lane, ns):
        """Where on the screen a moment of a lane is."""
        return self.ask(f"(() => {{ const box = canvas.getBoundingClientRect(), row = rows.filter(r => r.lane)[{lane}];"
                        f" return [box.left + x({ns}), box.top + row.y + 13]; }})()")

    def test_the_sums_are_those_of_the_run(self):
        self.open()
        self.assertEqual(self.ask(cells("totals", 0)), ["0", "80.0 ms", "48.0 ms", "40.0 ms", "24.0 ms", "40.0 %", "1.00 ms",
                                                        "8.00 ms", "90.0 %"])
        self.assertEqual(self.ask(cells("totals", 2))[:5], ["all", "160.0 ms", "96.0 ms", "80.0 ms", "48.0 ms"])
        self.assertEqual(self.ask(cells("buckets", 3)), ["3", "4.0 KiB", "4000", "4.00 µs", "5.00 µs", "125.0 %",
                                                         "5.00 µs … 5.00 µs", "all_reduce"])
        self.assertIn("50000 events", self.ask('$("byline").textContent'))
        for part in ("40.0 %", "24.00 ms", "90.0 %", "125.0 %"):
            self.assertIn(part, self.run_text.stdout)
        self.is_clean(self.page)

    def test_it_fits_at_both_widths_in_both_themes(self):
        seen = set()
        for width in (1200, 360):
            for theme in ("light", "dark"):
                with self.subTest(width=width, theme=theme):
                    self.open(width=width, theme=theme)
                    self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.ask(OUTSIDE), [])
                    self.assertEqual(self.ask(SPILLED), [])
                    least, text = self.ask(CONTRAST)
                    self.assertGreaterEqual(least, 4.5, f"'{text}' cannot be read")
                    file = browser.PHOTOGRAPHS / f"timeline-{width}-{theme}.png"
                    self.browser.photograph(file)
                    seen.add(file.read_bytes())
                    self.is_clean(self.page)
        self.assertEqual(len(seen), 4, "two of the photographs are the same")

    def test_bars_stand_where_their_events_are(self):
        self.open()
        self.ask("show(0, 40000)")  # four cells
        self.ask("new Promise(requestAnimationFrame)")
        found = self.ask("""(places => { const ratio = devicePixelRatio, all = rows.filter(r => r.lane);
          const {data, width} = brush.getImageData(0, 0, canvas.width, canvas.height);
          return places.map(([lane, ns]) => {
            const at = 4 * (Math.round((all[lane].y + 21) * ratio) * width + Math.round(x(ns) * ratio));
            return "#" + [...data.slice(at, at + 3)].map(v => v.toString(16).padStart(2, "0")).join(""); }); })("""
                         f"{[place[:2] for place in PLACES]})")
        for (lane, ns, kind), colour in zip(PLACES, found):
            self.assertEqual(colour, self.ask(f"colours.{kind}"), (lane, ns, kind))
        self.browser.photograph(browser.PHOTOGRAPHS / "timeline-near.png", whole=False)
        self.is_clean(self.page)

    def test_the_mouse_tells_chooses_and_moves(self):
        self.open()
        self.ask("show(0, 100000)")
        px, py = self.place(1, 26500)
        self.mouse("mouseMoved", px, py)
        tip = self.ask('$("tip").innerText')
        for part in ("collective all_reduce", "rank 0, gradients", "5.00 µs long", "bucket 2", "took 125 %"):
            self.assertIn(part, tip)
        self.mouse("mousePressed", px, py)
        self.mouse("mouseReleased", px, py)
        self.assertIn("bucket 2", self.ask('$("chosen").textContent'))
        self.mouse("mousePressed", px, py)
        self.mouse("mouseMoved", px - 100, py)
        self.mouse("mouseReleased", px - 100, py)
        self.assertGreater(self.ask("view.from"), 5000)
        self.ask('$("whole").click()')
        self.assertEqual(self.ask("[view.from, view.to]"), self.ask("[whole.from, whole.to]"))

    def test_the_keyboard_does_what_the_mouse_does(self):
        self.open()
        self.ask("canvas.focus()")
        for key, code, expression in (("+", 187, "view.to < whole.to"), ("ArrowRight", 39, "view.from > 0"),
                                      ("0", 48, "view.to === whole.to"), ("ArrowDown", 40, "chosen.lane === trace.lanes[1]"),
                                      ("n", 78, "chosen.i === 1"), ("p", 80, "chosen.i === 0"), ("Escape", 27, "chosen === null")):
            self.browser.key(key, code)
            self.assertTrue(self.ask(expression), key)
        self.is_clean(self.page)

    def test_what_a_run_holds_stays_text(self):
        self.open()
        self.assertEqual(self.ask('document.querySelectorAll("img, b").length'), 0)
        self.ask("choose(event(trace.lanes[2], 0))")
        self.assertIn("<b>bold</b>", self.ask('$("chosen").textContent'))
        self.assertTrue(self.ask("document.title").startswith("Timeline: rank0.json"))

    def test_names_for_those_who_do_not_see_it(self):
        self.open()
        nameless = """[...document.querySelectorAll("button, canvas, .frame")].filter(e =>
          !(e.ariaLabel || e.textContent.trim() || e.getAttribute("aria-labelledby"))).map(e => e.outerHTML.slice(0, 80))"""
        self.assertEqual(self.ask(nameless), [])
        self.assertEqual(self.ask('document.querySelectorAll("table:not(:has(caption)), th:not([scope])").length'), 0)

    def test_a_note_and_a_run_without_buckets(self):
        folder = self.folder / "small"
        folder.mkdir()
        files = run_sample.write(folder, 1, 0, 0, notes=["stream 'gradients 0' failed"])
        done = traced(*files, "--html", folder / "small.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.open(folder / "small.html")
        self.assertIn("gradients 0", self.ask('$("notes").innerText'))
        self.assertTrue(self.ask('$("buckets").hidden'))
        self.is_clean(folder / "small.html")

    def test_runs_stand_one_over_the_other_on_one_scale_of_time(self):
        runs = (("no-overlap", 400), ("one-stream", 300), ("three-streams", 200))
        files = []
        for name, cells_of_run in runs:
            folder = self.folder / name
            folder.mkdir()
            for path in run_sample.write(folder, 2, cells_of_run, 10):
                files.append(path.rename(self.folder / f"{name}.{path.name}"))
        page = self.folder / "runs.html"
        done = traced(*files, "--html", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.open(page)
        self.assertEqual(self.ask("document.title"), "Timeline: no-overlap, one-stream, three-streams")
        self.assertEqual(self.ask('[$("title").textContent, $("runs").hidden]'), ["3 runs", False])
        self.assertEqual(self.ask("whole.to"), 4e6)  # of the longest
        for line, (name, cells_of_run) in enumerate(runs):
            wall, exposed = f"{cells_of_run * 20 / 1000:.2f} ms", f"{cells_of_run * 6 / 1000:.2f} ms"
            self.assertEqual(self.ask(cells("runs", line))[:2], [name, wall])
            self.assertEqual(self.ask(cells("runs", line))[4:6], [exposed, "40.0 %"])
            self.assertIn(name, done.stdout)
            self.assertIn(exposed, done.stdout)
            self.assertEqual(self.ask(cells("totals", 2 * line + 1))[:2], [f"{name}: 1", f"{cells_of_run * 10 / 1000:.2f} ms"])
        self.assertEqual(self.ask("rows.map(r => r.lane ? r.lane.run : r.rank ?? trace.runs[r.run].name)"),
                         [part for i, (name, _) in enumerate(runs) for part in (name, 0, i, i, i, 1, i, i, i)])
        # The same moment of each run stands over that of the others, and what is over is empty.
        self.ask("show(1.95e6, 1.96e6)")
        self.assertEqual(self.ask("[0, 6, 12].map(i => at(x(1.953e6), rows.filter(r => r.lane)[i].y + 13)?.kind ?? null)"),
                         ["kernel", "kernel", "kernel"])
        self.ask("choose(at(x(1.953e6), rows.filter(r => r.lane)[6].y + 13))")
        self.assertIn("one-stream · kernel", self.ask('$("chosen").textContent'))
        self.ask("show(2.95e6, 2.96e6)")
        self.assertEqual(self.ask("[0, 6, 12].map(i => at(x(2.953e6), rows.filter(r => r.lane)[i].y + 13)?.lane.run ?? null)"),
                         [0, 1, None])
        for width in (1200, 360):
            for theme in ("light", "dark"):
                with self.subTest(width=width, theme=theme):
                    self.open(page, width=width, theme=theme)
                    self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), width)
                    self.assertEqual([self.ask(OUTSIDE), self.ask(SPILLED)], [[], []])
                    self.browser.photograph(browser.PHOTOGRAPHS / f"timeline-runs-{width}-{theme}.png")
                    self.is_clean(page)

    def test_fifty_thousand_events_are_there_at_once_and_move_smoothly(self):
        self.open()
        ready = self.ask(READY)
        draws, frames = self.ask(PAN)
        print(f"50,000 events: there after {ready:.0f} ms; p95 of drawing {p95(draws):.1f} ms, of a frame {p95(frames):.1f} ms")
        self.assertLess(ready, 2000)
        self.assertLess(p95(draws), 50)
        if FULL:  # a frame also waits for whatever else the machine does
            self.assertLess(p95(frames), 50)
        self.is_clean(self.page)


if __name__ == "__main__":
    if browser.program() is None:
        browser.skip()
    unittest.main(argv=sys.argv)
