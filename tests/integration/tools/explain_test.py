#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon strategy` and `tenon explain`, of graphs and of communication, from outside.
Invariant: what was decided is told with its reason, and what cannot be read with its line.
"""
import os
import pathlib
import re
import shutil
import sys
import unittest
import xml.etree.ElementTree as xml

from tool import RIGHT, Case, tenon

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
        self.expect(done, 0, f'["e"]        {strategy}', "3 nodes in 3 launches, 0 saved",
                    "refused  elementwise  exp 'e' + neg 'n': never_fuse names exp 'e'\n")
        strategy.write_text('[fusion]\nnever_fuse = ["f"]\n')
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2, "no node makes a value called 'f'", where="stderr")
        strategy.write_text("[fusion]\nnever = 1\n")
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2, "unknown key 'fusion.never'", where="stderr")

    def test_passes_run_first_and_say_what_they_did_in_one_line_a_change(self):
        done = tenon("explain", self.graph(), "--set", "amp=true")
        self.expect(done, 0, "pass     amp       'p': matmul in bf16: matmul is on the white list",
                    "not done amp       'e': exp in bf16: exp is on the black list", "cast 'n.bf16'")
        many = self.graph("tenon-graph 1 many\ninput %x: f32[64,64]\n" + "".join(
            f"%p{i + 1}: f32[64,64] = matmul(%{f'p{i}' if i else 'x'}, %x)\n" for i in range(5)) + "output y = %p5\nend\n")
        done = tenon("explain", many, "--set", "amp=true")
        self.expect(done, 0, "pass     amp       'p1', 'p2', 'p3' and 2 more: matmul in bf16: matmul is on the white list")
        done = tenon("explain", many, "--set", "enable_prune=false", "--set", "enable_addto=false", "--set", "enable_inplace=false")
        self.assertTrue(done.stdout.startswith("cpu:0: 5 nodes"), done.stdout)

    def test_compiled_it_names_who_runs_each_launch(self):
        done = tenon("explain", self.graph(), "--compile")
        self.expect(done, 0, "exp 'e' + neg 'n': saves 1 launch, 32.0 KiB, ", ", by ", "engine   ", "memory   ")
        self.expect(tenon("explain", self.graph(), "--compile", "--bisect"), 2, "--compile", where="stderr")

    def test_no_kernel_uses_wider_instructions_than_the_option_says(self):
        graph = self.graph("tenon-graph 1 capped\ninput %x: f32[64,64]\ninput %i: f32[1,8,8,8]\ninput %w: f32[8,8,3,3]\n"
                           "%e: f32[64,64] = exp(%x)\n%p: f32[64,64] = matmul(%e, %e)\n"
                           "%c: f32[1,8,8,8] = conv2d(%i, %w) {pad=[1,1,1,1]}\noutput y = %p\noutput c = %c\nend\n")
        wider = {"avx2": ("avx512",), "sse2": ("avx512", "avx2", "avx:")}
        for isa, words in wider.items():
            done = tenon("explain", graph, "--compile", "--option", f"cpu.isa={isa}")
            self.expect(done, 0, "engine   ")
            for word in words:
                self.assertNotIn(word, done.stdout)

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

    def test_bisect_names_a_fusion_that_is_wrong(self):
        plugins = self.folder / "plugins"  # of the wrong ones this alone
        plugins.mkdir()
        shutil.copy(pathlib.Path(RIGHT).parent / "tenon-fused_drops_tail.so", plugins / "tenon-honest.so")
        (plugins / "tenon-honest.toml").write_text(
            'manifest = 1\nname = "honest"\nversion = "0.1.0"\nvendor = "Tenon tests"\nlicense = "Apache-2.0"\n'
            'library = "tenon-honest.so"\n[abi]\nmin = "1.0"\nmax = "1.0"\n')
        graph = self.graph("tenon-graph 1 tail\ninput %x: f32[64,64]\n%a: f32[64,64] = add(%x, %x)\n%b: f32[64,64] = add(%a, %x)\n"
                           "%l: f32[64,64] = add(%x, %x)\n%m: f32[64,64] = max(%l, %x)\noutput y = %b\noutput most = %m\nend\n")
        done = tenon("explain", graph, "--bisect", "--plugin-path", plugins, "--device", "honest")
        self.expect(done, 1, "Output 'most' differs by ", "It is made by:\n  elementwise of add 'l' max 'm'\n")

    def test_a_must_fuse_of_one_node_is_refused_where_it_is_read_and_where_it_is_fused(self):
        strategy = self.folder / "s.toml"
        for groups in ("[[]]", '[["e"]]', '[["e", "n"], ["p", "p"]]'):
            strategy.write_text(f"[fusion]\nmust_fuse = {groups}\n")
            self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2, "s.toml: fusion.must_fuse = ",
                        "is not a list of lists of names, two or more in each or one with a *", where="stderr")
        strategy.write_text('[fusion]\nmust_fuse = [["e*"]]\n')
        self.expect(tenon("explain", self.graph(), "--strategy", strategy), 2,
                    "must_fuse [e*]: it names exp 'e' alone: name two nodes or more", where="stderr")

    def test_a_device_of_whole_graphs_says_what_it_cannot_honour(self):
        sim = ("--device", "sim", "--option", "sim.profile=ipu")
        done = tenon("explain", self.graph(), *sim, "--set", "never_fuse=e", "--set", "fusion_off=elementwise")
        self.expect(done, 0, "3 nodes in 1 launch", "refused  off ", "runs whole graphs only: without 'elementwise'",
                    "refused  never_fuse   exp 'e': sim:0 runs whole graphs only: nothing stays alone\n")
        self.expect(tenon("explain", self.graph(), *sim, "--set", 'must_fuse=[["e", "p"]]'), 0, "3 nodes in 1 launch")
        self.expect(tenon("explain", self.graph(), *sim, "--set", 'must_fuse=[["e", "q"]]'), 2,
                    "must_fuse: no node makes a value called 'q'", where="stderr")
        attention = self.graph("tenon-graph 1 attention\ninput %q: f32[1,2,8,4]\ninput %k: f32[1,2,8,4]\ninput %v: f32[1,2,8,4]\n"
                               "%s: f32[1,2,8,8] = matmul(%q, %k) {transpose_b=1}\n%w: f32[1,2,8,8] = softmax(%s) {axis=3}\n"
                               "%y: f32[1,2,8,4] = matmul(%w, %v)\noutput o = %y\nend\n")
        self.expect(tenon("explain", attention, *sim), 0, "not done attention 'y'", "sim:0 runs whole graphs only")
        self.assertNotIn("attention 'y'", tenon("explain", attention, *sim, "--set", "fuse_attention=false").stdout)

    def test_one_candidate_is_refused_once(self):
        graph = self.graph("tenon-graph 1 doubles\ninput %x: f64[8,8]\ninput %b: f64[8,8]\n%p: f64[8,8] = matmul(%x, %x)\n"
                           "%s: f64[8,8] = add(%p, %b)\n%y: f64[8,8] = relu(%s)\noutput o = %y\nend\n")
        done = tenon("explain", graph)
        self.expect(done, 0, "refused  gemm_epilogue  matmul 'p' + add 's' + relu 'y': cpu:0: ")
        lines = [line.split(": ")[0] for line in done.stdout.splitlines()]
        self.assertEqual(sorted(lines), sorted(set(lines)))

    def test_a_sum_over_ranks_is_an_exchange(self):
        graph = self.graph("tenon-graph 1 ranks\ncomm 0 = 2\ninput %x: f32[8]\n%a: f32[8] = exp(%x)\n"
                           '%s: f32[8] = all_reduce(%a) {comm=0, reduce="sum"}\n%y: f32[8] = neg(%s)\noutput o = %y\nend\n')
        done = tenon("explain", graph)
        self.expect(done, 0, "cpu:0: 3 nodes in 2 launches and 1 exchange, 0 saved",
                    "exchange all_reduce 's': summed over ranks, between launches\n")
        self.assertNotIn("not run", done.stdout)
        self.expect(tenon("explain", graph, "--compile"), 0, "cpu:0: 3 nodes in 2 launches and 1 exchange, 0 saved",
                    "exchange 1 all_reduce before launch 1 of 2")

    def test_an_order_of_memory_that_the_device_does_not_have_is_refused(self):
        self.expect(tenon("explain", self.graph(), "--set", "layout=nhwx"), 2,
                    "layout: cpu:0 has no order called 'nhwx' (did you mean 'nhwc'?): it has auto, nhwc, nchw", where="stderr")

    def test_a_step_of_resnet_50_has_a_line_for_each_fusion_and_each_refusal(self):
        graph = pathlib.Path(os.environ["TENON_TEST_SOURCE_DIR"], "samples", "graphs", "resnet50.tg")
        done = tenon("explain", graph)
        self.expect(done, 0)
        lines = done.stdout.splitlines()
        self.assertEqual(sorted(lines), sorted(set(lines)))
        totals = re.search(r"^cpu:0: (\d+) nodes in (\d+) launches and (\d+) views, (\d+) saved; ([\d.]+ \w+) moved instead of "
                           r"([\d.]+ \w+); predicted [\d.]+ \S+ instead of [\d.]+ \S+; \d+ questions asked$", done.stdout, re.M)
        self.assertTrue(totals, done.stdout[-2000:])
        nodes, launches, views, saved = map(int, totals.groups()[:4])
        self.assertEqual(nodes - launches - views, saved)
        fused = [line for line in lines if line.startswith("fused ")]
        said = [re.match(r"fused +(\w+) +(\w+ '.+'): saves (\d+) launch(?:es)?, ([\d.]+ \w+), [\d.]+ \S+$", line) for line in fused]
        self.assertTrue(all(said), [line for line, found in zip(fused, said) if not found][:3])
        self.assertEqual(sum(int(found[3]) for found in said), saved)
        self.assertEqual(len({found[2] for found in said}), len(said))
        self.assertLess(self.bytes_of(totals[5]), self.bytes_of(totals[6]))
        self.assertAlmostEqual(sum(self.bytes_of(found[4]) for found in said),
                               self.bytes_of(totals[6]) - self.bytes_of(totals[5]), delta=0.15 * (1 << 30))
        for line in lines:
            if line.startswith("refused "):
                self.assertRegex(line, r"^refused +\w+ +\w+ '.+?': .*('[^']+'|\d)")

    @staticmethod
    def bytes_of(words):
        number, unit = words.split()
        return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]

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
