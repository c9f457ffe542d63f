# SPDX-License-Identifier: Apache-2.0
"""tool.py: how tests call the `tenon` command, in an environment without what steers it.
Invariant: every case has a folder of its own, which goes with it.
"""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

TOOL = os.environ["TENON_TEST_TOOL"]
RIGHT = os.environ["TENON_TEST_RIGHT_PLUGIN"]


def tenon(*words, cwd=None, **environment):
    return subprocess.run([TOOL, *map(str, words)], cwd=cwd, env=clean(**environment), text=True, capture_output=True,
                          timeout=200)


def clean(**more):
    """The environment without what steers Tenon, and with `more`."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TENON_") and k not in ("NO_COLOR",)} | more


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def expect(self, done, code, *parts, where="stdout"):
        text = getattr(done, where)
        self.assertEqual(done.returncode, code, f"{done.args}\n{done.stdout}\n{done.stderr}")
        for part in parts:
            self.assertIn(part, text)

    def wait_until(self, true, story, limit=30):
        """Looks again and again, for what gives no other sign; `story` tells what was not so after `limit` seconds."""
        end = time.monotonic() + limit
        while not true():
            self.assertLess(time.monotonic(), end, story() if callable(story) else story)
            time.sleep(0.01)
