#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` as a test: in the short count a sample, in the full one (TENON_TEST_FULL=1) everything.

  conform.py [--short] --sample N [--full-sample N] TOOL PLUGIN [what else `tenon conform` takes]
  conform.py --within S TOOL PLUGIN …     everything with --quick, which has to be over after S seconds
  conform.py --thorough TOOL PLUGIN …     everything without --quick, in a full count; a skip in a short one
  conform.py --seeds N TOOL PLUGIN …      a sample of one in N, twice with one seed and once with another

--full-sample keeps a full count to a sample, too, where another build runs everything. --short keeps the short count: under TSan, which looks for races and not for wrong numbers, and takes ten times as long.
"{seed}" in a word stands for the seed. Invariant: the command, with its seed and its sample, is printed before it runs.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77


def reported(command):
    """The exit code and the report of one run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        print("+", shlex.join(command), flush=True)
        code = subprocess.run([*command, "--json", report.name], check=False).returncode
        return code, json.loads(report.read() or "{}")


def within(command, seconds):
    code, report = reported(command)
    if code == 0 and report["seconds"] > seconds:
        sys.exit(f"--quick took {report['seconds']:.1f} s: a developer's machine has {seconds:g} s for it")
    return code


def seeds(command, seed):
    """One seed gives the same cases, numbers and verdicts twice; another draws other numbers."""
    def run(one):
        code, report = reported([*command, "--seed", str(one)])
        found = [(c["name"], c["verdict"], c["finding"]["drawn"]) for c in report.get("cases", [])]
        if code != 0 or not found:
            sys.exit(f"seed {one}: exit code {code} after {len(found)} cases")
        return found
    first, again, other = run(seed), run(seed), run(seed + 1)
    if first != again:
        sys.exit(f"seed {seed} gave two different runs: {[pair for pair in zip(first, again) if pair[0] != pair[1]][:5]}")
    mine, others = ({(name, drawn) for name, _, drawn in run if int(drawn, 16)} for run in (first, other))
    if not mine or mine & others:
        sys.exit(f"seeds {seed} and {seed + 1} drew the same numbers: {sorted(mine & others)[:5]}")
    print(f"{len(first)} cases twice with seed {seed}, {len(other)} with seed {seed + 1}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--sample", metavar="N")
    way.add_argument("--within", type=float, metavar="S")
    way.add_argument("--thorough", action="store_true")
    way.add_argument("--seeds", metavar="N")
    parser.add_argument("--full-sample", metavar="N")
    parser.add_argument("tool")
    parser.add_argument("plugin")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    full = not asked.short and os.environ.get("TENON_TEST_FULL") == "1"
    seed = int(os.environ.get("TENON_TEST_SEED", "1"), 0)
    rest = [word.replace("{seed}", str(seed)) for word in asked.rest]
    run = [asked.tool, "conform", asked.plugin]
    if asked.within:
        return within([*run, "--quick", "--seed", str(seed), *rest], asked.within)
    if asked.seeds:
        return seeds([*run, "--quick", "--sample", asked.seeds, *rest], seed)
    if asked.thorough and not full:
        print("a run without --quick takes long: TENON_TEST_FULL=1 asks for it")
        return SKIPPED
    sample = asked.full_sample if full else asked.sample
    count = [] if asked.thorough else ["--quick", *(["--sample", sample] if sample else [])]
    command = [*run, "--seed", str(seed), *count, *rest]
    print("+", shlex.join(command), flush=True)
    if full:
        print("conformance runs: 1 (full run)", flush=True)
    os.execv(asked.tool, command)


if __name__ == "__main__":
    sys.exit(main())
