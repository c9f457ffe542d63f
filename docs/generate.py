#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refreshes what the documents take from the sources: quotes of files and tables of headers.

    docs/generate.py            writes what changed
    docs/generate.py --check    writes nothing; fails naming every part that is out of date
Invariant: it changes nothing outside a quoted fence or a generated part.
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gen"))
import blocks  # noqa: E402
import tables  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]


def documents(root):
    """Every Markdown file that is read by people who use or change Tenon."""
    folders = ("", "docs", "docs/adr")
    found = [path for folder in folders for path in sorted((root / folder).glob("*.md"))]
    return found + sorted(root.glob("samples/*/*.md")) + sorted(root.glob("plugins/*/README.md"))


def quoted(root, block):
    source = root / block.quote["file"]
    if not source.is_file():
        raise LookupError(f"{block.quote['file']}: no such file")
    return blocks.extract(source.read_text(encoding="utf-8"), block.quote["phrase"])


def refreshed(root, text, name):
    """`text` brought up to date, and the findings: parts that cannot be made."""
    parts, findings = [], []
    for block in blocks.fences(text, name):
        if block.quote:
            try:
                parts.append((block.first, block.last, quoted(root, block)))
            except LookupError as why:
                findings.append(f"{name}:{block.line}: quote of {block.quote['file']}: {why}")
    for what, first, last in blocks.generated(text, name):
        try:
            parts.append((first, last, "\n" + tables.TABLES[what](root) + "\n"))
        except KeyError:
            findings.append(f"{name}:{first}: no table is called '{what}'; there are: {', '.join(tables.TABLES)}")
        except (LookupError, OSError) as why:
            findings.append(f"{name}:{first}: table '{what}': {why}")
    return blocks.replace(text, parts) if parts else text, findings


def every_code_is_explained(root):
    """errors.md has a heading for each code of base.h, and no other."""
    page = root / "docs/errors.md"
    if not page.is_file():
        return []
    told = set(re.findall(r"^## (TN_\w+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    codes = set(re.findall(r"`(TN_\w+)`\]", tables.codes(root)))
    return [f"docs/errors.md: {code} has no heading" for code in sorted(codes - told)] + \
           [f"docs/errors.md: {code} is not a code of base.h" for code in sorted(told - codes)]


def slots(root):
    """Every function of the ABI's tables, "device.open", and the id of every extension."""
    found = ["plugin.entry", "plugin.quiesce", "plugin.shutdown"]
    for name in ("device", "stream", "kernel", "comm"):
        rows = re.findall(r"^\| `(\w+)` \|", tables.functions(root, f"{name}.h", f"tn_{name}_api"), re.MULTILINE)
        found += [f"{name}.{row}" for row in rows]
    return found + re.findall(r"^\| `([^`]+)` \|", tables.extensions(root), re.MULTILINE)


def mapped(page):
    """The slots that a page's mapping has rows for: "| `device.open`, `close` |" is two, "| `comm.*` |" a whole table."""
    out = set()
    for cells in re.findall(r"^\| ([^|]*`[^|]*) \|", page, re.MULTILINE):
        group = ""
        for word in re.findall(r"`([^`]+)`", cells):
            group = word.split(".")[0] if re.match(r"(plugin|device|stream|kernel|comm)\.", word) else group
            out.add(word if "." in word else f"{group}.{word}")
    return out


def every_slot_is_mapped(root):
    """Each vendor's page says what every function of the ABI becomes, or that it is absent."""
    findings = []
    for path in sorted((root / "docs/vendors").glob("*.md")):
        if path.name == "index.md":
            continue
        known, told = slots(root), mapped(path.read_text(encoding="utf-8"))
        for slot in known:
            if slot not in told and slot.split(".")[0] + ".*" not in told:
                findings.append(f"docs/vendors/{path.name}: the mapping has no row for `{slot}`")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    options = parser.parse_args()
    findings = every_code_is_explained(options.root) + every_slot_is_mapped(options.root)
    for path in documents(options.root):
        name = path.relative_to(options.root)
        text = path.read_text(encoding="utf-8")
        try:
            new, wrong = refreshed(options.root, text, name)
        except blocks.Malformed as why:
            new, wrong = text, [str(why)]
        findings += wrong
        if new != text and options.check:
            findings.append(f"{name}: out of date; run docs/generate.py and read what changed")
        elif new != text:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {name}")
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
