#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon trace` from outside: runs of several ranks, pages, merged files, flight records.
Invariant: what cannot be read or written is named.
"""
import json
import sys
import unittest

from tool import Case, tenon


class Trace(Case):
    def run_file(self, rank, begin, **other):
        rows = [{"name": "thread_name", "ph": "M", "pid": rank, "tid": 1, "args": {"name": "compute", "device": "cpu:0"}},
                {"name": "fc1", "cat": "kernel", "ph": "X", "pid": rank, "tid": 1, "ts": begin, "dur": 500.0, "args": {}}]
        path = self.folder / f"rank{rank}.json"
        path.write_text(json.dumps({"otherData": {"format": "tenon.trace/1", "clock": "boot"} | other, "traceEvents": rows}))
        return path

    def test_sums_a_page_and_all_ranks_in_one_file(self):
        files = self.run_file(0, 0.0), self.run_file(1, 250.0)
        page, merged = self.folder / "out.html", self.folder / "all.json"
        done = tenon("trace", *files, "--html", page, "--json", merged)
        self.expect(done, 0, "500.0 µs", "all")
        self.assertIn("rank1.json", page.read_text())
        again = tenon("trace", merged)
        self.expect(again, 0)
        self.assertEqual(again.stdout, done.stdout)
        found = [(row["pid"], row["ts"]) for row in json.loads(merged.read_text())["traceEvents"] if row["ph"] == "X"]
        self.assertEqual(found, [(0, 0), (1, 250)])

    def test_a_rank_that_comes_again_begins_another_run(self):
        files = []
        for name, begins in (("slow", (0.0, 250.0)), ("fast", (0.0, 100.0))):
            for rank, begin in enumerate(begins):
                files.append(self.run_file(rank, begin).rename(self.folder / f"{name}.rank{rank}.json"))
        done = tenon("trace", *files, "--html", self.folder / "out.html")
        self.expect(done, 0, "run ", "\nslow\n", "\nfast\n")
        lines = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
        self.assertEqual(lines, ["run", "slow", "fast", "slow", "rank", "0", "1", "all", "fast", "rank", "0", "1", "all"])
        self.expect(tenon("trace", *files, "--json", self.folder / "all.json"), 2, "these files are of 2", where="stderr")
        self.assertFalse((self.folder / "all.json").exists())

    def test_what_cannot_be_read_or_written_is_named(self):
        self.expect(tenon("trace"), 2, "trace needs the files", where="stderr")
        self.expect(tenon("trace", self.folder / "none.json"), 2, "none.json", where="stderr")
        file = self.run_file(0, 0.0)
        self.expect(tenon("trace", file, file), 2, "rank 0 is in", where="stderr")
        self.expect(tenon("trace", file, "--html", self.folder / "no" / "page.html"), 2, "cannot be written", where="stderr")
        file.write_text(file.read_text().replace('"dur"', '"dura"'))
        self.expect(tenon("trace", file), 2, "rank0.json: line 1: an event has no key 'dura' (did you mean 'dur'?)", where="stderr")

    def test_flight_records_make_one_story(self):
        self.expect(tenon("trace", "--flight", self.folder), 2, "no flight record", where="stderr")
        for rank, groups in ((0, 3), (2, 1)):
            last = {"group": groups, "kind": "all_reduce", "dtype": "f32", "reduce": "sum", "count": 8, "peer": -1, "at_ns": 10}
            record = {"tenon_flight": 1, "communicator": "world", "serial": 0, "rank": rank, "size": 3, "process": 1,
                      "device": "cpu:0", "groups": groups, "operations": [last],
                      "ended": {"code": "TN_TIMEOUT", "message": "waited", "at_ns": 20}}
            (self.folder / f"world.0.rank{rank}.json").write_text(json.dumps(record))
        self.expect(tenon("trace", "--flight", self.folder), 0, "rank 1 left no record",
                    "rank 0 waited for rank 2, which submitted only 1 group, in group 2")
        self.expect(tenon("trace", "--flight", self.folder, self.folder / "world.0.rank0.json"), 2, "or --flight", where="stderr")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
