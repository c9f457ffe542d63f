# SPDX-License-Identifier: Apache-2.0
"""What every house check shares: the list of files, how findings are printed, and the self-test.

Invariant: a check comes with wrong trees of its own (`plants`), and its self-test fails unless each is
caught by name and the clean one passes. So a check that cannot fail cannot be in the house.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

SKIP_STATUS = 77  # ctest counts it as skipped


def files(root):
    """Every file of the tree that git tracks or would track, as paths relative to `root`."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return sorted(pathlib.PurePosixPath(name) for name in names
                  if (root / name).is_file() and not name.startswith("build/"))


def read(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace")


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(text):
    """(line number, '<' or '"', name) of every include."""
    return [(text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in INCLUDE.finditer(text)]


def self_test(check, clean, plants):
    """Runs `check` on a clean tree and on each planted mistake; returns the failures in words."""
    failures = []
    for changes, expected in [({}, None)] + plants:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in (clean | changes).items():
                if text is None:
                    continue  # a planted absence
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            found = [str(finding) for finding in check(root)]
        if expected is None and found:
            failures.append(f"the clean tree was reported: {found}")
        if expected is not None and not any(expected in finding for finding in found):
            failures.append(f"planted {list(changes)}: no finding says '{expected}', only {found}")
    return failures


def main(check, clean, plants, unavailable=None):
    """The command line of a check: on the tree by default, on its own wrong trees with --self-test.
    `unavailable()` gives the reason when a tool that the check needs is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    name = pathlib.Path(sys.argv[0]).stem
    reason = unavailable() if unavailable else None
    if reason:
        print(f"SKIPPED: {name}: {reason}")
        return SKIP_STATUS
    if options.self_test:
        findings = self_test(check, clean, plants)
        told = f"{len(plants)} planted mistakes caught"
    else:
        findings = check(options.root)
        told = "clean"
    for finding in findings:
        print(finding)
    print(f"{name}: {told if not findings else f'{len(findings)} findings'}")
    return 1 if findings else 0
