#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `tenon` command from outside: every subcommand, its output, its exit code.
Invariant: 0 means done, 1 that the thing asked about is bad, 2 that the question is wrong; errors go to standard error.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

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


class Words(Case):
    def test_version_names_library_and_abi(self):
        self.expect(tenon("--version"), 0, "tenon 0.", "plugin ABI 1.0")

    def test_every_subcommand_has_help(self):
        for name in ("doctor", "info", "explain", "conform", "new-plugin", "replay", "run", "strategy", "trace"):
            self.expect(tenon(name, "--help"), 0, "Usage: tenon", name)
            self.expect(tenon("help", name), 0, name)
        self.expect(tenon(), 0, "doctor", "conform")
        self.expect(tenon("help"), 0, "doctor")

    def test_an_unknown_word_ends_with_2_and_the_nearest_known_one(self):
        self.expect(tenon("docter"), 2, "'docter'", "did you mean 'doctor'", where="stderr")
        self.expect(tenon("doctor", "--jsn"), 2, "'--jsn'", "did you mean '--json'", where="stderr")
        self.expect(tenon("--versoin"), 2, "did you mean '--version'", where="stderr")
        self.expect(tenon("help", "confrom"), 2, "did you mean 'conform'", where="stderr")
        self.expect(tenon("doctor", "now"), 2, "unexpected word 'now'", where="stderr")
        self.expect(tenon("conform", "--level", "many", RIGHT), 2, "--level", where="stderr")


class Doctor(Case):
    def test_text_and_json_tell_the_same(self):
        text, told = tenon("doctor"), tenon("doctor", "--json")
        self.expect(text, 0, "Search path", "Plugins", "Devices", "Machine", "Environment", "Layers", "usable")
        found = json.loads(told.stdout)
        for plugin in found["plugins"]:
            self.assertIn(plugin["name"] if plugin["state"] == "loaded" else "skipped", text.stdout)
        self.assertEqual(found["usable"] + found["without_device"] + found["skipped"], len(found["plugins"]))
        self.assertIn(f"{found['usable']} plugin", text.stdout)

    def test_no_colours_in_a_pipe(self):
        self.assertNotIn("\033", tenon("doctor").stdout)

    def test_a_bad_library_is_one_line_and_exit_0(self):
        (self.folder / "tenon-bad.so").write_text("no library at all")
        done = tenon("doctor", "--plugin-path", self.folder)
        self.expect(done, 0, "tenon-bad.so", "skipped: ")
        self.assertEqual(1, sum("tenon-bad.so" in line for line in done.stdout.splitlines()))

    def test_among_bad_plugins_the_good_ones_are_usable(self):
        folder = self.folder / "all"
        shutil.copytree(os.environ["TENON_TEST_BAD_DIR"], folder, symlinks=True)
        sim = pathlib.Path(os.environ["TENON_TEST_PLUGIN_DIR"]) / "tenon-sim.so"
        for file in (sim, sim.with_suffix(".toml")):
            shutil.copy2(file, folder)
        done, told = (tenon("doctor", "--plugin-path", folder, *more) for more in ((), ("--json",)))
        self.expect(done, 0, "without a usable device")
        found = {plugin["path"]: plugin for plugin in json.loads(told.stdout)["plugins"]}
        for library in folder.glob("*.so"):
            said = [line for line in done.stdout.splitlines() if library.name in line and "skipped: " in line]
            self.assertGreaterEqual(len(said), 0 if found[str(library)]["state"] == "loaded" else 1, library.name)
        good = {name: plugin for name, plugin in found.items() if plugin["state"] == "loaded" and name.startswith(str(folder))}
        self.assertEqual(set(good), {str(folder / "tenon-good.so"), str(folder / sim.name)})
        self.assertTrue(good[str(folder / sim.name)]["devices"][0]["usable"])
        self.assertFalse(good[str(folder / "tenon-good.so")]["devices"][0]["usable"])  # its device is only for show

    def test_a_folder_that_is_not_there_is_remarked(self):
        self.expect(tenon("doctor", "--plugin-path", self.folder / "none"), 0, "none", "does not exist")

    def test_layers_that_do_not_exist_are_told(self):
        self.expect(tenon("doctor", TENON_LAYERS="vaildate"), 0, "vaildate", "validate")

    def test_the_environment_that_matters_is_shown(self):
        done = tenon("doctor", NCCL_DEBUG="INFO", TENON_STORE_TOKEN="sesame")
        self.expect(done, 0, "NCCL_DEBUG", "INFO", "TENON_STORE_TOKEN", "secret")
        self.assertNotIn("sesame", done.stdout)

    def test_variables_of_old_documents_are_explained(self):
        names = {"NCCL_SOCKET_IFNAME": "NCCL_IB_HCA", "NCCL_P2P_DISABLE": "NCCL_P2P_LEVEL", "NCCL_IB_DISABLE": "sockets",
                 "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL", "NCCL_DEBUG": "NCCL_DEBUG_FILE"}
        self.expect(tenon("doctor", **dict.fromkeys(names, "0")), 0, *names, *names.values(), "obsolete")
        told = json.loads(tenon("doctor", "--json", **dict.fromkeys(names, "0")).stdout)["environment_remarks"]
        for name, instead in names.items():
            self.assertIn(instead, told[name])
        quiet = json.loads(tenon("doctor", "--json", NCCL_ALGO="Ring").stdout)
        self.assertIn("NCCL_ALGO", quiet["environment"])
        self.assertNotIn("NCCL_ALGO", quiet["environment_remarks"])


class Info(Case):
    def test_a_file_in_depth(self):
        self.expect(tenon("info", RIGHT), 0, "honest", "Tenon tests", "stream.promise", "native", "absent", "sha256")
        found = json.loads(tenon("info", RIGHT, "--json").stdout)
        self.assertEqual(found["name"], "honest")
        self.assertEqual(found["devices"][0]["limits"]["priorities"], 2)

    def test_without_a_plugin_it_tells_the_library(self):
        self.expect(tenon("info"), 0, "version", "plugin ABI", "plugin folders")

    def test_a_name_that_is_not_there(self):
        self.expect(tenon("info", "no_such"), 2, "no plugin 'no_such'", where="stderr")
        self.expect(tenon("info", "/no/such.so"), 2, "/no/such.so", where="stderr")

    def test_a_file_that_is_no_plugin(self):
        (self.folder / "tenon-bad.so").write_text("no library at all")
        self.expect(tenon("info", self.folder / "tenon-bad.so"), 1, "dlopen", where="stderr")


class NewPlugin(Case):
    def test_a_scaffold_has_its_name_and_vendor_everywhere(self):
        self.expect(tenon("new-plugin", "acme2", "--vendor", "Acme Ltd", cwd=self.folder), 0, "cmake -S acme2",
                    "cmake --build", "tenon conform")
        texts = [path.read_text() for path in (self.folder / "acme2").rglob("*") if path.is_file()]
        self.assertGreater(len(texts), 4)
        self.assertFalse([text for text in texts if "@NAME@" in text or "@VENDOR@" in text])
        self.assertTrue(any("Acme Ltd" in text for text in texts))

    def test_nothing_is_overwritten(self):
        (self.folder / "acme").mkdir()
        self.expect(tenon("new-plugin", "acme", cwd=self.folder), 2, "'acme' exists", where="stderr")
        self.assertEqual(list((self.folder / "acme").iterdir()), [])

    def test_another_folder(self):
        self.expect(tenon("new-plugin", "acme", "--dir", "deep/er", cwd=self.folder), 0)
        self.assertTrue((self.folder / "deep" / "er" / "CMakeLists.txt").exists())

    def test_a_name_that_cannot_be_one(self):
        for name in ("Acme", "2fast", "a-b", "", "x" * 20, "../up"):
            self.expect(tenon("new-plugin", name, cwd=self.folder), 2, where="stderr")
        self.assertEqual(list(self.folder.iterdir()), [])


class Replay(Case):
    def test_a_file_that_is_no_recording(self):
        (self.folder / "r").write_text("hello")
        self.expect(tenon("replay", self.folder / "r", "--on", RIGHT), 2, where="stderr")
        self.expect(tenon("replay"), 2, "--on PLUGIN", where="stderr")


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


GRAPH = """tenon-graph 1 small
input %x: f32[64,64]
%e: f32[64,64] = exp(%x)
%n: f32[64,64] = neg(%e)
%p: f32[64,64] = matmul(%n, %n)
output y = %p
end
"""


class Strategy(Case):
    def row(self, done, option):
        """The line of an option, its words one space apart."""
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [" ".join(line.split()) for line in done.stdout.splitlines() if option in line.split()]
        self.assertEqual(len(lines), 1, done.stdout)
        return lines[0]

    def test_every_option_says_what_it_comes_to_and_who_set_it(self):
        done = tenon("strategy")
        self.expect(done, 0, "[fusion]", "[executor]")
        self.assertEqual(self.row(done, "fuse_bn_act_ops"), "fuse_bn_act_ops true default")
        self.assertNotIn("!", done.stdout)

    def test_later_sources_win(self):
        file = self.folder / "s.toml"
        file.write_text("nccl_comm_num = 2\nthread_num = 3\na_sync = true\n")
        words = ("strategy", file, "--preset", "documents")
        done = tenon(*words)
        self.assertEqual(self.row(done, "nccl_comm_num"), f"nccl_comm_num 2 {file}")
        self.assertEqual(self.row(done, "sync_nccl_allreduce"), "sync_nccl_allreduce true preset documents")
        self.assertTrue(self.row(done, "a_sync").startswith(f"! a_sync false {file}: asked for true; there is no parameter server"))
        self.assertTrue(self.row(done, "num_threads").startswith(f"! num_threads 1 {file}: asked for 3; launches go to one stream"))
        done = tenon(*words, FLAGS_fuse_parameter_memory_size="16", TENON_NCCL_COMM_NUM="4")
        self.assertEqual(self.row(done, "nccl_comm_num"), "nccl_comm_num 4 TENON_NCCL_COMM_NUM")
        self.assertEqual(self.row(done, "fuse_grad_size_in_MB"), "fuse_grad_size_in_MB 16 FLAGS_fuse_parameter_memory_size")
        done = tenon(*words, "--set", "nccl_comm_num=auto", TENON_NCCL_COMM_NUM="4")
        self.assertEqual(self.row(done, "nccl_comm_num"), 'nccl_comm_num "auto" --set')

    def test_it_is_saved_and_printed_as_a_file_that_reads_as_the_same(self):
        out = self.folder / "out.toml"
        done = tenon("strategy", "--preset", "documents", "--set", "amp=true", "--save", out, "--toml")
        self.expect(done, 0, "[amp_configs]")
        self.assertEqual(out.read_text(), done.stdout)
        self.assertEqual(tenon("strategy", out, "--toml").stdout, done.stdout)

    def test_the_shipped_strategy_of_the_documents_is_read(self):
        file = pathlib.Path(os.environ["TENON_TEST_SOURCE_DIR"], "samples", "strategies", "documents_resnet50.toml")
        self.assertEqual(self.row(tenon("strategy", file), "init_loss_scaling"), f"init_loss_scaling 128 {file}")

    def test_what_is_wrong_is_told_with_the_nearest_word(self):
        file = self.folder / "s.toml"
        file.write_text("fuse_bn_act_op = true\n")
        self.expect(tenon("strategy", file), 2, "unknown key 'fuse_bn_act_op' (did you mean 'fuse_bn_act_ops'?)", where="stderr")
        self.expect(tenon("strategy", self.folder / "none.toml"), 2, "none.toml", where="stderr")
        self.expect(tenon("strategy", "--preset", "document"), 2, "did you mean 'documents'?", where="stderr")
        self.expect(tenon("strategy", "--set", "amp"), 2, "write KEY=VALUE", where="stderr")
        self.expect(tenon("strategy", "--set", "apm=true"), 2, "no option is called 'apm' (did you mean 'amp'?)", where="stderr")
        self.expect(tenon("strategy", "--save", self.folder / "s.toml" / "t.toml"), 2, "t.toml", where="stderr")


class Explain(Case):
    def graph(self, text=GRAPH):
        path = self.folder / "small.tg"
        path.write_text(text)
        return path

    def test_what_is_fused_and_in_how_many_launches(self):
        done = tenon("explain", self.graph())
        self.expect(done, 0, "cpu:0: 3 nodes in 2 launches, 1 saved", "fused    elementwise  exp 'e' + neg 'n': saves 1 launch")

    def test_a_strategy_is_obeyed_and_told(self):
        strategy = self.folder / "s.toml"
        strategy.write_text('[fusion]\nnever_fuse = ["e"]\n')
        done = tenon("explain", self.graph(), "--strategy", strategy, "--effective")
        self.expect(done, 0, f'["e"]        {strategy}', "3 nodes in 3 launches, 0 saved")
        strategy.write_text('[fusion]\nnever_fuse = ["f"]\n')
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2, "no node makes a value called 'f'", where="stderr")
        strategy.write_text("[fusion]\nnever = 1\n")
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2, "unknown key 'fusion.never'", where="stderr")

    def test_a_strategy_of_the_environment_is_obeyed(self):
        self.expect(tenon("explain", self.graph(), TENON_ENABLE_AUTO_FUSION="false"), 0, "3 nodes in 3 launches, 0 saved")
        self.expect(tenon("explain", self.graph(), TENON_ENABLE_AUTO_FUSION="no"), 2, "TENON_ENABLE_AUTO_FUSION is 'no'", where="stderr")

    def test_the_preset_of_the_documents_fuses_nothing(self):
        strategy = self.folder / "s.toml"
        strategy.write_text('preset = "documents"\n')
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 0, "3 nodes in 3 launches, 0 saved")

    def test_bisect_says_that_nothing_differs(self):
        done = tenon("explain", self.graph(), "--bisect", "--seed", "7")
        self.expect(done, 0, "bisect: 2 runs on random inputs of seed 7", "No fusion changes a result")

    def test_a_picture_is_written(self):
        self.expect(tenon("explain", self.graph(), "--dot", self.folder / "g.dot"), 0)
        self.assertIn("digraph", (self.folder / "g.dot").read_text())

    def test_a_picture_frames_what_is_fused(self):
        self.expect(tenon("explain", self.graph(), "--svg", self.folder / "g.svg"), 0)
        rectangles = self.rectangles(self.folder / "g.svg")
        self.assertEqual(sorted(kind for kind, *_ in rectangles), ["frame", "input", "node", "node", "node", "output"])
        self.expect(tenon("explain", self.graph(), "--svg", self.folder / "none" / "g.svg"), 2, "cannot be written", where="stderr")
        self.expect(tenon("explain", self.graph(), "--svg", "x", "--bisect"), 2, "--svg", where="stderr")

    def test_the_picture_of_a_transformer_has_every_node_once_and_nothing_overlaps(self):
        graph = pathlib.Path(os.environ["TENON_TEST_SOURCE_DIR"], "samples", "graphs", "transformer.tg")
        self.expect(tenon("explain", graph, "--svg", self.folder / "t.svg"), 0)
        rectangles = self.rectangles(self.folder / "t.svg")
        lines = [line for line in graph.read_text().splitlines() if line.startswith(("%", "_"))]
        self.assertEqual(sum(kind == "node" for kind, *_ in rectangles), len(lines))
        self.assertTrue(any(kind == "frame" for kind, *_ in rectangles))
        boxes = [box for box in rectangles if box[0] != "frame"]
        for i, (_, x, y, width, height) in enumerate(boxes):
            for _, x2, y2, width2, height2 in boxes[i + 1:]:
                self.assertFalse(x < x2 + width2 and x2 < x + width and y < y2 + height2 and y2 < y + height)

    def test_the_picture_of_one_block_fits_on_a_page(self):
        whole = pathlib.Path(os.environ["TENON_TEST_SOURCE_DIR"], "samples", "graphs", "transformer.tg").read_text()
        block = whole[:whole.index("\n", whole.index("%l1.out"))] + "\noutput y = %l1.out\nend\n"
        self.expect(tenon("explain", self.graph(block), "--svg", self.folder / "b.svg"), 0)
        rectangles = self.rectangles(self.folder / "b.svg")
        self.assertGreater(sum(kind == "node" for kind, *_ in rectangles), 20)
        self.assertLess(max(x + width for _, x, _, width, _ in rectangles), 3000)
        self.assertLess(max(y + height for _, _, y, _, height in rectangles), 4000)

    def rectangles(self, path):
        """(kind, x, y, width, height) of every box of a picture, by a real reader of XML."""
        found = xml.parse(path).iter("{http://www.w3.org/2000/svg}rect")
        return [(box.get("class"), *(float(box.get(key)) for key in ("x", "y", "width", "height")))
                for box in found if box.get("class")]

    def test_what_is_no_graph_no_file_no_device(self):
        self.expect(tenon("explain"), 2, "explain needs a graph", where="stderr")
        self.expect(tenon("explain", self.folder / "none.tg"), 2, "none.tg' does not open", where="stderr")
        cycle = GRAPH.replace("exp(%x)", "exp(%n)")
        self.expect(tenon("explain", self.graph(cycle)), 2, "small.tg: line 3", "a cycle", where="stderr")
        self.expect(tenon("explain", self.graph(), "--device", "toaster"), 2, "toaster", where="stderr")
        self.expect(tenon("explain", self.graph(), "--option", "cpu.threads"), 2, "write KEY=VALUE", where="stderr")


STEP = """# NAME        TYPE  ELEMENTS  READY_MS  NEEDED_MS
embed.weight  f32   2000000   30        0
fc1.weight    f32   1000000   20        4   # behind it, a comment
fc2.weight    f32   1000000   10        8
fc2.bias      bf16  1000      10
forward       16
"""
COSTS = """all_reduce 1024 100
all_reduce 1048576 900
all_reduce.leaders 1024 300
all_reduce.leaders 1048576 500
reduce_scatter 1024 60
reduce_scatter 1048576 450
all_gather 1024 60
all_gather 1048576 450
"""


class Comm(Case):
    def file(self, text, name="step.txt"):
        (self.folder / name).write_text(text)
        return self.folder / name

    def resnet(self, *options):
        graph = pathlib.Path(os.environ["TENON_TEST_SOURCE_DIR"], "samples", "graphs", "resnet50.tg")
        done = tenon("explain", "--comm", graph, *(word for option in options for word in ("--set", option)))
        return done, [int(line.split()[2]) for line in done.stdout.splitlines() if line[:3].strip().isdigit()]

    def test_the_gradients_of_resnet_50_are_grouped_as_the_documents_say(self):
        for mb, layers, groups in ((16, 50, [8, 9, 9, 33, 51, 51]), (32, 50, [2, 18, 39, 51, 51]), (32, 20, [14] + 7 * [21])):
            done, found = self.resnet("mode=documents", f"fuse_grad_size_in_MB={mb}", f"fuse_grad_max_layers={layers}")
            self.expect(done, 0, f"161 all-reduce operators, after fusion {len(groups)}; mode documents, 1 stream, 8 ranks, plan ",
                        "161 gradients of graph 'resnet50'; forward ", "predicted by bytes moved on cpu:0", "a ring of 8 ranks")
            self.assertEqual(found, groups)

    def test_equal_questions_have_equal_hashes_and_other_ranks_another(self):
        plan = [tenon("explain", "--comm", self.file(STEP), "--ranks", ranks).stdout.split(", plan ")[1].split()[0]
                for ranks in (4, 4, 5)]
        self.assertEqual(plan[0], plan[1])
        self.assertNotEqual(plan[1], plan[2])

    def test_a_list_a_model_and_the_options(self):
        done = tenon("explain", "--comm", self.file(STEP), "--gbit", "1", "--latency-us", "50", "--set", "mode=per_tensor",
                     "--set", "nccl_comm_num=2", "--effective")
        self.expect(done, 0, "bucket_mode", "per_tensor", "4 gradients of", "forward 16.00 ms, backward 30.00 ms",
                    "1 Gbit/s and 50 µs", "4 all-reduce operators, after fusion 4; mode per_tensor, 2 streams, 8 ranks", "bf16",
                    "embed.weight", "stream 1")

    def test_measured_costs_choose_routes_and_sharded_mode_has_its_own(self):
        costs = self.file(COSTS, "costs.txt")
        done = tenon("explain", "--comm", self.file(STEP), "--costs", costs, "--set", "mode=per_tensor", "--ranks", 8,
                     "--set", "hierarchical_allreduce_inter_nranks=4")
        self.expect(done, 0, "of 8 ranks, as", " leaders ", " flat ")
        done = tenon("explain", "--comm", self.file(STEP), "--costs", costs, "--set", "sharded=true")
        self.expect(done, 0, "4 reduce-scatter operators", "gathered")

    def test_a_strategy_is_obeyed(self):
        strategy = self.file('[overlap]\nmode = "none"\n', "s.toml")
        self.expect(tenon("explain", "--comm", self.file(STEP), "--strategy", strategy), 0, "after fusion 1; mode none")
        self.expect(tenon("explain", "--comm", self.file(STEP), "--strategy", strategy, "--set", "mode=ddp"), 0, "mode ddp")
        self.expect(tenon("explain", "--comm", self.file(STEP), "--set", "uneven_batches=false"), 0, "start bucket by bucket")

    def test_the_picture_has_a_bar_for_each_bucket(self):
        picture = self.folder / "step.svg"
        self.expect(tenon("explain", "--comm", self.file(STEP), "--set", "mode=per_tensor", "--svg", picture), 0)
        boxes = [box.get("class") for box in xml.parse(picture).iter("{http://www.w3.org/2000/svg}rect")]
        self.assertEqual(boxes.count("send"), 4)
        self.assertEqual(boxes.count("compute"), 2)

    def test_what_cannot_be_planned_is_named(self):
        def refuses(step, *parts, **more):
            words = [word for key, value in more.items() for word in (f"--{key}", value)]
            self.expect(tenon("explain", "--comm", self.file(step), *words), 2, *parts, where="stderr")
        refuses("# nothing\n", "step.txt lists no gradient")
        refuses("w f32\n", "step.txt: line 1: a gradient is NAME TYPE ELEMENTS")
        refuses("a f32 1\nw float 12\n", "step.txt: line 2", "float")
        refuses("w f32 1.5\n", "'1.5' is no count")
        refuses("w f32 1e30\n", "'1e30' is no count")
        refuses("w f32 12 soon\n", "'soon' is no number")
        refuses(GRAPH, "graph 'small' has no optimizer update")
        refuses(STEP, "--gbit: 'nan' is no number from 0.001", gbit="nan")
        refuses(STEP, "--gbit: '0' is no number from 0.001", gbit="0")
        refuses(STEP, "--latency-us: '1e300' is no number from 0", **{"latency-us": "1e300"})
        refuses(STEP, "line 1: a cost is COLLECTIVE BYTES US", costs=self.file("all_reduced 1 2\n", "c1.txt"))
        refuses(STEP, "has no cost of all_reduce", costs=self.file("all_gather 1 2\nall_gather 2 3\n", "c2.txt"))
        refuses(STEP, "c3.txt: all_reduce.flat: a cost table needs two points", costs=self.file("all_reduce 1 2\n", "c3.txt"))
        refuses(STEP, "--set 'mode': write KEY=VALUE", set="mode")
        refuses(STEP, "'modes'", set="modes=ddp")
        self.expect(tenon("explain", self.file(STEP), "--ranks", 4), 2, "--ranks requires --comm", where="stderr")
        self.expect(tenon("explain", "--comm", self.file(STEP), "--bisect"), 2, "--bisect", where="stderr")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
