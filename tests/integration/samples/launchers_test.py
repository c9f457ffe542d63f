#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that other launchers start find each other, and those are the ranks of that launcher: samples/all_reduce under Open MPI's
mpirun, MPICH's and torchrun. Invariant: every rank's own line is looked for; a launcher that is not installed is a skip.
Usage: launchers_test.py BIN_FOLDER Launchers.test_NAME
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1))
SIZE = 3


def found(*names):
    return next(filter(None, map(shutil.which, names)), None)


class Launchers(unittest.TestCase):
    def launch(self, launcher, *words, **more):
        if launcher is None:
            self.skipTest("not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")} | more
        environment |= {"TENON_PLUGIN_PATH": os.environ["TENON_TEST_PLUGIN_DIR"], "TENON_STORE": f"file://{folder.name}"}
        done = subprocess.run([launcher, *words, BIN / "all_reduce"], env=environment, text=True, capture_output=True,
                              timeout=120, cwd=folder.name)
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout}\n{done.stderr}")
        for rank in range(SIZE):
            self.assertIn(f"rank {rank} of {SIZE}: the mean of 1048576 elements is {(SIZE - 1) / 2:g}, right", done.stdout)

    def test_open_mpi(self):
        self.launch(found("mpirun.openmpi", "orterun"), "--oversubscribe", "-n", str(SIZE),
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def test_mpich(self):
        self.launch(found("mpiexec.hydra"), "-n", str(SIZE))

    def test_torchrun(self):
        peers = pathlib.Path(__file__).resolve().parents[3] / "build/peers/bin/torchrun"
        self.launch(str(peers) if peers.exists() else found("torchrun"), "--no-python", "--standalone", "--nproc-per-node",
                    str(SIZE))


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv, exit=False, verbosity=2).result
    only_skips = result.skipped and len(result.skipped) == result.testsRun
    sys.exit(77 if only_skips else not result.wasSuccessful())
