"""How fast the matrix products consume weights, against a plain streaming read of the same memory.

    python -m tests.benchmarks.bench_products [--threads 1 2] [--formats i8r i4g ...] [--shapes 1024x2048 ...]

Weights lie in a pool much larger than the caches, in huge pages. Slices of it are read plainly and multiplied
through by turns, and the time is that of the threads on a processor, so that other work on the machine disturbs both
alike; the ratio is the figure to trust. COLIBRI_ISA chooses another instruction set.
"""

from __future__ import annotations

import argparse
import itertools
import mmap
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from engine.kernels import formats, isa
from engine.kernels.inputs import input_bytes, write_record
from engine.kernels.ir import LONG, WORD, Emitter, function, vector
from engine.kernels.packing import pack
from engine.kernels.products import product16
from engine.kernels.symbols import emitted
from tests.engine.kernels import sample_rows

NAMES = {
    "f32": formats.F32, "f16": formats.F16, "bf16": formats.BF16, "i8r": formats.I8R, "i4g": formats.I4G,
    "i4g64": formats.I4G64, "i4g128": formats.I4G128,
    **sample_rows.NAMES,
}  # fmt: skip
SLICE = 32 << 20
SHAPES = ["1024x2048", "2048x1024", "768x2048", "2048x6144", "6144x2048"]


def _read(e: Emitter, start: Any, size: Any) -> Any:
    kind = vector(WORD, 16)

    def body(i: Any, sums: list[Any]) -> list[Any]:
        at = e.offset(start, i)
        return [e.b.add(total, e.load(kind, e.offset(at, 64 * n))) for n, total in enumerate(sums)]

    sums = e.loop(e.long(0), size, 512, [e.constant(kind, 0)] * 8, body)
    total = sums[0]
    for other in sums[1:]:
        total = e.b.add(total, other)
    return e.b.zext(e.call("llvm.vector.reduce.add.v16i32", WORD, [total]), LONG)


_read_memory = emitted("int64(int64, int64)", lambda module: function(module, isa.TARGET, "read", 2, LONG, _read))


@njit(nogil=True)
def stream(start: int, size: int) -> int:
    """Load every byte of [start, start + size) and return a checksum; size is a multiple of 512."""
    return _read_memory(start, size)


@njit(nogil=True)
def multiply(fmt: int, w: int, block: int, blocks: int, k: int, xs: int, s: int, out: int) -> None:
    for index in range(blocks):
        product16(fmt, w + index * block, 16, k, xs, s, out)


def make_pool(size: int) -> np.ndarray:
    """`size` bytes in huge pages where the system has them (a private mapping: shared ones get none)."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def sample_weights(fmt: int, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    if fmt in sample_rows.NAMES.values():
        return sample_rows.draw(fmt, n, k, rng).reshape(-1)
    w = rng.standard_normal((n, k)).astype(np.float32)
    if fmt == formats.F32:
        return w.view(np.uint8).reshape(-1)
    if fmt == formats.F16:
        return w.astype(np.float16).view(np.uint8).reshape(-1)
    if fmt == formats.BF16:
        return (w.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1)
    return pack(fmt, w).reshape(-1)


class Case:
    """One format and shape laid through the whole pool, cut into slices of some 32 MB for each thread."""

    def __init__(self, pool: np.ndarray, fmt: int, n: int, k: int, positions: int, threads: int) -> None:
        rng = np.random.default_rng(0)
        matrix = sample_weights(fmt, n, k, rng)
        self.fmt, self.k, self.positions, self.threads = fmt, k, positions, threads
        self.block = formats.block_bytes(fmt, k)
        self.blocks = max(1, SLICE // self.block)
        self.slices = len(pool) // (self.blocks * self.block * threads)
        used = self.slices * threads * self.blocks * self.block
        for at in range(0, used, len(matrix)):
            part = pool[at : min(at + len(matrix), used)]
            part[:] = matrix[: len(part)]
        self.bytes = self.blocks * self.block * threads
        self.start = pool.ctypes.data
        x = rng.standard_normal((positions, k)).astype(np.float32)
        if formats.takes(fmt) != formats.TAKES_FLOATS:
            given = np.zeros((positions, input_bytes(fmt, k)), np.uint8)
            for j in range(positions):
                write_record(fmt, x[j].ctypes.data, k, given[j].ctypes.data)
            x = given
        self.x = x
        self.xs = np.array([row.ctypes.data for row in x], np.int64)
        self.out = np.zeros((threads, positions, 16), np.float32)

    def address(self, part: int, thread: int) -> int:
        return self.start + (part % self.slices * self.threads + thread) * self.blocks * self.block

    def read(self, part: int, thread: int) -> float:
        start = time.thread_time()
        stream(self.address(part, thread), self.blocks * self.block // 512 * 512)
        return time.thread_time() - start

    def product(self, part: int, thread: int) -> float:
        start = time.thread_time()
        multiply(
            self.fmt, self.address(part, thread), self.block, self.blocks, self.k, self.xs.ctypes.data,
            self.positions, self.out[thread].ctypes.data,
        )  # fmt: skip
        return time.thread_time() - start

    def measure(self, workers: ThreadPoolExecutor, rounds: int) -> tuple[float, float, float]:
        """Median seconds of reading and of multiplying a slice, and the median ratio of neighbours."""

        def slowest(run: Callable[[int, int], float], part: int) -> float:
            return max(workers.map(lambda thread: run(part, thread), range(self.threads)))

        slowest(self.product, 0)
        slowest(self.read, 0)
        pairs = []
        for _ in range(rounds):
            for part in range(self.slices):  # half the pool lies between the two, so neither finds warm caches
                read = slowest(self.read, part)
                pairs.append((read, slowest(self.product, part + self.slices // 2)))
        reads, products = zip(*pairs, strict=True)
        ratio = statistics.median(read / product for read, product in pairs)
        return statistics.median(reads), statistics.median(products), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--formats", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--positions", type=int, nargs="+", default=[1])
    parser.add_argument("--pool", type=int, default=1024, help="MiB of weights")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pool = make_pool(options.pool << 20)
    print(f"{isa.ISA}; GB/s of weight bytes, medians over slices of a pool of {options.pool} MiB")
    print("format shape        threads positions  stream  product  ratio  GFLOP/s")
    with ThreadPoolExecutor(max(options.threads)) as workers:
        for name, shape, threads, positions in itertools.product(
            options.formats, options.shapes, options.threads, options.positions
        ):
            n, k = map(int, shape.split("x"))
            case = Case(pool, NAMES[name], n, k, positions, threads)
            read, product, ratio = case.measure(workers, options.rounds)
            flop = 2 * 16 * case.blocks * threads * k * positions
            print(
                f"{name:6} {shape:12} {threads:7} {positions:9}  {case.bytes / read / 1e9:6.1f}"
                f"  {case.bytes / product / 1e9:7.1f}  {ratio:5.2f}  {flop / product / 1e9:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
