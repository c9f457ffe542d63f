#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch trains a whole model (../peer.hpp): torch_peer.py MODEL BATCH THREADS eager|compile [nhwc] [bf16] [cuda].

"prepare" makes it and is answered with the number of its parameters; "step" takes a step and is answered with its nanoseconds and its
loss. With WORLD_SIZE above 1 it is one rank of DistributedDataParallel over gloo, which meets the others at TRAIN_MEETING.
`torch_peer.py loader BATCH WORKERS` prepares photos instead: by "workers" of a DataLoader, or in "batches" by itself; the answer is
the nanoseconds of a batch.
Invariant: the models of samples/resnet and samples/transformer, as a user of torch would write and tune them.
"""
import math
import os
import sys
import time

LENGTH, WIDTH, HEADS, LAYERS, WORDS = 256, 384, 6, 6, 256  # as in rank.cpp


def residual_network(torch):
    nn = torch.nn

    def convolution(before, after, kernel, stride):
        return nn.Sequential(nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after))

    class Bottleneck(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.a = convolution(before, width, 1, 1)
            self.b = convolution(width, width, 3, stride)
            self.c = convolution(width, 4 * width, 1, 1)
            same = stride == 1 and before == 4 * width
            self.way = nn.Identity() if same else convolution(before, 4 * width, 1, stride)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.c(self.relu(self.b(self.relu(self.a(x)))))
            return self.relu(y + self.way(x))

    layers, before, width = [convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(before, width, 2 if stage > 0 and block == 0 else 1))
            before = 4 * width
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def decoder(torch):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(WORDS, WIDTH)
            self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
            nn.init.normal_(self.table.weight, std=1 / math.sqrt(WIDTH))

        def forward(self, tokens):
            return self.head(self.norm(self.layers(self.table(tokens) + self.places))).flatten(0, 1)

    return Decoder()


class Training:
    def __init__(self, torch, model, batch, words):
        torch.manual_seed(1)
        self.torch, self.half, self.device = torch, "bf16" in words, "cuda" if "cuda" in words else "cpu"
        if model == "resnet50":
            self.model = residual_network(torch)
            self.given, self.wanted = torch.rand(batch, 3, 224, 224) * 2 - 1, torch.randint(1000, (batch,))
            optimizer = lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        else:
            self.model = decoder(torch)
            self.given, self.wanted = (torch.randint(WORDS, (batch, LENGTH)) for _ in range(2))
            self.wanted = self.wanted.flatten()
            optimizer = lambda p: torch.optim.Adam(p, lr=3e-4, fused=True)
        if "nhwc" in words:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.given = self.given.contiguous(memory_format=torch.channels_last)
        self.model, self.given, self.wanted = (x.to(self.device) for x in (self.model, self.given, self.wanted))
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.optimizer = optimizer(self.model.parameters())
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self.join()
        if "compile" in words:
            self.model = torch.compile(self.model, dynamic=False)

    def join(self):
        torch = self.torch
        torch.distributed.init_process_group(
            "gloo", init_method="file://" + os.environ["TRAIN_MEETING"], rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]))
        self.model = torch.nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True)

    def step(self):
        torch = self.torch
        start = time.perf_counter_ns()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.half):
            loss = torch.nn.functional.cross_entropy(self.model(self.given), self.wanted)
        loss.backward()
        self.optimizer.step()
        value = loss.item()
        return f"{time.perf_counter_ns() - start} {value}"


class Photos:
    """256 photos of 3 × 256 × 256 bytes: a part of 224 × 224, mirrored or not, normalised by channel."""
    STEPS = 16

    def __init__(self, torch, batch, workers):
        torch.set_num_threads(workers)
        self.torch, self.batch = torch, batch
        self.album = torch.randint(256, (256, 3, 256, 256), dtype=torch.uint8)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1) * 255
        self.deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1) * 255
        loader = torch.utils.data.DataLoader(self, batch_size=batch, shuffle=True, num_workers=workers,
                                             persistent_workers=True)
        self.batches = self.endless(loader)

    def __len__(self):
        return len(self.album)

    def part(self, i):
        top, left, mirrored = self.torch.randint(33, (3,)).tolist()
        image = self.album[i, :, top:top + 224, left:left + 224]
        return image.flip(-1) if mirrored % 2 else image

    def normalised(self, images):
        return images.float().sub_(self.mean).div_(self.deviation)

    def __getitem__(self, i):
        return self.normalised(self.part(i))

    @staticmethod
    def endless(loader):
        while True:
            yield from loader

    def answer(self, way):
        start = time.perf_counter_ns()
        for _ in range(self.STEPS):
            if way == "workers":
                next(self.batches)
            else:
                drawn = self.torch.randint(len(self.album), (self.batch,)).tolist()
                self.normalised(self.torch.stack([self.part(i) for i in drawn]))
        return str((time.perf_counter_ns() - start) // self.STEPS)


def widest_isa():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        flags = file.read()
    return "avx512" if " avx512bw" in flags else "avx2" if " avx2" in flags else "default"


def about(torch):
    return f"torch {torch.__version__} on the CPU, {torch.backends.cpu.get_cpu_capability()}: optimizers fused, bf16 by autocast"


def answer(training, line, make):
    """What is said, and what is trained from then on."""
    if line.strip() == "prepare":
        training = make()
        return str(training.parameters), training
    return training.step(), training


def main():
    os.environ.setdefault("ATEN_CPU_CAPABILITY", widest_isa())
    try:
        import torch
    except ImportError:
        print("torch is not installed: ./dev bench train --peers", flush=True)
        return
    if sys.argv[1] == "about":
        print("ready " + about(torch), flush=True)
        return
    if sys.argv[1] == "loader":
        print("ready " + about(torch), flush=True)
        photos = Photos(torch, int(sys.argv[2]), int(sys.argv[3]))
        for line in sys.stdin:
            print(photos.answer(line.strip()), flush=True)
        return
    model, batch, threads, *words = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print("ready " + about(torch), flush=True)
    training = None
    for line in sys.stdin:
        try:
            said, training = answer(training, line, lambda: Training(torch, model, int(batch), words))
        except Exception as trouble:  # whatever torch raises, the other racers go on
            said = "! " + (str(trouble).splitlines() or [type(trouble).__name__])[0][:200]
        print(said, flush=True)


if __name__ == "__main__":
    main()
