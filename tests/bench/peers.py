#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Python environment of benchmark peers.
Invariant: nothing is downloaded before its size was printed and agreed to."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request


def resolve(python, requirements):
    """The files pip would download, as URLs, without downloading them."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
                        "--report", report.name, "-r", requirements], check=True)
        plan = json.loads(pathlib.Path(report.name).read_text(encoding="utf-8"))
    return [item["download_info"]["url"] for item in plan["install"]]


def size_of(url):
    request = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.headers.get("Content-Length", 0))


def agreed():
    return sys.stdin.isatty() and input("download them? [y/N] ").strip().lower() in ("y", "yes")


def main():
    parser = argparse.ArgumentParser(description="install the benchmark peers")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--requirements", default=str(pathlib.Path(__file__).with_name("peers.txt")))
    parser.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args()
    python = str(options.folder / "bin" / "python3")
    if not pathlib.Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(options.folder)], check=True)
    urls = resolve(python, options.requirements)
    total = sum(size_of(url) for url in urls)
    print(f"peers: {len(urls)} packages, {total / 1e6:.0f} MB to download into {options.folder}")
    if not options.yes and not agreed():
        print("peers: nothing was downloaded; say yes, or pass --yes", file=sys.stderr)
        return 1
    return subprocess.run([python, "-m", "pip", "install", "-r", options.requirements], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
