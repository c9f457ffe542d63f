#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py [--short] [COMMIT]: keeps what a run of the tests showed in docs/testing.md, from lines on standard input:
"stage|minutes|result" for each stage of a full run; with --short one line, "machine|minutes|build|tests|no-op build".

Invariant: every stage and every machine has one row, that of its last run, with the commit that it ran on; other rows stay.
"""
import dataclasses
import datetime
import os
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "testing.md"


@dataclasses.dataclass
class Table:
    """A table of the page, between two comments; what a line holds stands behind its name, commit and date."""
    name: str
    columns: tuple

    def mark(self, end):
        return f"<!-- last {self.name} run: {end} -->"

    def head(self):
        columns = (self.columns[0], "commit", "date", *self.columns[1:])
        return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]

    def updated(self, page, lines, commit, date):
        """The page with the rows of `lines` put in."""
        before, rest = page.split(self.mark("begin"), 1)
        table, after = rest.split(self.mark("end"), 1)
        rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
        rows.pop(self.columns[0], None)  # the head
        for line in filter(str.strip, lines):
            name, *cells = line.strip().split("|", len(self.columns) - 1)
            if name != "set-up":
                rows[name] = f"| {' | '.join((name, commit, date, *cells))} |"
        return before + "\n".join([self.mark("begin"), "", *self.head(), *rows.values(), "", self.mark("end")]) + after


FULL = Table("full", ("stage", "minutes", "result"))
SHORT = Table("short", ("machine", "minutes", "of them building", "tests", "build of nothing new"))


def self_test():
    page = f"a\n{FULL.mark('begin')}\n\nNo full run has been recorded yet.\n\n{FULL.mark('end')}\nz\n"
    once = FULL.updated(page, ["set-up|0.1|ok", "ci build|7.0|ok", "tests|9.5|5 passed, 0 failed"], "abc", "2026-01-02")
    assert "| tests | abc | 2026-01-02 | 9.5 | 5 passed, 0 failed |" in once and "No full" not in once, once
    twice = FULL.updated(once, ["tests|8.0|FAILED (status 1)"], "def", "2026-01-03")
    assert "| tests | def | 2026-01-03 | 8.0 | FAILED (status 1) |" in twice and "9.5" not in twice, twice
    assert "| ci build | abc |" in twice and twice.startswith("a\n") and twice.endswith("\nz\n"), twice
    both = twice + f"{SHORT.mark('begin')}\n{SHORT.mark('end')}\n"
    short = SHORT.updated(both, ["2 cores|26.1|9.5|70 passed|1.4 s"], "abc", "2026-01-04")
    assert "| 2 cores | abc | 2026-01-04 | 26.1 | 9.5 | 70 passed | 1.4 s |" in short and twice in short, short
    assert SHORT.updated(short, ["2 cores|25.0|9.0|71 passed|1.2 s"], "def", "2026-01-05").count("| 2 cores |") == 1, short
    print("record.py: rows are put in and replaced")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    table = SHORT if "--short" in arguments else FULL
    named = [word for word in arguments if word != "--short"]
    commit = named[0] if named else subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PAGE.parent, check=True, capture_output=True, text=True).stdout.strip()
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    fresh = PAGE.with_suffix(".new")
    fresh.write_text(table.updated(PAGE.read_text(encoding="utf-8"), sys.stdin, commit, date), encoding="utf-8")
    os.replace(fresh, PAGE)
    return None


if __name__ == "__main__":
    main()
