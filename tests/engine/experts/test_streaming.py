"""Placement, streaming and pins together, over a reader that is as slow and unreliable as a test wants."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.board import Board, Counter, Tier
from engine.errors import EngineError, ReadError
from engine.experts.ahead import Ahead
from engine.experts.pilot import Pilot
from engine.experts.placement import EMPTY, Choices, Placement
from engine.experts.policies import POLICIES
from engine.experts.reader import Loaded
from engine.experts.source import ExpertRead
from engine.experts.streaming import Streamer

LAYERS, EXPERTS, SLOT_BYTES, TOP_K = 2, 6, 64, 3


class Disk:
    """Stands for a ReaderPool. Reads end in any order, when they are waited for; `broken` experts cannot be read."""

    def __init__(self, seed: int) -> None:
        self.count = 2
        self.broken: set[tuple[int, int]] = set()
        self._random = random.Random(seed)
        self._under_way: list[tuple[int, ExpertRead, memoryview]] = []
        self._aside: deque[tuple[ExpertRead, memoryview, Callable[[EngineError | None], None]]] = deque()

    def fetch(self, ticket: int, reads: tuple[ExpertRead, ...], slot: memoryview) -> None:
        self._under_way.append((ticket, reads[0], slot))

    def fetch_aside(
        self, reads: tuple[ExpertRead, ...], slot: memoryview, done: Callable[[EngineError | None], None]
    ) -> None:
        self._aside.append((reads[0], slot, done))

    def next_loaded(self, wait: bool) -> Loaded | None:
        if not wait and self._random.random() < 0.5:
            return None
        if not self._under_way:
            assert not wait, "waiting for nothing"
            return None
        ticket, read, slot = self._under_way.pop(self._random.randrange(len(self._under_way)))
        return Loaded(ticket, self._read(read, slot))

    def serve_aside(self, reads: int) -> None:
        """Let so many background reads end."""
        for _ in range(reads):
            if self._aside:
                read, slot, done = self._aside.popleft()
                done(self._read(read, slot))

    def filling(self) -> list[memoryview]:
        """The slots that background reads are about to fill."""
        return [slot for _, slot, _ in self._aside]

    def _read(self, read: ExpertRead, slot: memoryview) -> EngineError | None:
        layer, expert = divmod(read.offset, EXPERTS)
        if (layer, expert) in self.broken:
            return ReadError(f"expert {expert} of layer {layer} cannot be read")
        slot[:2] = bytes((layer, expert))
        return None


class Watched(Ahead):
    """Where the engine would wait for a background read, the read ends."""

    def __init__(self, disk: Disk, *parts: Any) -> None:
        super().__init__(*parts)
        self._disk = disk

    def _wait(self, reading: tuple[int, int]) -> None:
        self._disk.serve_aside(1)


class House:
    """A placement with all that moves experts in and out, and the rules that hold whatever happens."""

    def __init__(self, cap: int, pins: int, working: int, policy: str, seed: int) -> None:
        self.cap = cap
        self.board = Board(LAYERS, EXPERTS)
        slots = min(LAYERS * EXPERTS, pins + cap * LAYERS + working)
        self.placement = Placement(self.board, slots, SLOT_BYTES, cap, TOP_K, policy)
        self.disk = Disk(seed)
        reads = {
            (layer, expert): (ExpertRead(Path("model"), layer * EXPERTS + expert, 2, 0),)
            for layer in range(LAYERS)
            for expert in range(EXPERTS)
        }
        source: Any = SimpleNamespace(reads=reads, expert_bytes=2)
        readers: Any = self.disk
        self.ahead = Watched(self.disk, self.placement, readers, source, self.board)
        self.pilot = Pilot(self.placement, readers, source, self.board)
        self._streamer = Streamer(source, self.placement, readers, self.board, self.ahead, self.pilot)

    def forward(self, layer: int, rows: list[list[int]]) -> list[int]:
        """Run a layer; returns the experts in the order in which they were computed."""
        experts = np.array(sorted(set(chain(*rows))))
        ids = np.zeros((len(rows), TOP_K), np.int32)
        for row, chosen in enumerate(rows):
            ids[row, : len(chosen)] = chosen
        choices = Choices(ids, np.array([len(chosen) for chosen in rows], np.int32))
        computed: list[int] = []

        def compute(jobs: list[int]) -> None:
            for expert in experts[jobs].tolist():
                slot = int(self.placement.slot_of[layer, expert])
                assert bytes(self.placement.slot(slot)[:2]) == bytes((layer, expert))
                computed.append(expert)

        self._streamer.run(layer, experts, choices, Counter.HITS_PIN, compute)
        return computed

    def check(self) -> None:
        """No slot is lost or used twice; no cache is too large; the board says what is so."""
        placement = self.placement
        held = placement.slot_of[placement.slot_of != EMPTY].tolist()
        reserved = [(layer, expert) for layer, those in enumerate(placement.reserved) for expert in those]
        slots = [*held, *(placement.reserved[layer][expert] for layer, expert in reserved), *placement._free]
        filling = [self._number(slot) for slot in self.disk.filling()]
        assert sorted([*slots, *filling]) == list(range(placement.slots))
        cached = (placement.slot_of != EMPTY) & ~placement.pinned
        coming = [] if self.ahead._reading is None else [self.ahead._reading]
        assert len(coming) == len(filling)
        for layer, expert in [*reserved, *coming]:
            assert placement.slot_of[layer, expert] == EMPTY
            cached[layer, expert] |= not placement.pinned[layer, expert]
        assert cached.sum(axis=1).max() <= self.cap
        tiers = np.where(placement.slot_of == EMPTY, Tier.DISK, np.where(placement.pinned, Tier.PIN, Tier.CACHE))
        for layer, expert in coming:
            tiers[layer, expert] = Tier.WORKING
        assert (self.board.tier == tiers).all()

    def _number(self, slot: memoryview) -> int:
        return (np.frombuffer(slot, np.uint8).ctypes.data - self.placement.arena.address) // SLOT_BYTES


token = st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=TOP_K, unique=True)
step = st.one_of(
    st.tuples(st.just("forward"), st.integers(0, LAYERS - 1), st.lists(token, min_size=1, max_size=4)),
    st.tuples(st.just("pins"), st.permutations(range(LAYERS * EXPERTS)), st.integers(0, 4)),
    st.tuples(st.just("fill"), st.permutations(range(LAYERS * EXPERTS)), st.integers(0, 4)),
    st.tuples(st.just("background"), st.integers(0, 3), st.none()),
    st.tuples(st.just("stop"), st.none(), st.none()),
    st.tuples(st.just("swap"), st.integers(0, 99), st.integers(0, EXPERTS - 1)),
    st.tuples(st.just("break"), st.integers(0, LAYERS - 1), st.integers(0, EXPERTS - 1)),
    st.tuples(st.just("mend"), st.none(), st.none()),
    st.tuples(st.just("drop"), st.none(), st.none()),
)


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(step, max_size=25),
    cap=st.integers(1, EXPERTS),
    working=st.integers(1, TOP_K),
    policy=st.sampled_from(sorted(POLICIES)),
    seed=st.integers(0, 1000),
)
def test_whatever_happens_the_house_stands(
    steps: list[tuple[Any, ...]], cap: int, working: int, policy: str, seed: int
) -> None:
    pin_slots = 4
    house = House(cap, pin_slots, working, policy, seed)
    for what, first, second in steps:
        if what == "forward":
            needed = set(chain(*second))
            try:
                computed = house.forward(first, second)
            except ReadError:
                assert any((first, expert) in house.disk.broken for expert in needed)
            else:
                assert sorted(computed) == sorted(needed)
        elif what == "pins":
            house.ahead.pin([divmod(number, EXPERTS) for number in first[:pin_slots]])
            house.disk.serve_aside(second)
        elif what == "fill":
            if not any(house.placement.reserved) and not house.disk.filling():
                house.ahead.fill([divmod(number, EXPERTS) for number in first])
            house.disk.serve_aside(second)
        elif what == "background":
            house.disk.serve_aside(first)
        elif what == "stop":
            house.ahead.stop()
        elif what == "swap":
            pinned = np.argwhere(house.placement.pinned)
            if len(pinned):
                layer, out = pinned[first % len(pinned)].tolist()
                if not house.placement.pinned[layer, second]:
                    try:
                        house.ahead.swap(layer, out, second)
                    except ReadError:
                        assert (layer, second) in house.disk.broken
        elif what == "break":
            house.disk.broken.add((first, second))
        elif what == "mend":
            house.disk.broken.clear()
        else:
            house.placement.drop()
        house.check()


@pytest.mark.parametrize("cap", [1, 2, EXPERTS])
def test_a_forward_that_needs_everything_works_with_one_slot_to_spare(cap: int) -> None:
    house = House(cap, pins=0, working=1, policy="lru", seed=3)
    rows = [[0, 1, 2], [3, 4, 5], [0, 3, 5]]
    for _ in range(3):
        assert sorted(house.forward(1, rows)) == list(range(EXPERTS))
        house.check()


def test_hits_are_computed_before_what_is_read() -> None:
    house = House(cap=3, pins=0, working=2, policy="lru", seed=0)
    house.forward(0, [[4, 5]])
    assert house.forward(0, [[1, 4]]) == [4, 1]
    counters = house.board.counters
    assert counters[[Counter.HITS_PIN, Counter.HITS_CACHE, Counter.HITS_DISK]].tolist() == [0, 1, 3]
    assert counters[Counter.BYTES_READ] == 2 * 3


def test_pinned_experts_load_in_the_background_in_order_of_heat() -> None:
    house = House(cap=1, pins=3, working=1, policy="lru", seed=0)
    house.ahead.pin([(1, 5), (0, 2), (1, 0)])
    order = []
    for _ in range(3):
        house.disk.serve_aside(1)
        order.append([tuple(where) for where in np.argwhere(house.board.tier == Tier.PIN).tolist()])
    assert order == [[(1, 5)], [(0, 2), (1, 5)], [(0, 2), (1, 0), (1, 5)]]
    assert house.forward(1, [[0, 5]]) == [0, 5]
    assert house.board.counters[Counter.HITS_PIN] == 2
    house.check()


def test_what_a_forward_needs_first_is_read_by_the_forward() -> None:
    """Its slot is the one that was set aside; the background goes on with the next."""
    house = House(cap=1, pins=2, working=1, policy="lru", seed=0)
    house.ahead.pin([(0, 1), (0, 2)])
    house.forward(0, [[2, 3]])
    assert house.board.tier[0].tolist() == [Tier.DISK, Tier.WORKING, Tier.PIN, Tier.CACHE, Tier.DISK, Tier.DISK]
    house.disk.serve_aside(9)
    assert house.board.tier[0, 1] == Tier.PIN
    house.check()


def test_another_profile_reads_only_what_is_missing() -> None:
    house = House(cap=2, pins=2, working=1, policy="lru", seed=0)
    house.ahead.pin([(0, 1), (1, 1)])
    house.disk.serve_aside(9)
    house.forward(0, [[4]])
    house.ahead.pin([(0, 4), (0, 1)])
    assert not house.disk._aside
    assert np.argwhere(house.board.tier == Tier.PIN).tolist() == [[0, 1], [0, 4]]
    house.check()


def test_a_pin_that_cannot_be_read_ends_the_loading_and_says_so() -> None:
    house = House(cap=1, pins=2, working=1, policy="lru", seed=0)
    house.disk.broken.add((0, 1))
    house.ahead.pin([(0, 1), (0, 2)])
    house.disk.serve_aside(9)
    assert house.ahead.failed is not None
    assert "expert 1 of layer 0" in house.ahead.failed
    house.disk.broken.clear()
    house.forward(0, [[1, 2]])
    assert house.board.tier[0].tolist()[1:3] == [Tier.PIN, Tier.PIN]
    house.check()


def cached(house: House, layer: int) -> list[int]:
    return np.flatnonzero(house.board.tier[layer] == Tier.CACHE).tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_cache_is_filled_and_what_is_not_used_leaves_first(policy: str) -> None:
    """The least likely before the others."""
    house = House(cap=3, pins=0, working=2, policy=policy, seed=0)
    house.ahead.fill([(0, 4), (1, 5), (0, 1), (0, 3), (0, 2)])
    house.disk.serve_aside(9)
    assert (cached(house, 0), cached(house, 1)) == ([1, 3, 4], [5])
    house.forward(0, [[4]])
    assert house.board.counters[[Counter.HITS_CACHE, Counter.HITS_DISK]].tolist() == [1, 0]
    house.forward(0, [[0]])
    assert cached(house, 0) == [0, 1, 4]
    house.forward(0, [[5]])
    assert cached(house, 0) == [0, 4, 5]


def test_room_that_a_forward_needs_is_not_kept_for_what_may_come() -> None:
    house = House(cap=2, pins=0, working=1, policy="lru", seed=0)
    house.ahead.fill([(0, 0), (0, 1), (1, 0), (1, 1)])
    assert sorted(house.forward(1, [[3, 4]])) == [3, 4]
    house.check()
    house.disk.serve_aside(9)
    assert (cached(house, 0), cached(house, 1)) == ([0, 1], [3, 4])


def test_stopping_frees_what_was_set_aside() -> None:
    house = House(cap=2, pins=0, working=1, policy="lru", seed=0)
    house.ahead.fill([(0, 0), (0, 1), (1, 0)])
    house.ahead.stop()
    assert not any(house.placement.reserved)
    assert not house.disk.filling()
    house.check()
