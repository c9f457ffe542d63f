#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/performance.md and its charts from reports of ./dev bench SUITE --json FILE:

  python3 tests/bench/report.py FILE... [--beside WORD] [--to docs]

A report replaces the section of its suite; the other suites keep theirs. With a word it replaces the section SUITE-WORD instead, for
another kind of machine.
Invariant: every figure on the page is one of a report's, or a target of targets.toml or its reason; what was not measured is there
and says why.
"""
import argparse
import json
import math
import pathlib
import re

import bench
import chart

PAGE = """# Performance

<!-- Written by tests/bench/report.py from reports of ./dev bench; not by hand. -->

Every figure comes from a run of the suite named above it, with its peers and limits measured in turn in the same run. A ratio
above 1 means that Tenon is faster; its spread is the interquartile range of the run-by-run ratios (without a peer: of the runs,
over their median), and its 95 % interval that of its median, by the order of the ratios. The bytes are those of what a kernel reads and writes, each
once; the floor is the limit that was measured in the same run, in the row's unit. A black mark is the [target](../tests/bench/targets.toml). What a missing peer or limit
would decide is neither met nor missed. [tests/bench](../tests/bench/README.md) says how the figures are made.
"""
GROWTH = re.compile(r"(.+)/(\d+)k$")  # fuse/blocks/10k
FEWEST_SIZES = 3
SIZES = {"KB": 1e3, "MB": 1e6, "GB": 1e9}


def targets_of(row, targets, kind):
    return [target["value"] for target in targets if target["kind"] == kind and bench.applies(target, row)]


def label(row, rows):
    """The row's name, and its peer where others of the name have another."""
    peers = {other["peer"] for other in rows if other["name"] == row["name"] and other["ratio"] is not None}
    return f"{row['name']} / {row['peer']}" if len(peers) > 1 else row["name"]


def bars(rows, targets, key, kind):
    """What a chart of bars shows: (label, figure, target or None, met) of every row that has the figure."""
    out, seen = [], set()
    for row in rows:
        if not row[key]:  # a time of nothing has no place on a scale of ratios
            continue
        aims = targets_of(row, targets, kind)
        name = label(row, rows) if key == "ratio" else row["name"]
        if name not in seen:
            seen.add(name)
            aim = max(aims) if aims else None
            out.append((name, row[key], aim, None if aim is None else row[key] >= aim))
    return out


def growth(rows):
    """{family: [(size, figure)]} of rows that are measured at several sizes in the same unit."""
    families = {}
    for row in rows:
        found = GROWTH.match(row["name"])
        if found and row["ours"] is not None:
            families.setdefault((found.group(1), row["unit"]), []).append((int(found.group(2)) * 1000, row["ours"]))
    return {family: sorted(points) for family, points in families.items() if len(points) >= FEWEST_SIZES}


def exponent(points):
    """How the figure grows with the size, over the whole range: 1 is linear."""
    (first, low), (last, high) = points[0], points[-1]
    return math.log(high / low) / math.log(last / first)


def charts(report, targets):
    """{name: (what it shows, its SVG)} of one report."""
    rows, out = report["rows"], {}
    ratios = bars(rows, targets, "ratio", "min_ratio")
    if ratios:
        out["ratio"] = ("Times faster than the peer", chart.ratio_bars(ratios))
    parts = bars(rows, targets, "limit_fraction", "min_limit_fraction")
    if parts:
        out["limit"] = ("Part of what this machine can do", chart.part_bars(parts))
    for (family, unit), points in growth(rows).items():
        out.setdefault("growth", ("Growth with the size of the graph", {}))[1][family] = (points, unit)
    if "growth" in out:
        words, families = out["growth"]
        out["growth"] = (words, chart.growth(families))
    for name in dict.fromkeys(panel["picture"] for panel in report.get("pictures", [])):
        panels = [(panel["title"], [(lane["name"], lane["events"]) for lane in panel["lanes"]])
                  for panel in report["pictures"] if panel["picture"] == name]
        out[name.replace("/", "-")] = (f"{name}: what ran when in one step of rank 0", chart.lanes(panels))
    return out


def cell(value, digits=4):
    return "" if value is None else bench.number(value, digits)


def span(interval):
    return "" if not interval else f"{interval[0]:.3g} to {interval[1]:.3g}"


def size(row):
    """Bytes as a reader takes them in."""
    count = row.get("bytes")
    unit = next((unit for unit in ("GB", "MB", "KB") if count and count >= SIZES[unit]), None)
    return f"{count / SIZES[unit]:.3g} {unit}" if unit else cell(count)


def table(rows):
    """Columns of bytes and floors stand where some row has them."""
    verdicts = {True: "met", False: "**missed**", None: ""}
    columns = [("row", lambda row: row["name"]), ("peer", lambda row: row["peer"] or ""),
               ("bytes", size if any(row.get("bytes") for row in rows) else None),
               ("ours", lambda row: cell(row["ours"])), ("theirs", lambda row: cell(row["theirs"])),
               ("floor", (lambda row: cell(row.get("limit"))) if any(row.get("limit") for row in rows) else None),
               ("unit", lambda row: row["unit"] or ""), ("ratio", lambda row: cell(row["ratio"], 3)),
               ("spread", lambda row: cell(row["spread"], 2)), ("95 %", lambda row: span(row.get("interval"))),
               ("of the limit", lambda row: "" if row["limit_fraction"] is None else f"{row['limit_fraction']:.0%}"),
               ("target", lambda row: row["target"] or ""), ("", lambda row: verdicts[row["met"]])]
    columns = [(name, text) for name, text in columns if text]
    lines = ["| " + " | ".join(name for name, _ in columns).rstrip() + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(text(row).replace("|", "\\|") for _, text in columns) + " |" for row in rows]
    return "\n".join(lines)


def reasons(rows, targets):
    """Of missed rows, what their targets know of why: once for each, with the rows that it is about."""
    found = {}
    for row in rows:
        for target in targets:
            if row["met"] is False and "why" in target and bench.binds(target) and bench.applies(target, row):
                found.setdefault(target["why"], []).append(row["name"])
    return [f"- Missed: {', '.join(f'`{name}`' for name in dict.fromkeys(names))}: {why}" for why, names in found.items()]


def section(name, report, targets, pictures):
    suite = report["suite"]
    judged = [row["met"] for row in report["rows"] if row["met"] is not None]
    text = [f"## {name}", "", f"`./dev bench {suite} --peers --json FILE` on {report['machine']}, "
            f"commit {report.get('commit') or 'unknown'}: {sum(judged)} of {len(judged)} rows that could be judged are met.", ""]
    text += [f"- {note}" for note in report.get("notes", [])] + ([""] if report.get("notes") else [])
    for picture, (words, _) in pictures.items():
        text += [f"![{words}](img/performance/{name}-{picture}.svg)", ""]
    for (family, _), points in growth(report["rows"]).items():
        text += [f"`{family}` grows with the {exponent(points):.2f}th power of its size "
                 f"from {points[0][0]:,} to {points[-1][0]:,}.", ""]
    said = reasons(report["rows"], targets)
    return "\n".join(text + [table(report["rows"]), ""] + (said + [""] if said else []))


def sections_of(page):
    """What a page has of each suite."""
    if not page.exists():
        return {}
    _, *sections = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.M)
    return {text[3:text.index("\n")]: text.rstrip("\n") + "\n" for text in sections}


def write(reports, targets_file, folder, beside=None):
    """The page and its charts, in sections of their suites or in ones beside them; returns the paths written."""
    images = folder / "img" / "performance"
    images.mkdir(parents=True, exist_ok=True)
    written, sections = [], sections_of(folder / "performance.md")
    for report in reports:
        targets = bench.load_targets(targets_file, report["suite"])
        pictures = charts(report, targets)
        name = report["suite"] + (f"-{beside}" if beside else "")
        for picture, (_, drawn) in pictures.items():
            written.append(images / f"{name}-{picture}.svg")
            written[-1].write_text(drawn, encoding="utf-8")
        sections[name] = section(name, report, targets, pictures)
    written.append(folder / "performance.md")
    page = [PAGE] + [sections[name] for name in sorted(sections)]
    written[-1].write_text("\n".join(page), encoding="utf-8")
    return written


def main(arguments=None):
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="write docs/performance.md from benchmark reports")
    parser.add_argument("reports", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--beside", metavar="WORD", help="write sections SUITE-WORD beside those of the suites")
    parser.add_argument("--to", type=pathlib.Path, default=here.parent.parent / "docs")
    parser.add_argument("--targets", type=pathlib.Path, default=here / "targets.toml")
    options = parser.parse_args(arguments)
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in options.reports]
    for path in write(reports, options.targets, options.to, options.beside):
        print(path)


if __name__ == "__main__":
    main()
