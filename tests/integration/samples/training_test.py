#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The samples that train print what the source documents print, learn, and refuse what they cannot do.

Invariant: few steps, and nothing timed: what is looked at is which lines there are, and that losses fall.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from terminal import on_terminal  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


def losses(text):
    return [float(loss) for loss in re.findall(r"^.*worker 0, step .* loss ([\d.]+)", text, re.MULTILINE)]


class Samples(unittest.TestCase):
    def test_resnet_says_what_was_made_of_it_and_learns(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "curves.svg")
            code, out, err = run(BIN / "resnet", "--steps", 20, "--plot", picture)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(picture.read_text().count("<polyline"), 2)
        self.assertRegex(out, r"(?m)^  nccl_comm_num +\"auto\" +default$")
        self.assertRegex(out, r"(?m)^environment\n  rank +0 of 1\n  launcher +none\n  device +\S")
        self.assertRegex(out, r"(?m)^detected \d+ subgraphs: \d+ nodes in \d+ launches$")
        self.assertRegex(out, r"(?m)^65 momentum operators, after fusion 1$")
        self.assertRegex(out, r"(?m)^worker 0, step 10, cost [\d.]+ s, loss [\d.]+, acc1 [01]\.\d+, acc5 [01]\.\d+, [\d.]+ images/s$")
        first, last = losses(out)
        self.assertLess(last, first)

    def test_a_terminal_sees_a_bar_of_steps(self):
        code, written = on_terminal([BIN / "resnet", "--steps", 4], ["stderr"], stdout=subprocess.DEVNULL)
        self.assertEqual((code, written), (0, "".join(f"\r[{'#' * 10 * done:.<40}] {done} of 4" for done in range(1, 5)) + "\r\n"))

    def test_two_ranks_sum_in_few_all_reduces(self):
        code, out, err = run(BIN / "tenon", "run", "-n", 2, "--quiet", "--", BIN / "resnet", "--steps", 10, "--batch", 16,
                             "--set", "amp=true", "--set", "bucket_mode=none")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"(?m)^.*65 all-reduce operators, after fusion 1$")
        self.assertRegex(out, r"(?m)^.*  launcher +tenon$")
        self.assertRegex(out, r"(?m)^.*  TENON_STORE_TOKEN +\(secret\)$")
        self.assertRegex(out, r"(?m)^.*worker 0, step 10, ")

    def test_a_transformer_learns_and_goes_on(self):
        code, out, err = run(BIN / "transformer", "--steps", 20)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"(?m)^37 adam operators, after fusion 1$")
        self.assertRegex(out, r"(?m)^worker 0, step 20, cost [\d.]+ s, loss [\d.]+, acc1 [01]\.\d+, acc5 [01]\.\d+, [\d.]+ letters/s$")
        first, last = losses(out)
        self.assertLess(last, first)
        self.assertIn("so that it fits the mou|", out)

    def test_what_cannot_be_is_refused(self):
        for words, part in ((("--depth", "34"), "'34' is no value of --depth"),
                            (("--depth", "50"), "add --data synthetic"),
                            (("--steps", "none"), "--steps is 'none', no number from 1 on"),
                            (("--steps",), "'--steps' has no value"),
                            (("--set", "amp"), "give NAME=VALUE"),
                            (("--set", "nccl_com_num=2"), "did you mean 'nccl_comm_num'?"),
                            (("--strategy", "none.toml"), "none.toml"),
                            (("--speed", "1"), "'--speed' is no option")):
            code, out, err = run(BIN / "resnet", *words)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(part, err)
            self.assertNotIn("  ", err.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
