#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a browser: at a desktop's and a phone's width, in both themes, with every verdict there is.
Invariant: the page asks nobody for anything, complains of nothing, fits its screen, and works by keyboard. Photographs
lie in TENON_TEST_BUILD_DIR/tests/page for a person to look at. No browser: a visible skip.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser
import sample
from looks import CONTRAST, OUTSIDE, SPILLED

TOOL = os.environ["TENON_TEST_TOOL"]
RIGHT = os.environ["TENON_TEST_RIGHT_PLUGIN"]
WIDTHS = (1200, 360)
SECTIONS = ("failures", "support", "gaps", "performance", "cases", "environment")

ROWS = 'document.querySelectorAll("#list tbody tr").length'
ACTIVE = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


def written_page(folder):
    """A page that the tool wrote."""
    path = folder / "real.html"
    words = ["--quick", "--perf", "--filter", "copy: *", "--filter", "fill: *", "--html", path]
    subprocess.run([TOOL, "conform", RIGHT, *words], check=True, capture_output=True, timeout=200)
    return path


class Page(browser.Page):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        folder = pathlib.Path(cls.folder.name)
        cls.real, cls.rich = written_page(folder), folder / "rich.html"
        text = cls.real.read_text(encoding="utf-8")
        cls.report = sample.every_verdict(sample.data(text))
        cls.rich.write_text(sample.page_with(text, cls.report), encoding="utf-8")
        cls.open_browser(browser.program())

    def set(self, name, value, event):
        self.ask(f'document.getElementById("{name}").value = "{value}"')
        self.ask(f'document.getElementById("{name}").dispatchEvent(new Event("{event}"))')

    def test_it_fits_and_reads_at_both_widths_in_both_themes(self):
        for path in (self.real, self.rich):
            for width in WIDTHS:
                for theme in ("light", "dark"):
                    with self.subTest(page=path.stem, width=width, theme=theme):
                        self.browser.open(path, width, theme=theme)
                        self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.ask(OUTSIDE), [])
                        self.assertEqual(self.ask(SPILLED), [])
                        least, text = self.ask(CONTRAST)
                        self.assertGreaterEqual(least, 4.5, f"'{text}' cannot be read")
                        self.browser.photograph(browser.PHOTOGRAPHS / f"{path.stem}-{width}-{theme}.png")
                        self.is_clean(path)

    def test_a_photograph_shows_both_themes_and_widths(self):
        sizes = {}
        for width in WIDTHS:
            for theme in ("light", "dark"):
                self.browser.open(self.rich, width, theme=theme)
                file = browser.PHOTOGRAPHS / f"top-{width}-{theme}.png"
                self.browser.photograph(file, whole=False)
                data = file.read_bytes()
                sizes[width, theme] = int.from_bytes(data[16:20], "big"), data
        for (width, _), (wide, _) in sizes.items():
            self.assertEqual(wide, width)
        self.assertEqual(len({data for _, data in sizes.values()}), 4, "two of the photographs are the same")

    def test_every_section_is_drawn(self):
        self.browser.open(self.rich, 1200)
        for section in SECTIONS:
            drawn = self.ask(f'document.querySelector("#{section} .body, #{section} table").textContent')
            self.assertGreater(len(drawn), 20, section)
        self.assertIn("does not conform", self.ask("document.title"))
        self.browser.open(self.real, 1200)
        self.assertIn("conforms", self.ask("document.title"))
        self.assertTrue(self.ask('document.getElementById("failures").hidden'))

    def test_the_matrix_is_op_by_dtype_with_reasons_on_hover_and_in_text(self):
        self.browser.open(self.rich, 1200)
        head = self.ask('[...document.querySelectorAll("#support .frame:last-child thead th")].map(e => e.textContent)')
        self.assertEqual(head[1:], list(sample.DTYPES))
        cell = 'document.querySelector(\'#support .cell[aria-label^="softmax, bf16"]\')'
        self.assertIn("3.5 ULP", self.ask(f"{cell}.title"))
        self.assertIn("3 failed", self.ask(f"{cell}.title"))
        self.assertIn("failed", self.ask(f"{cell}.className"))
        self.ask(f"{cell}.click()")
        self.assertEqual(self.ask(ROWS), 3)
        self.assertIn("3.5 ULP", self.ask('document.querySelector("#list tbody").textContent'))

    def test_filters_narrow_the_list_and_live_in_the_address(self):
        self.browser.open(self.rich, 1200)
        total = len(self.report["cases"])
        self.assertEqual(self.ask(ROWS), total)
        self.set("text", "3.5 ulp", "input")
        self.assertEqual(self.ask(ROWS), 3)
        self.ask('document.getElementById("reset").click()')
        self.assertEqual(self.ask(ROWS), total)
        self.ask('document.querySelector("#verdicts [data-verdict=unsupported]").click()')
        self.assertEqual(self.ask(ROWS), self.report["verdicts"]["unsupported"])
        self.set("level", "0", "change")
        self.assertIn("No case is like that", self.ask('document.querySelector("#list tbody").textContent'))
        address = self.ask("location.hash")
        self.browser.open(self.rich, 1200, hash_part="#level=1&verdicts=failed")
        self.assertEqual(self.ask(ROWS), 3)
        self.assertIn("unsupported", address)

    def test_unsupported_and_expected_failure_are_two_lists(self):
        self.browser.open(self.rich, 1200)
        titles = self.ask('[...document.querySelectorAll("#gaps h3")].map(e => e.textContent)')
        self.assertEqual(titles[:2], ["Not offered by the plugin", "Expected failures"])
        lists = self.ask('[...document.querySelectorAll("#gaps dl")].map(e => e.textContent)')
        self.assertIn("convolution gradients are not computed yet", lists[0])
        self.assertNotIn("2027-06-30", lists[0])
        self.assertIn("until 2027-06-30", lists[1])

    def test_a_vendors_tolerance_is_told_with_its_use(self):
        self.browser.open(self.rich, 1200)
        told = self.ask('document.getElementById("gaps").textContent')
        for part in ("Tolerances, set by the vendor", "exp in f16: 4 times the usual", "needed by 2 of 3 cases",
                     "a table of 256 entries (until 2027-06-30)", "none needed it"):
            self.assertIn(part, told)

    def test_the_line_that_repeats_a_case_is_copied(self):
        self.browser.open(self.rich, 1200)
        line = self.ask('document.querySelector("#failures .again code").textContent')
        self.assertTrue(line.startswith("tenon conform "))
        self.ask("""(window.copied = [], document.execCommand = () => copied.push(document.querySelector("textarea").value),
                    navigator.clipboard && (navigator.clipboard.writeText = async text => { copied.push(text); }))""")
        self.ask('document.querySelector("#failures .again button").click()')
        self.assertEqual(self.ask("new Promise(done => setTimeout(() => done(copied), 100))"), [line])

    def test_what_a_plugin_writes_stays_text(self):
        self.browser.open(self.rich, 1200)
        self.assertEqual(self.ask('document.querySelectorAll("img, #failures b").length'), 0)
        self.assertIn("<b>bold</b>", self.ask('document.getElementById("failures").textContent'))

    def test_the_keyboard_reaches_everything_in_order(self):
        self.browser.open(self.rich, 1200)
        self.browser.key("Tab", 9)
        self.assertEqual(self.ask(ACTIVE), "skip")
        self.browser.key("Enter", 13)
        self.assertEqual(self.ask(ACTIVE), "cases")
        order = []
        for _ in range(4):
            self.browser.key("Tab", 9)
            order.append(self.ask(ACTIVE))
        self.assertEqual(order[:2], ["text", "level"])
        self.assertTrue(self.ask('getComputedStyle(document.activeElement).outlineStyle') != "none", "the focus is not seen")
        self.browser.key("Enter", 13)
        self.assertLess(self.ask(ROWS), len(self.report["cases"]))

    def test_tables_and_controls_have_names(self):
        self.browser.open(self.rich, 1200)
        nameless = """[...document.querySelectorAll("button, input, select, table, .frame")].filter(e =>
          !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.querySelector("caption")))
          .map(e => e.outerHTML.slice(0, 80))"""
        self.assertEqual(self.ask(nameless), [])
        self.assertEqual(self.ask('document.querySelectorAll("table:not(:has(caption))").length'), 0)
        self.assertEqual(self.ask('document.querySelectorAll("th:not([scope])").length'), 0)

    def test_the_theme_can_be_chosen(self):
        self.browser.open(self.real, 1200)
        seen = []
        for _ in range(3):
            seen.append((self.ask('document.getElementById("theme").textContent'),
                         self.ask("document.documentElement.dataset.theme")))
            self.ask('document.getElementById("theme").click()')
        self.assertEqual(seen, [("theme: auto", "light"), ("theme: light", "light"), ("theme: dark", "dark")])

    def test_a_plugin_that_cannot_be_entered_has_a_page_too(self):
        library, path = self.rich.with_name("tenon-bad.so"), self.rich.with_name("bad.html")
        library.write_text("no library at all", encoding="utf-8")
        done = subprocess.run([TOOL, "conform", library, "--quick", "--filter", "copy: *", "--html", path],
                              capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 1)
        self.browser.open(path, 360)
        self.is_clean(path)
        self.assertIn("dlopen", self.ask('document.getElementById("failures").textContent'))
        self.assertIn("not run", self.ask('document.getElementById("legend").textContent'))

    def test_a_thousand_failures_do_not_flood_the_page(self):
        report = sample.every_verdict(self.report)
        failing = [one for one in report["cases"] if one["verdict"] == "failed"]
        report["cases"] += [dict(one, name=f"{one['name']} again {i}") for i in range(350) for one in failing[:3]]
        path = self.rich.with_name("many.html")
        path.write_text(sample.page_with(self.real.read_text(encoding="utf-8"), report), encoding="utf-8")
        self.browser.open(path, 360)
        self.assertLessEqual(self.ask('document.querySelectorAll("#failures article").length'), 20)
        self.assertIn("more failing cases", self.ask('document.getElementById("failures").textContent'))
        self.is_clean(path)


if __name__ == "__main__":
    if browser.program() is None:
        browser.skip()
    unittest.main(argv=sys.argv)
