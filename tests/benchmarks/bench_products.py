"""How fast the matrix products consume weights, against a plain streaming read of the same memory.

    python -m tests.benchmarks.bench_products [--threads 1 2] [--formats i8r i4g ...] [--shapes 1024x2048 ...]

Weights lie in a pool much larger than the caches, in huge pages. Every round reads the pool plainly and then
multiplies through it, so that a busy machine slows both; the ratio of medians is the figure to trust. COLIBRI_ISA
chooses another instruction set. With --positions the batch is larger and GFLOP/s are given instead.
"""

from __future__ import annotations

import argparse
import mmap
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from engine.kernels import formats, isa
from engine.kernels.ir import LONG, WORD, Emitter, function, vector
from engine.kernels.packing import pack
from engine.kernels.products import product16
from engine.kernels.quantize import q8_bytes, quantize_q8

NAMES = {"f32": formats.F32, "f16": formats.F16, "bf16": formats.BF16, "i8r": formats.I8R, "i4g": formats.I4G}
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


@intrinsic
def read_memory(typingctx: Any, start: Any, size: Any) -> Any:
    """Load every byte of [start, start + size) and return a checksum; size is a multiple of 512."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(function(builder.module, isa.TARGET, "bench_read", 2, LONG, _read), args)

    return types.int64(types.int64, types.int64), codegen


@njit(nogil=True)
def stream(start: int, size: int) -> int:
    return read_memory(start, size)


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
    w = rng.standard_normal((n, k)).astype(np.float32)
    if fmt == formats.F32:
        return w.view(np.uint8).reshape(-1)
    if fmt == formats.F16:
        return w.astype(np.float16).view(np.uint8).reshape(-1)
    if fmt == formats.BF16:
        return (w.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1)
    return pack(fmt, w).reshape(-1)


class Case:
    """One format and shape laid through the whole pool, for a number of threads."""

    def __init__(self, pool: np.ndarray, fmt: int, n: int, k: int, positions: int, threads: int) -> None:
        rng = np.random.default_rng(0)
        matrix = sample_weights(fmt, n, k, rng)
        self.fmt, self.k, self.positions, self.threads = fmt, k, positions, threads
        self.block = formats.block_bytes(fmt, k)
        copies = len(pool) // len(matrix) // threads * threads
        for copy in range(copies):
            pool[copy * len(matrix) : (copy + 1) * len(matrix)] = matrix
        self.blocks = copies * len(matrix) // self.block // threads
        self.bytes = self.blocks * self.block * threads
        self.start = pool.ctypes.data
        x = rng.standard_normal((positions, k)).astype(np.float32)
        if fmt in (formats.I8R, formats.I4G):
            q = np.zeros((positions, q8_bytes(k)), np.uint8)
            for j in range(positions):
                quantize_q8(x[j].ctypes.data, k, q[j].ctypes.data)
            x = q
        self.x = x
        self.xs = np.array([row.ctypes.data for row in x], np.int64)
        self.out = np.zeros((threads, positions, 16), np.float32)

    def read(self, thread: int) -> None:
        size = self.blocks * self.block
        stream(self.start + thread * size, size // 512 * 512)

    def product(self, thread: int) -> None:
        w = self.start + thread * self.blocks * self.block
        multiply(
            self.fmt, w, self.block, self.blocks, self.k, self.xs.ctypes.data, self.positions,
            self.out[thread].ctypes.data,
        )  # fmt: skip


def seconds(run: Callable[[int], None], threads: int, workers: ThreadPoolExecutor) -> float:
    start = time.perf_counter()
    if threads == 1:
        run(0)
    else:
        list(workers.map(run, range(threads)))
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--formats", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--positions", type=int, nargs="+", default=[1])
    parser.add_argument("--pool", type=int, default=1024, help="MiB of weights")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pool = make_pool(options.pool << 20)
    pool[:] = 1
    print(f"{isa.ISA}, pool {options.pool} MiB; GB/s of weight bytes, medians of {options.rounds} rounds")
    print("format shape        threads positions  stream  product  ratio  GFLOP/s")
    with ThreadPoolExecutor(max(options.threads)) as workers:
        for name in options.formats:
            for shape in options.shapes:
                n, k = map(int, shape.split("x"))
                for threads in options.threads:
                    for positions in options.positions:
                        case = Case(pool, NAMES[name], n, k, positions, threads)
                        reads, products = [], []
                        seconds(case.product, threads, workers)
                        for _ in range(options.rounds):
                            reads.append(seconds(case.read, threads, workers))
                            products.append(seconds(case.product, threads, workers))
                        read, product = statistics.median(reads), statistics.median(products)
                        flop = 2 * 16 * case.blocks * threads * k * positions
                        print(
                            f"{name:6} {shape:12} {threads:7} {positions:9}  {case.bytes / read / 1e9:6.1f}"
                            f"  {case.bytes / product / 1e9:7.1f}  {read / product:5.2f}  {flop / product / 1e9:7.0f}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
