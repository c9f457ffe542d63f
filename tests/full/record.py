#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py [COMMIT]: keeps what stages of a full run showed in docs/testing.md: lines "stage|minutes|result" from standard input.

Invariant: every stage has one row, that of its last run, with the commit that it ran on; rows of other stages stay.
"""
import datetime
import os
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "testing.md"
BEGIN, END = "<!-- last full run: begin -->", "<!-- last full run: end -->"
HEAD = "| stage | commit | date | minutes | result |", "|---|---|---|---|---|"


def rows_of(table):
    """The rows of a table by stage, in their order."""
    lines = [line for line in table.splitlines() if line.startswith("| ") and line != HEAD[0]]
    return {line.split("|")[1].strip(): line for line in lines}


def updated(page, lines, commit, date):
    """The page with the rows of `lines` ("stage|minutes|result") put in."""
    before, rest = page.split(BEGIN, 1)
    table, after = rest.split(END, 1)
    rows = rows_of(table)
    for line in filter(str.strip, lines):
        stage, minutes, result = line.strip().split("|", 2)
        if stage != "set-up":
            rows[stage] = f"| {stage} | {commit} | {date} | {minutes} | {result} |"
    return before + "\n".join([BEGIN, "", *HEAD, *rows.values(), "", END]) + after


def self_test():
    page = f"a\n{BEGIN}\n\nNo full run has been recorded yet.\n\n{END}\nz\n"
    once = updated(page, ["set-up|0.1|ok", "ci build|7.0|ok", "tests|9.5|5 passed, 0 failed"], "abc", "2026-01-02")
    assert "| tests | abc | 2026-01-02 | 9.5 | 5 passed, 0 failed |" in once and "No full" not in once, once
    twice = updated(once, ["tests|8.0|FAILED (status 1)"], "def", "2026-01-03")
    assert "| tests | def | 2026-01-03 | 8.0 | FAILED (status 1) |" in twice and "9.5" not in twice, twice
    assert "| ci build | abc |" in twice and twice.startswith("a\n") and twice.endswith("\nz\n"), twice
    print("record.py: rows are put in and replaced")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    commit = sys.argv[1] if len(sys.argv) > 1 else subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PAGE.parent, check=True, capture_output=True, text=True).stdout.strip()
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    fresh = PAGE.with_suffix(".new")
    fresh.write_text(updated(PAGE.read_text(encoding="utf-8"), sys.stdin, commit, date), encoding="utf-8")
    os.replace(fresh, PAGE)
    return None


if __name__ == "__main__":
    main()
