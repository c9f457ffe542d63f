#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a fuzzer on its seeds for ten seconds, in a full run for five minutes: run.py PROGRAM SEEDS DICTIONARY.

Invariant: a run that was shown no coverage or read next to nothing fails; what breaks a promise is kept, and the line that
repeats it is printed.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FEWEST = 1000  # inputs, however slow the machine


def figure(pattern, text):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def main():
    program, seeds, dictionary = map(pathlib.Path, sys.argv[1:4])
    seconds = 300 if os.environ.get("TENON_TEST_FULL") == "1" else 10
    kept = program.parent / f"{program.name}.found"
    kept.mkdir(exist_ok=True)
    command = [str(program), f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048",
               "-print_final_stats=1", f"-dict={dictionary}", f"-artifact_prefix={kept}/"]
    if os.environ.get("TENON_TEST_SEED"):
        command.append(f"-seed={int(os.environ['TENON_TEST_SEED']) % 2**32}")
    with tempfile.TemporaryDirectory() as grown:
        done = subprocess.run([*command, grown, str(seeds)], stderr=subprocess.PIPE, text=True, errors="replace",
                              check=False)
    told = done.stderr
    marks = figure(r"\((\d+) inline 8-bit counters\)", told)
    read = figure(r"stat::number_of_executed_units:\s*(\d+)", told)
    seed = figure(r"INFO: Seed: (\d+)", told)
    print(f"{program.name}: {seconds} s, {read} inputs, {marks} marks of coverage; TENON_TEST_SEED={seed} repeats it")
    if seconds == 300:
        print(f"seconds of fuzzing: {seconds} (full run)\nfuzzed inputs: {read} (full run)")
    if done.returncode != 0:
        found = re.search(r"Test unit written to (\S+)", told)
        print(told[-8000:])
        print(f"repeat it: {program} {found.group(1) if found else '(no input was kept)'}\n"
              f"then mend it, and add the input to {seeds}")
        return 1
    if marks == 0 or read < FEWEST:
        print(f"{told[-2000:]}\nthis was no test: it needs coverage, and {FEWEST} inputs at least")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
