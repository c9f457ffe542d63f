#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` as a test: in the short count a sample, in the full one (TENON_TEST_FULL=1) everything.

  conform.py [--short] --sample N [--full-sample N] TOOL PLUGIN [what else `tenon conform` takes]

--full-sample keeps a full count to a sample, too, where another build runs everything. --short keeps the short count: under TSan, which looks for races and not for wrong numbers, and takes ten times as long.
"{seed}" in a word stands for the seed. Invariant: the command, with its seed and its sample, is printed before it runs.
"""
import argparse
import os
import shlex


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--sample", required=True, metavar="N")
    parser.add_argument("--full-sample", metavar="N")
    parser.add_argument("tool")
    parser.add_argument("plugin")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    full = not asked.short and os.environ.get("TENON_TEST_FULL") == "1"
    seed = str(int(os.environ.get("TENON_TEST_SEED", "1"), 0))
    sample = asked.full_sample if full else asked.sample
    count = ["--sample", sample] if sample else []
    command = [asked.tool, "conform", asked.plugin, "--quick", "--seed", seed, *count,
               *(word.replace("{seed}", seed) for word in asked.rest)]
    print("+", shlex.join(command), flush=True)
    os.execv(asked.tool, command)


if __name__ == "__main__":
    main()
