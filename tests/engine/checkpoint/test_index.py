"""Headers from strangers: whatever the bytes are, they are understood or refused in one line, and cost no memory."""

from __future__ import annotations

import json
import os
import tracemalloc
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.checkpoint.index import ITEM_BYTES, Checkpoint, TensorEntry, read_header, read_json
from engine.errors import CheckpointError
from tests.oracle.safetensors_file import Stored, header_of, with_header, write

TENSORS = {
    "a.weight": Stored("F32", (2, 3), bytes(range(24))),
    "b.weight": Stored("BF16", (5,), bytes(range(10))),
    "empty": Stored("U8", (0, 4), b""),
    "scalar": Stored("F16", (), b"\0<"),
}
DATA = b"".join(tensor.data for tensor in TENSORS.values())

hostile = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""The folder is one for all examples, each of which writes its file anew."""


def refusal(file: Path) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(CheckpointError) as error:
        read_header(file)
    text = str(error.value)
    assert text.isprintable(), text
    assert file.name in text
    assert len(text) < 1000 + len(str(file))
    return text


def understood_or_refused(file: Path) -> list[TensorEntry]:
    """The entries, which then lie within the file, or none."""
    refused = ""
    tracemalloc.start()
    try:
        _, entries = read_header(file)
    except CheckpointError as error:
        entries, refused = [], str(error)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.isprintable()
    size = file.stat().st_size
    assert peak < 200_000 + 200 * size
    for entry in entries:
        assert 8 <= entry.offset <= entry.offset + entry.nbytes <= size
        assert entry.nbytes == prod(entry.shape) * ITEM_BYTES[entry.dtype]
    return entries


def header_file(path: Path, header: Any, data: bytes = DATA) -> Path:
    path.write_bytes(with_header(json.dumps(header).encode(), data))
    return path


def test_a_good_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write(file, TENSORS)
    metadata, entries = read_header(file)
    assert metadata == {"format": "pt"}
    assert [entry.name for entry in entries] == list(TENSORS)
    content = file.read_bytes()
    for entry in entries:
        tensor = TENSORS[entry.name]
        assert (entry.file, entry.dtype, entry.shape) == (file, tensor.dtype, tensor.shape)
        assert content[entry.offset : entry.offset + entry.nbytes] == tensor.data


@hostile
@given(st.binary(max_size=300))
@example(b"")
@example(b"\0" * 8)
@example(b"\xff" * 64)
@example((2).to_bytes(8, "little") + b"{}")
@example((2).to_bytes(8, "little") + b"[]")
@example((4).to_bytes(8, "little") + b"null")
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "any.safetensors"
    file.write_bytes(content)
    assert understood_or_refused(file) == []


@hostile
@given(st.data())
def test_a_good_file_with_bytes_changed(tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "changed.safetensors"
    write(file, TENSORS)
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["set", "insert", "delete", "cut"])):
            case "set":
                content[at] = data.draw(st.integers(0, 255))
            case "insert":
                content[at:at] = data.draw(st.binary(max_size=6))
            case "delete":
                del content[at]
            case _:
                del content[at:]
        content = content or bytearray(b"\0")
    file.write_bytes(content)
    understood_or_refused(file)


numbers = st.integers(-2, 40) | st.sampled_from([1 << 31, 1 << 59, 1 << 60, 1 << 64, 1 << 4000, -(1 << 70)])
names = st.text("ab._\x1b\n\u202e\xe9\U0001f426", max_size=8)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*ITEM_BYTES, "F4", ""]) | anything,
        "shape": st.lists(numbers, max_size=12) | anything,
        "data_offsets": st.lists(numbers, min_size=2, max_size=2) | anything,
    },
)


@hostile
@given(st.dictionaries(names | st.just("__metadata__"), entries | anything, max_size=4) | anything)
@example({"a": {"dtype": "F32", "shape": [1 << 59, 1 << 59], "data_offsets": [0, 1 << 59]}})
@example({"a": {"dtype": "U8", "shape": [0, 1 << 59], "data_offsets": [0, 0]}})
@example({"a": {"dtype": "F32", "shape": "2", "data_offsets": "08"}})
@example({"a": {"dtype": "F32", "shape": [True], "data_offsets": [False, 4]}})
@example({"a\x1b[2J": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
@example({"\ud800": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
def test_any_header(tmp_path: Path, header: Any) -> None:
    understood_or_refused(header_file(tmp_path / "header.safetensors", header))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"dtype": "F4"}, "tensor a.weight has the unknown dtype F4"),
        ({"dtype": "\x1b[31m"}, r"unknown dtype '\\x1b[31m'"),
        ({"dtype": 3}, "the header's entry of tensor a.weight is broken"),
        ({"shape": [2, -3]}, "the header's entry of tensor a.weight is broken"),
        ({"shape": [2.0, 3]}, "the header's entry of tensor a.weight is broken"),
        ({"shape": [1] * 100_000}, "the header's entry of tensor a.weight is broken"),
        ({"shape": [2, 4]}, "tensor a.weight has 24 bytes, its shape [2, 4] in F32 needs 32"),
        ({"dtype": "F16"}, "tensor a.weight has 24 bytes, its shape [2, 3] in F16 needs 12"),
        ({"data_offsets": [24, 0]}, "has -24 bytes"),
        ({"data_offsets": [0]}, "the header's entry of tensor a.weight is broken"),
        ({"data_offsets": [10_000, 10_024]}, "cut short"),
        ({"data_offsets": [4, 28]}, "tensors a.weight and b.weight claim the same bytes"),
    ],
)
def test_broken_entries(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    header = header_of(TENSORS)
    header["a.weight"].update(change)
    text = refusal(header_file(tmp_path / "broken.safetensors", header))
    assert complaint.replace("\\\\", "\\") in text


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    text = json.dumps(header_of(TENSORS)).replace("b.weight", "a.weight")
    file = tmp_path / "twice.safetensors"
    file.write_bytes(with_header(text.encode(), DATA))
    assert "distinct names" in refusal(file)


@pytest.mark.parametrize("name", ["a\nb", "\x1b]0;title\x07", "\u202e", "\ud800", "x" * 100_000])
def test_names_that_cannot_be_shown(tmp_path: Path, name: str) -> None:
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    assert "entry of tensor" in refusal(header_file(tmp_path / "name.safetensors", header))


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_file_of_hardly_any_bytes(tmp_path: Path, size: int) -> None:
    file = tmp_path / "tiny.safetensors"
    file.write_bytes(b"x" * size)
    assert f"only {size} bytes" in refusal(file)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    write(whole, TENSORS)
    content = whole.read_bytes()
    for size in range(len(content)):
        cut.write_bytes(content[:size])
        assert "download it again" in refusal(cut)


def test_a_pointer_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n")
    assert "git lfs pull" in refusal(file)


def test_what_is_no_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "link.safetensors").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert "not an ordinary file" in refusal(tmp_path / "folder.safetensors")
    assert "cannot be read" in refusal(tmp_path / "link.safetensors")
    # Opening a pipe that nobody writes to would wait for ever.
    assert "not an ordinary file" in refusal(tmp_path / "pipe.safetensors")
    with pytest.raises(CheckpointError, match="not an ordinary file"):
        read_json(tmp_path / "pipe.safetensors")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\xfd", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
        (b"[]", "holds no JSON object"),
        (b"3", "holds no JSON object"),
    ],
)
def test_broken_json(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=complaint) as error:
        read_json(tmp_path / "config.json")
    assert "config.json" in str(error.value)


def test_an_absurdly_large_config(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CheckpointError, match="too large"):
        read_json(tmp_path / "config.json")


# Folders


def open_folder(folder: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        Checkpoint.open(folder)
    assert str(error.value).isprintable()
    return str(error.value)


def sharded(folder: Path, shards: int) -> Path:
    """A folder of shards with one tensor each."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    weight_map = {}
    for shard in range(1, shards + 1):
        name = f"model-{shard:05}-of-{shards:05}.safetensors"
        write(folder / name, {f"t{shard}": TENSORS["b.weight"]})
        weight_map[f"t{shard}"] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_all_shards_of_a_folder(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(sharded(tmp_path / "model", 7))
    assert sorted(checkpoint.tensors) == [f"t{n}" for n in range(1, 8)]


def test_the_missing_shard_is_named(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "model", 7)
    (folder / "model-00003-of-00007.safetensors").unlink()
    assert "1 of 7 shards missing: model-00003-of-00007.safetensors;" in open_folder(folder)
    for shard in (1, 4, 5, 6):
        (folder / f"model-{shard:05}-of-00007.safetensors").unlink()
    assert "5 of 7 shards missing" in open_folder(folder)
    assert "model-00004-of-00007.safetensors and 2 more;" in open_folder(folder)


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "model", 2)
    (folder / "model.safetensors.index.json").unlink()
    write(folder / "left-over.safetensors", {"t2": TENSORS["b.weight"]})
    text = open_folder(folder)
    assert "tensor t2" in text
    assert "left-over.safetensors" in text
    assert "model-00002-of-00002.safetensors" in text


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": 3}, {"weight_map": {"a": 3}}, {"weight_map": {"a": "../../etc/passwd"}}]
)
def test_a_broken_index(tmp_path: Path, index: dict[str, Any]) -> None:
    folder = sharded(tmp_path / "model", 1)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    text = open_folder(folder)
    assert "weight_map" in text or "shards missing: ../../etc/passwd" in text


def test_folders_without_a_model(tmp_path: Path) -> None:
    assert "no such model folder" in open_folder(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    assert "no such model folder" in open_folder(tmp_path / "file")
    assert "config.json: missing" in open_folder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "no *.safetensors files" in open_folder(tmp_path)
