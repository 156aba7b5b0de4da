"""The header of GGUF files: values exact, damage named, no size believed."""

from __future__ import annotations

import struct

import pytest

from engine.checkpoint.gguf import Gguf
from engine.errors import CheckpointError
from tests.oracle.gguf_file import gguf, text


def read(content: bytes) -> Gguf:
    return Gguf(memoryview(content), "test.gguf")


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_of_all_kinds(version: int) -> None:
    values = {"n": 7, "x": 0.5, "yes": True, "word": "ä\n", "list": [1, 2], "words": ["a", ""], "floats": [0.25]}
    assert read(gguf(values, {}, version)).metadata == values


def test_tensors_are_listed_slowest_dimension_first() -> None:
    file = read(gguf({}, {"a": (0, (3, 2), bytes(24)), "b": (8, (2, 32), bytes(68))}))
    assert {name: tensor.shape for name, tensor in file.tensors.items()} == {"a": (3, 2), "b": (2, 32)}
    assert (file.nbytes("a"), file.nbytes("b")) == (24, 68)
    assert file.tensors["b"].offset - file.tensors["a"].offset == 32


def test_get_checks_the_type() -> None:
    file = read(gguf({"n": 7}, {}))
    assert file.get("n", int) == 7
    for key, kind in (("n", str), ("m", int)):
        with pytest.raises(CheckpointError, match=rf"metadata '{key}'"):
            file.get(key, kind)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a GGUF file"),
        (b"PK\x03\x04", "not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(16), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "metadata of 1152921504606846976 items"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "a tensor list of"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 63) + bytes(32),
            "a text of 9223372036854775808",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 40) + bytes(9),
            "a list of",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 1 << 40) + bytes(9),
            "a list of",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1) + bytes(9),
            "unknown type 9",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 99) + bytes(9), "value type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"\xff" + bytes(12), "not UTF-8"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 5) + bytes(60), "5 dimensions"),
        (gguf({"general.alignment": 0}, {}), "general.alignment is 0"),
        (gguf({"general.alignment": "x"}, {}), "general.alignment is 'x'"),
    ],
)
def test_damage_is_named(content: bytes, complaint: str) -> None:
    with pytest.raises(CheckpointError, match=rf"test\.gguf: .*{complaint}") as caught:
        read(content)
    assert "\n" not in str(caught.value)


def test_a_tensor_listed_twice() -> None:
    content = gguf({}, {"t": (0, (2,), bytes(8)), "u": (0, (2,), bytes(8))}).replace(text("u"), text("t"))
    with pytest.raises(CheckpointError, match="listed twice"):
        read(content)
