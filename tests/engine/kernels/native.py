"""Compiles what the emitters write for any instruction set, without numba, and calls it through ctypes."""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from engine.kernels import activations, isa, planes, quantize, rounding
from engine.kernels.formats import BF16, F16, F32, I4G, I4G64, I4G128, I8R, PACKED, TAKES_FLOATS, takes
from engine.kernels.inputs import input_bytes, write_record
from engine.kernels.ir import FLOAT, LONG, VOID, function
from engine.kernels.packing import pack, unpack
from engine.kernels.products import write_product
from engine.kernels.quantize import q8_bytes

FORMATS = {"f32": F32, "f16": F16, "bf16": BF16, "i8r": I8R, "i4g": I4G, "i4g64": I4G64, "i4g128": I4G128}
LEVELS = isa.available(isa.FEATURES)
FUSED = [level for level in LEVELS if isa.target(level, isa.FEATURES).fma]

PLAIN_CPU = {"avx2": "haswell", "generic": "x86-64"}
"""Processors that have a level and nothing better: the code of that level must need no more."""


def write_products(target: isa.Target, formats: Iterable[int]) -> ir.Module:
    """A module with the products of some formats as external functions."""
    module = ir.Module()
    for fmt in formats:
        write_product(module, target, fmt).linkage = "external"
    return module


def write_all(target: isa.Target) -> ir.Module:
    """A module with every kernel as an external function."""
    module = write_products(target, FORMATS.values())
    functions = [
        function(module, target, "quantize_q8", 3, VOID, quantize.write_quantize),
        function(module, target, "quantize_planes", 3, VOID, planes.write_planes),
        function(module, target, "silu_mul", 4, VOID, activations.write_silu_mul),
        function(module, target, "gelu_mul", 4, VOID, activations.write_gelu_mul),
        function(module, target, "group_peaks", 4, VOID, rounding.write_group_peaks),
        function(module, target, "round_groups", 7, VOID, rounding.write_round_groups),
        function(module, target, "exp_sub_sum", [LONG, LONG, FLOAT], FLOAT, activations.write_exp_sub_sum),
    ]
    for written in functions:
        written.linkage = "external"
    return module


def machine(triple: str, cpu: str, features: str, jit: bool = True) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    model = "jitdefault" if jit else "default"
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=2, codemodel=model, jit=jit)


def optimised(module: ir.Module, tm: llvm.TargetMachine) -> llvm.ModuleRef:
    module.triple = tm.triple
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(parsed, builder)
    return parsed


class Kernels:
    """The kernels of one level, compiled for a processor that has no better one."""

    def __init__(self, level: str) -> None:
        x86 = llvm.get_process_triple().startswith("x86_64")
        cpu = PLAIN_CPU.get(level) if x86 else None
        features = "" if cpu else llvm.get_host_cpu_features().flatten()
        tm = machine(llvm.get_process_triple(), cpu or llvm.get_host_cpu_name(), features)
        self._engine = llvm.create_mcjit_compiler(optimised(write_all(isa.target(level, isa.FEATURES)), tm), tm)
        self._engine.finalize_object()
        self.quantize_q8 = self._function("quantize_q8", 3)
        self.quantize_planes = self._function("quantize_planes", 3)
        self.silu_mul = self._function("silu_mul", 4)
        self.gelu_mul = self._function("gelu_mul", 4)
        self._products = {fmt: self._function(f"colibri_product_{fmt}", 6) for fmt in FORMATS.values()}

    def _function(self, name: str, arguments: int):
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)
        return kind(self._engine.get_function_address(name))

    def product16(self, fmt: int, w: int, rows: int, k: int, xs: int, s: int, out: int) -> None:
        self._products[fmt](w, rows, k, xs, s, out)


@cache
def kernels(level: str) -> Kernels:
    return Kernels(level)


def store(fmt: int, w: np.ndarray, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 [n, k] as the bytes of a format, `shift` bytes off a 64-byte boundary, and the values they stand for."""
    n, k = w.shape
    if fmt in PACKED:
        stored = pack(fmt, w)
        values = unpack(fmt, stored, n, k)
    elif fmt == BF16:
        stored = (w.view(np.uint32) >> 16).astype(np.uint16)
        values = (stored.astype(np.uint32) << 16).view(np.float32)
    else:
        stored = w.astype(np.float16 if fmt == F16 else np.float32)
        values = stored.astype(np.float32)
    flat = stored.reshape(-1).view(np.uint8)
    memory = np.zeros(len(flat) + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    memory[start : start + len(flat)] = flat
    return memory[start : start + len(flat)], values


def records(quantize_q8, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q8 records of float32 [s, k], uint8 [s, q8_bytes], and the values they stand for."""
    s, k = x.shape
    q = np.full((s, q8_bytes(k)), 0xAA, np.uint8)
    for j in range(s):
        quantize_q8(x[j].ctypes.data, k, q[j].ctypes.data)
    groups = q.reshape(s, -1, 48)
    scales = np.ascontiguousarray(groups[:, :, 32:36]).view(np.float32)
    values = groups[:, :, :32].view(np.int8) * scales
    return q, values.reshape(s, -1)[:, :k]


def given(fmt: int, x: np.ndarray) -> np.ndarray:
    """Activations float32 [s, k] as products with a row-major format take them."""
    if takes(fmt) == TAKES_FLOATS:
        return x
    s, k = x.shape
    records = np.full((s, input_bytes(fmt, k)), 0xAA, np.uint8)
    for j in range(s):
        write_record(fmt, x[j].ctypes.data, k, records[j].ctypes.data)
    return records


def addresses(rows: np.ndarray) -> np.ndarray:
    return np.array([row.ctypes.data for row in rows], np.int64)


def guarded(size: int) -> tuple[mmap.mmap, int]:
    """Memory whose last `size` bytes end at a page that cannot be touched; returns it and their address."""
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + pages * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    return memory, start + pages * mmap.PAGESIZE - size


ARM = {"aarch64-unknown-linux-gnu": "neoverse-n1", "arm64-apple-macosx13": "apple-m1"}


def assembly(module: ir.Module, triple: str, cpu: str) -> str:
    tm = machine(triple, cpu, "", jit=False)
    return tm.emit_assembly(optimised(module, tm))


def library_calls(text: str) -> set[str]:
    """Functions that are called but not part of the code."""
    called = re.findall(r"^\s(?:call|callq|bl)\s+([A-Za-z_]\w*)", text, re.MULTILINE)
    return {name for name in called if not re.search(rf"^{name}:", text, re.MULTILINE)}
