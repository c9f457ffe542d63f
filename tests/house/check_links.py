#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links in Markdown: every relative link names a file of the tree, every #anchor a heading of it.
Invariant: a document never sends its reader to a place that is not there.
"""
import pathlib
import re
import sys
import urllib.parse

import house

FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)


def anchors(text):
    """The anchors a renderer makes of the headings: lower case, dashes for spaces, numbered when repeated."""
    seen, made = {}, set()
    for match in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        made.add(slug if count == 0 else f"{slug}-{count}")
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken(root, path, link):
    """Why the link leads nowhere, or None."""
    if re.match(r"^[a-z][a-z+.-]*:", link):
        return None  # another site; a test that needs the network would fail for reasons of its own
    target, _, anchor = urllib.parse.unquote(link).partition("#")
    place = (root / path.parent / target).resolve() if target else root / path
    if target.startswith("/") or not place.is_relative_to(root.resolve()):
        return "leads out of the tree"
    if not place.exists():
        return "no such file"
    if anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
        return f"no heading makes the anchor '{anchor}'"
    return None


def check(root):
    root = pathlib.Path(root).resolve()
    findings = []
    for path in house.files(root):
        if path.suffix != ".md":
            continue
        text = CODE.sub("", FENCE.sub("", house.read(root, path)))
        for match in LINK.finditer(text):
            link = match[1] or match[2]
            why = broken(root, path, link)
            if why:
                findings.append(f"{path}: link '{link}': {why}")
    return findings


CLEAN = {"README.md": "[a](docs/a.md) [b](docs/a.md#two-words) [c](https://example.org/x) `[no](none.md)`\n"
                      "```\n[x](nowhere.md)\n```\n[top](#here)\n# Here\n",
         "docs/a.md": "# A\n## Two words\n[up](../README.md)\n"}
PLANTS = [
    ({"docs/b.md": "[x](c.md)\n"}, "'c.md': no such file"),
    ({"docs/b.md": "[x](a.md#none)\n"}, "no heading makes the anchor 'none'"),
    ({"docs/b.md": "[x](#none)\n"}, "no heading makes the anchor 'none'"),
    ({"docs/b.md": "![x](../picture.png)\n"}, "'../picture.png': no such file"),
    ({"docs/b.md": "[x]: gone.md\n"}, "'gone.md': no such file"),
    ({"docs/b.md": "[x](../../../etc)\n"}, "leads out of the tree"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
