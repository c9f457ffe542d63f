#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` on the simulated device under one profile, held against what that profile declares.

  conform_test.py TOOL PLUGIN.so PROFILE CAPABILITIES.toml [--short]

Short count: all of level 0; of level 1 the kernel interface and a sample of ops, of level 2 all but another sample of ops,
others for each profile. Full count
(TENON_TEST_FULL=1): every case of every level, in several rounds of numbers, and the list of what is unsupported must be
equal to what the profile declares. --short keeps the short count: under TSan, which looks for races, not for wrong
numbers, and takes ten times as long. Invariant: the count used, the seed and the sample are printed.
"""
import os
import random
import subprocess
import sys

OPS = 16     # of the short count
FUSED = 4    # likewise
ROUNDS = 2   # of the full one
INTERFACE = ("kernel: *", "launch: *")
FRAGMENTS = ("fused: *", "refuse: *", "group: *", "pattern: *", "update *")


def ops_of(tool, word):
    """The groups of cases that begin with a word: "op add", "fused add"."""
    listed = subprocess.run([tool, "conform", "--list", "--filter", f"{word} *"], capture_output=True, text=True,
                            check=True, timeout=100).stdout
    return sorted({line.split("  ", 1)[1].split(":")[0] for line in listed.splitlines() if f"  {word} " in line})


def filters(names):
    return [word for name in names for word in ("--filter", name)]


def short_runs(tool, profile, seed):
    """The selections of the short count: level 0, and parts of levels 1 and 2."""
    draw, chosen = random.Random(f"{seed} {profile}"), []
    for word, count in (("op", OPS), ("fused", FUSED)):
        ops = ops_of(tool, word)
        chosen += draw.sample(ops, count)
        print(f"{count} of {len(ops)}: {', '.join(sorted(chosen[-count:]))}")
    return [["--level", "0"], filters([*INTERFACE, *FRAGMENTS, *(f"{op}: *" for op in chosen)])]


def main(tool, plugin, profile, capabilities, *options):
    full = "--short" not in options and os.environ.get("TENON_TEST_FULL") == "1"
    seed = str(int(os.environ.get("TENON_TEST_SEED", "1"), 0))
    print(f"seed: {seed} (repeat with TENON_TEST_SEED={seed}); {'full' if full else 'short'} run")
    runs = [["--repeat", str(ROUNDS)]] if full else short_runs(tool, profile, seed)
    for selection in runs:
        command = [tool, "conform", plugin, "--quick", "--verify", "--deadline", "200", "--seed", seed, "--option", f"profile={profile}",
                   "--option", f"seed={seed}", "--capabilities", capabilities, *selection]
        print("+", " ".join(command), flush=True)
        code = subprocess.run(command).returncode
        if code != 0:
            sys.exit(f"profile {profile}: tenon conform ends with {code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
