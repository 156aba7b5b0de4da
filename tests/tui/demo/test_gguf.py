"""Tensors of the base model: values exact, damage named, no size believed."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri_tui.demo.gguf import BaseModel
from engine.errors import CheckpointError
from tests.oracle.gguf_file import entry, gguf, text

from .small_model import q8_0, quarters


def read(content: bytes) -> BaseModel:
    return BaseModel(memoryview(content), "test.gguf")


def one_tensor(kind: int, shape: tuple[int, ...], content: bytes) -> bytes:
    return gguf({}, {"t": (kind, shape, content)})


def test_f32() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(read(one_tensor(0, (2, 3), values.tobytes())).tensor("t"), values)


def test_q8_0() -> None:
    values = quarters(np.random.default_rng(0), 3, 64)
    assert np.array_equal(read(one_tensor(8, (3, 64), q8_0(values))).tensor("t"), values)


def test_q4_1() -> None:
    rng = np.random.default_rng(0)
    content, wanted = b"", []
    for _ in range(4):
        scale, least = np.float16(rng.normal()), np.float16(rng.normal())
        quants = rng.integers(0, 16, 32)
        content += scale.tobytes() + least.tobytes() + bytes(int(quants[i] | quants[i + 16] << 4) for i in range(16))
        wanted.append(quants.astype(np.float32) * np.float32(scale) + np.float32(least))
    assert np.array_equal(read(one_tensor(3, (2, 64), content)).tensor("t"), np.stack(wanted).reshape(2, 64))


def test_tensors_start_where_the_alignment_says() -> None:
    values = np.array([1.5], np.float32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + entry("general.alignment", 128)
    head += text("t") + struct.pack("<IQIQ", 1, 1, 0, 128)
    content = head + bytes(-len(head) % 128) + bytes(128) + values.tobytes()
    assert read(content).tensor("t") == values


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (one_tensor(0, (1 << 40, 1 << 40), b""), "ends at byte"),
        (one_tensor(0, (9,), bytes(32)), "ends at byte"),
        (one_tensor(8, (33,), bytes(99)), "whole blocks of 32"),
        (one_tensor(12, (256,), bytes(999)), "ggml type 12"),
        (gguf({}, {}), "is missing"),
    ],
)
def test_a_tensor_that_is_not_there_is_named(content: bytes, complaint: str) -> None:
    with pytest.raises(CheckpointError, match=rf"tensor 't'.*{complaint}"):
        read(content).tensor("t")


WHOLE = gguf(
    {"n": 7, "list": [1, 2, 3], "words": ["a", "bc"]},
    {"a": (0, (3, 2), bytes(24)), "b": (8, (2, 32), bytes(68)), "c": (3, (1, 32), bytes(20))},
)


@settings(max_examples=300)
@given(
    cut=st.integers(0, len(WHOLE)),
    changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4),
)
def test_no_damage_is_believed(cut: int, changes: list[tuple[int, int]]) -> None:
    content = bytearray(WHOLE[:cut] if cut % 2 else WHOLE)
    for place, value in changes:
        if place < len(content):
            content[place] = value
    tracemalloc.start()
    try:
        file = read(bytes(content))
        for name in file.tensors:
            assert file.tensor(name).dtype == np.float32
    except CheckpointError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 20
