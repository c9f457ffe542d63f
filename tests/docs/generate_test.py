#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests docs/generate.py on small trees: what is stale is named and refreshed, what cannot be made is a finding.
Invariant: each case fails when the part of the generator that it looks at does nothing.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """// About.
#include <cstdio>

// Says hello.
struct Hello {
  // Loud or not.
  void say(bool loud) {
    std::puts(loud ? "(HELLO" : "hello");
  }
  int count() { return 1; }
};

int after = 1;
"""


class Generate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        shutil.copytree(ROOT / "sdk/include", self.root / "sdk/include")
        (self.root / "docs").mkdir()
        (self.root / "hello.cpp").write_text(SOURCE, encoding="utf-8")

    def tearDown(self):
        self.folder.cleanup()

    def generate(self, *arguments):
        command = [sys.executable, str(ROOT / "docs/generate.py"), "--root", str(self.root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def write(self, text):
        (self.root / "docs/a.md").write_text(text, encoding="utf-8")

    def read(self):
        return (self.root / "docs/a.md").read_text(encoding="utf-8")

    def quote(self, phrase):
        self.write(f"# A\n<!-- quote: hello.cpp # {phrase} -->\n```cpp\nold\n```\nend\n")
        code, output = self.generate()
        self.assertEqual(code, 0, output)
        return self.read().split("```cpp\n")[1].split("```")[0]

    def test_a_stale_quote_is_named_and_refreshed(self):
        self.write("# A\n<!-- quote: hello.cpp # int after -->\n```cpp\nold\n```\nend\n")
        code, output = self.generate("--check")
        self.assertEqual(code, 1)
        self.assertIn("docs/a.md: out of date", output)
        self.assertIn("old", self.read())
        self.assertEqual(self.generate()[0], 0)
        self.assertEqual(self.read(), "# A\n<!-- quote: hello.cpp # int after -->\n```cpp\nint after = 1;\n```\nend\n")
        self.assertEqual(self.generate("--check"), (0, ""))

    def test_a_quote_ends_where_its_brackets_close_and_takes_its_comment_along(self):
        self.assertEqual(self.quote("void say"), '// Loud or not.\nvoid say(bool loud) {\n'
                                                 '  std::puts(loud ? "(HELLO" : "hello");\n}\n')
        self.assertTrue(self.quote("struct Hello {").startswith("// Says hello.\nstruct Hello {"))
        self.assertTrue(self.quote("struct Hello {").endswith("return 1; }\n};\n"))

    def test_a_quote_may_reach_from_one_statement_to_another(self):
        self.assertTrue(self.quote("void say -> int count").endswith("}\nint count() { return 1; }\n"))

    def test_a_quote_of_what_is_gone_is_a_finding(self):
        for marker in ("gone.cpp # x", "hello.cpp # struct Gone"):
            self.write(f"<!-- quote: {marker} -->\n```cpp\nold\n```\n")
            code, output = self.generate("--check")
            self.assertEqual(code, 1)
            self.assertIn("docs/a.md:2: quote of", output)

    def test_tables_are_refreshed_and_unknown_ones_named(self):
        self.write("<!-- generated: codes -->\nold\n<!-- end -->\ntail\n")
        self.assertIn("out of date", self.generate("--check")[1])
        self.assertEqual(self.generate()[0], 0)
        self.assertIn("TN_PEER_LOST", self.read())
        self.assertTrue(self.read().endswith("<!-- end -->\ntail\n"))
        self.write("<!-- generated: nothing -->\n<!-- end -->\n")
        self.assertIn("no table is called 'nothing'", self.generate("--check")[1])

    def test_a_marker_inside_a_fence_is_text(self):
        text = "```text\n<!-- generated: codes -->\n<!-- quote: hello.cpp # int after -->\n```\n"
        self.write(text)
        self.assertEqual(self.generate(), (0, ""))
        self.assertEqual(self.read(), text)

    def test_an_option_has_all_columns_and_says_why_its_default_is_not_the_documents(self):
        (self.root / "core/include/tenon").mkdir(parents=True)
        (self.root / "tests/bench/options").mkdir(parents=True)
        options = self.root / "core/include/tenon/strategy.def"
        choices = self.root / "tests/bench/options/choices.cpp"
        row = 'TN_OPTION(a, {0}, b, "b", "c d", {1}, "{2}", 1, UINT32_MAX, fusion, "",\n          "does it", "always", "{3}")\n'
        page = "".join(f"<!-- generated: {name} -->\n<!-- end -->\n" for name in ("strategy", "strategy differences"))
        tried = '{"b", "7"}'
        for values, other, finding in (
                (("AutoCount", "automatic", "4", "it is better"), tried, None),
                (("AutoCount", "automatic", "4", ""), tried, "b: its default is not the documents'"),
                (("AutoCount", "automatic", "auto", "it is better"), tried, "b: says why it differs"),
                (("AutoCount, more", "automatic", "4", "it is better"), tried, "does not have the columns"),
                (("AutoCount", "automatic", "4", "it is better"), "", "b: either tests/bench/options/choices.cpp tries another value")):
            options.write_text(row.format(*values), encoding="utf-8")
            choices.write_text(other, encoding="utf-8")
            self.write(page)
            code, output = self.generate()
            self.assertEqual(code, 1 if finding else 0, output)
            self.assertIn(finding or "wrote", output)
            if not finding:
                self.assertIn("| `b`<br>`c`<br>`d` | auto, from 1 | `auto` | `4` | does it | always | fusion |", self.read())
                self.assertIn("| `b` | `auto` | `4` | it is better |", self.read())

    def test_a_slot_without_a_row_in_a_vendors_page_is_a_finding(self):
        (self.root / "docs/vendors").mkdir()
        for name in ("index", "ascend", "ipu"):
            shutil.copy(ROOT / f"docs/vendors/{name}.md", self.root / f"docs/vendors/{name}.md")
        code, output = self.generate("--check")
        self.assertEqual(code, 0, output)
        page = self.root / "docs/vendors/ascend.md"
        whole = page.read_text(encoding="utf-8")
        for row, slot in (("`kernel.layouts`", "kernel.layouts"), ("`tn.ipc/1`", "tn.ipc/1"), (", `signal`", "stream.signal")):
            page.write_text(whole.replace(row, ""), encoding="utf-8")
            code, output = self.generate("--check")
            self.assertEqual((code, output), (1, f"docs/vendors/ascend.md: the mapping has no row for `{slot}`\n"))

    def test_a_code_without_its_explanation_is_a_finding(self):
        (self.root / "docs/errors.md").write_text("## TN_INVALID\n## TN_FANCY\n", encoding="utf-8")
        code, output = self.generate("--check")
        self.assertEqual(code, 1)
        self.assertIn("TN_BUSY has no heading", output)
        self.assertIn("TN_FANCY is not a code", output)


if __name__ == "__main__":
    unittest.main()
