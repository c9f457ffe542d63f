#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark program, judges its rows against targets.toml and reports them.

Invariant: a target is met only by figures that were measured. A missing peer, a missing limit or a missing
row never reads as met.

The program prints one JSON object a line on standard output:
  {"name": "wait_reached", "peer": "empty loop", "unit": "ns",
   "ours": [one figure per run], "theirs": [the same number of figures, interleaved with ours] or null,
   "why_no_peer": "libmimalloc.so.2 is not installed", "limit": the run's own measured ceiling or null,
   "judge": "fastest" or "median", "bytes": what is read and written, each once; may be left out}
A row that could not be measured at all is {"name": ..., "left_out": "no CUDA device"}; what a reader has to know, versions
and settings of peers, is {"note": ...}; what ran when, for report.py to draw, is
  {"picture": "streams/1Gbit", "title": "(b) one stream", "lanes": [{"name": "compute", "events": [["kernel", 0.0, 1.5]]}]}
in milliseconds.
Units of time (ns, us, ms, s), counts and bytes are better when lower, rates ("GB/s") when higher.
See README.md in this folder for how the figures are made from these rows.
"""
import argparse
import fnmatch
import functools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import tomllib

TIME_UNITS = ("ns", "us", "ms", "s")
FEWEST_RUNS = 20  # an absolute time is judged on the fastest of at least this many interleaved runs
NEAR_LIMIT = 0.9  # the part of the limit that is asked for where the limit itself would not reach a ratio
KINDS = ("max", "max_added", "min_ratio", "min_limit_fraction")


class BenchError(Exception):
    """Something that makes the whole report worthless; the text says what to do."""


def higher_is_better(unit):
    return unit.endswith("/s")


def is_row(line):
    return "note" not in line and "picture" not in line


def check_row(row):
    """Refuses a row that breaks the contract between program and harness."""
    name = row.get("name", "?")
    for key in ("name", "unit", "ours", "judge"):
        if key not in row:
            raise BenchError(f"row '{name}': '{key}' is missing")
    if row["judge"] not in ("fastest", "median"):
        raise BenchError(f"row '{name}': judge is '{row['judge']}', use fastest or median")
    if not row["ours"]:
        raise BenchError(f"row '{name}': no figures in 'ours'")
    theirs = row.get("theirs")
    if theirs is None and row.get("peer") and not row.get("why_no_peer"):
        raise BenchError(f"row '{name}': peer '{row['peer']}' has no figures and 'why_no_peer' says nothing")
    if theirs is not None and len(theirs) != len(row["ours"]):
        raise BenchError(f"row '{name}': {len(row['ours'])} runs of ours but {len(theirs)} of {row['peer']}: "
                         "the two must be interleaved, run by run")


def figure(samples, judge, unit):
    """The one number that stands for a list of runs."""
    if judge == "median":
        return statistics.median(samples)
    return max(samples) if higher_is_better(unit) else min(samples)


def quartile_range(values):
    if len(values) < 2:
        return 0.0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return quarters[2] - quarters[0]


def interval(values):
    """Between which of the values the median of all there could be lies, with 95 % at least: by their order alone, whatever their
    distribution. None for fewer than six, which cannot say."""
    count, ordered = len(values), sorted(values)
    outside, rank = 0.0, 0  # the first `rank` are left out at either end, at `outside` each
    while outside + math.comb(count, rank) / 2**count <= 0.025:
        outside += math.comb(count, rank) / 2**count
        rank += 1
    return None if rank == 0 else [ordered[rank - 1], ordered[count - rank]]


def pairwise_ratios(row):
    """How many times faster we were, run by run: neighbours in time meet the same machine."""
    pairs = zip(row["ours"], row["theirs"])
    if higher_is_better(row["unit"]):
        return [ours / theirs for ours, theirs in pairs if theirs]
    return [theirs / ours for ours, theirs in pairs if ours]


def times_faster(ours, theirs, unit):
    """How many times faster `ours` is than `theirs`; None where one of them is missing or nothing."""
    if not ours or not theirs:
        return None
    return ours / theirs if higher_is_better(unit) else theirs / ours


def beyond_limit(target, measured):
    """Whether a ratio is asked for that the limit of this very run would not have: nothing could be so fast."""
    reach = measured["reach"]
    return target["kind"] == "min_ratio" and reach is not None and reach < target["value"]


def judge_target(row, target, measured):
    """True, False, or None when the figures to judge by are not there."""
    kind, value = target["kind"], target["value"]
    if kind == "min_ratio":
        if measured["ratio"] is None:
            return None
        return measured["ratio"] >= value or (beyond_limit(target, measured) and measured["of_limit"] >= NEAR_LIMIT)
    if kind == "min_limit_fraction":
        fraction = measured["limit_fraction"]
        return None if fraction is None else fraction >= value
    if target["unit"] != row["unit"]:
        raise BenchError(f"row '{row['name']}' is in {row['unit']}, its target in {target['unit']}")
    judge = row["judge"]
    if row["unit"] in TIME_UNITS:
        judge = "fastest"
        if len(row["ours"]) < FEWEST_RUNS:
            raise BenchError(f"row '{row['name']}': {len(row['ours'])} runs, an absolute time needs at least "
                             f"{FEWEST_RUNS}")
    ours = figure(row["ours"], judge, row["unit"])
    if kind == "max":
        return ours <= value
    if row.get("theirs") is None:
        return None
    return ours - figure(row["theirs"], judge, row["unit"]) <= value


def describe_target(target):
    kind, value, unit = target["kind"], target["value"], target.get("unit", "")
    text = {"max": f"<= {value:g} {unit}", "max_added": f"added <= {value:g} {unit}",
            "min_ratio": f"ratio >= {value:g}", "min_limit_fraction": f">= {value:.0%} of the limit"}[kind]
    return f"{text} with {target['needs']}" if "needs" in target else text


def describe_judged(target, measured):
    """The same, and by what else the row is judged where the limit makes it impossible."""
    text = describe_target(target)
    if not binds(target) or not beyond_limit(target, measured):
        return text
    return f"{text}, where the limit has {measured['reach']:.3g}: >= {NEAR_LIMIT:.0%} of it"


@functools.cache
def processor_flags():
    """What this processor has, in the words of /proc/cpuinfo."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    found = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())


def binds(target, flags=None):
    """Whether the target is judged on this processor: one of what it lacks says nothing, met or missed."""
    return target.get("needs") in (None, *(processor_flags() if flags is None else flags))


def combine(verdicts):
    """One verdict of several: a miss wins, then a gap."""
    if not verdicts:
        return None
    if False in verdicts:
        return False
    return None if None in verdicts else True


def without_peer(verdict):
    """Of a row whose peer is missing: a miss stands, but nothing is met."""
    return verdict if verdict is False else None


def applies(target, row):
    return fnmatch.fnmatchcase(row["name"], target["row"]) and \
        fnmatch.fnmatchcase(row.get("peer") or "", target.get("peer", "*"))


def report_row(row, targets, limit_of_name=None):
    """The finished row: exactly the keys every suite reports. `limit_of_name`: what another row of the name, with another peer
    or none, has as its limit; a row without a limit of its own shows no part of it, but is held to no more than it allows."""
    check_row(row)
    ours = figure(row["ours"], row["judge"], row["unit"])
    theirs = row.get("theirs")
    ratios = pairwise_ratios(row) if theirs else []
    limit = row.get("limit")
    fraction = times_faster(ours, limit, row["unit"])
    middle = statistics.median(row["ours"])
    known = limit or limit_of_name
    ratio, of_limit = statistics.median(ratios) if ratios else None, times_faster(ours, known, row["unit"])
    measured = {"ratio": ratio, "limit_fraction": fraction, "of_limit": of_limit,
                "reach": ratio / of_limit if ratio and of_limit else None}
    mine = [target for target in targets if applies(target, row)]
    peer = row.get("peer")
    met = combine([judge_target(row, target, measured) for target in mine if binds(target)])
    if peer and theirs is None:
        peer, met = f"{peer} (missing: {row['why_no_peer']})", without_peer(met)
    return {
        "name": row["name"], "peer": peer, "ours": ours,
        "theirs": figure(theirs, row["judge"], row["unit"]) if theirs else None, "unit": row["unit"],
        "ratio": measured["ratio"],
        "spread": quartile_range(ratios) if ratios else quartile_range(row["ours"]) / middle if middle else 0.0,
        "interval": interval(ratios),
        "bytes": row.get("bytes"), "limit": limit, "limit_fraction": fraction,
        "target": "; ".join(describe_judged(target, measured) for target in mine) or None,
        "met": met,
    }


def unmeasured(name, peer, why, targets):
    """The row that stands for what nobody measured."""
    unit = next((target["unit"] for target in targets if "unit" in target), None)
    return {"name": name, "peer": f"{peer or 'none'} (missing: {why})", "ours": None, "theirs": None, "unit": unit,
            "ratio": None, "spread": None, "interval": None, "bytes": None, "limit": None, "limit_fraction": None,
            "target": "; ".join(describe_target(target) for target in targets) or None, "met": None}


def left_out(row, targets):
    mine = [target for target in targets if fnmatch.fnmatchcase(row["name"], target["row"])]
    return unmeasured(row["name"], None, row["left_out"], mine)


def report(suite, raw_rows, targets, machine, commit=None):
    notes = [row["note"] for row in raw_rows if "note" in row]
    pictures = [row for row in raw_rows if "picture" in row]
    raw_rows = [row for row in raw_rows if is_row(row)]
    measured = [row for row in raw_rows if "left_out" not in row]
    gone = [row for row in raw_rows if "left_out" in row]
    limits = {row["name"]: row["limit"] for row in measured if row.get("limit")}
    rows = [report_row(row, targets, limits.get(row["name"])) for row in measured] + [left_out(row, targets) for row in gone]
    for target in targets:
        if any(applies(target, row) for row in measured) or \
                any(fnmatch.fnmatchcase(row["name"], target["row"]) for row in gone):
            continue
        rows.append(unmeasured(target["row"], target.get("peer"), "no such row was measured", [target]))
    return {"suite": suite, "machine": machine, "commit": commit, "notes": notes, "pictures": pictures, "rows": rows}


def load_targets(path, suite):
    with open(path, "rb") as file:
        targets = tomllib.load(file).get(suite, [])
    for target in targets:
        missing = {"row", "kind", "value", "source"} - target.keys()
        if missing or target["kind"] not in KINDS:
            raise BenchError(f"{path}: [{suite}] {target}: needs row, value, source and a kind of {KINDS}")
        if target["kind"].startswith("max") and "unit" not in target:
            raise BenchError(f"{path}: [{suite}] {target['row']}: an absolute target needs a unit")
    return targets


def describe_machine():
    """One line that tells two machines apart."""
    model = platform.processor() or platform.machine()
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, {platform.system()} {platform.release()}"


def describe_commit(tree):
    """The commit that is measured, marked where the tree differs from it; None outside of git."""
    done = subprocess.run(["git", "-C", str(tree), "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or None


def run_program(program):
    """The raw rows of one run; everything the program says on standard error passes through."""
    if not os.access(program, os.X_OK):
        raise BenchError(f"{program} is not there: build it first (./dev build release), or the suite has no "
                         "program yet")
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{program} ended with status {done.returncode}")
    rows = []
    for number, line in enumerate(done.stdout.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise BenchError(f"{program}: line {number} of its output is no JSON ({error}): {line[:80]}") from error
    if not any(is_row(row) for row in rows):
        raise BenchError(f"{program} printed no rows")
    return rows


def number(value, digits=4):
    return "-" if value is None else f"{value:.{digits}g}"


def verdict(met):
    return {True: "met", False: "MISSED", None: "-"}[met]


def table(result):
    """The report as text, columns as wide as they need to be."""
    lines = [["row", "peer", "ours", "theirs", "unit", "ratio", "spread", "limit", "target", ""]]
    for row in result["rows"]:
        fraction = "-" if row["limit_fraction"] is None else f"{row['limit_fraction']:.0%}"
        lines.append([row["name"], row["peer"] or "-", number(row["ours"]), number(row["theirs"]),
                      row["unit"] or "-", number(row["ratio"], 3), number(row["spread"], 2), fraction,
                      row["target"] or "-", verdict(row["met"])])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [f"suite {result['suite']} on {result['machine']}", *result["notes"]]
    text += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join(text)


def main(arguments=None):
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="run a benchmark suite and judge it")
    parser.add_argument("suite")
    parser.add_argument("--bin", type=pathlib.Path, default=here.parent.parent / "build" / "release" / "bin")
    parser.add_argument("--json", type=pathlib.Path, help="write the report here as well")
    parser.add_argument("--targets", type=pathlib.Path, default=here / "targets.toml")
    options = parser.parse_args(arguments)
    try:
        targets = load_targets(options.targets, options.suite)
        rows = run_program(options.bin / f"bench_{options.suite}")
        result = report(options.suite, rows, targets, describe_machine(), describe_commit(here))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(table(result))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(row["met"] is False for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
