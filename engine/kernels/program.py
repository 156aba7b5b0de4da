"""Runs a program: every thread of the team walks the same list of operations and meets the others after each.

Or after several: see `records.OP`. A barrier costs about as much as a norm, and one row has twenty of those a layer.

One call covers as much as it can: a whole token when every expert it needs is in memory. It returns early, with the
index of the operation to go on from, where Python has to act: an expert is missing, a stop was asked for, a route trace
wants to be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, from_dtype, njit

from . import (
    ops_attention,
    ops_basic,
    ops_experts,
    ops_index,
    ops_latent,
    ops_mixed_attention,
    ops_recurrent,
    ops_routing,
)
from .compiled import inlined, inner
from .pointers import i64, pointer_to
from .records import (
    ATTEND,
    ATTENTION,
    COMBINE,
    COUNTERS,
    DELTA,
    DELTA_CONVOLVE,
    DELTA_NET,
    EMBED,
    EXPERTS_DOWN,
    EXPERTS_QUANTIZE,
    EXPERTS_UP,
    GATE,
    INDEX_SELECT,
    INDEX_STORE,
    INDEXER,
    LATENT,
    LATENT_ABSORB,
    LATENT_ATTEND,
    LATENT_EXPAND,
    LATENT_STORE,
    LAYER,
    LAYER_BEGAN,
    LINEAR,
    MAX_ROWS,
    MIXED,
    MIXED_OUTPUT,
    MIXED_QUERIES,
    MIXTURE,
    NORM,
    OP,
    PAUSE,
    QUANTIZE,
    ROTATE,
    ROUTE,
    ROWS,
    SCALE,
    SCRATCH,
    SCRATCH_BYTES,
    SHORT_CONVOLVE,
    SOFT_CAP,
    STATE_CELLS,
    STOP,
    TIMESPEC,
    UNION,
    Tables,
)
from .sync import barrier, counter, nanoseconds

BOARD_LAYER = 2
"""The board's counter of the layer being computed."""

_op, _attention, _latent_record, _indexer, _mixture_record, _mixed, _delta = (
    pointer_to(from_dtype(dtype)) for dtype in (OP, ATTENTION, LATENT, INDEXER, MIXTURE, MIXED, DELTA_NET)
)

OPS, STATE, START, END, TABLES = 0, 2, 3, 4, 5


class Job:
    """What `run` is handed: int64 cells with addresses and lengths of a program's arrays, and which part to run.

    ops: array of records.OP. state: int64 [STATE_CELLS]. The arrays must outlive it.
    """

    def __init__(self, ops: npt.NDArray[Any], tables: Tables, state: npt.NDArray[np.int64]) -> None:
        arrays = [cell for table in tables for cell in (table.ctypes.data, len(table))]
        self._cells = np.array([ops.ctypes.data, len(ops), state.ctypes.data, 0, 0, *arrays], np.int64)
        self.address = self._cells.ctypes.data

    def part(self, start: int, end: int) -> int:
        """Its address, for operations start..end-1."""
        self._cells[START], self._cells[END] = start, end
        return self.address


@inlined
def _basic(op: Any, state: Any, sync: int, scratch: int, threads: int) -> None:
    if op.code == EMBED:
        ops_basic.embed(op, state, sync)
    elif op.code == NORM:
        ops_basic.norm(op, state, sync)
    elif op.code == QUANTIZE:
        ops_basic.quantize(op, state, sync)
    elif op.code == LINEAR:
        ops_basic.linear(op, state, sync, scratch, state[MAX_ROWS], threads)
    elif op.code == GATE:
        ops_basic.gate(op, state, sync)
    elif op.code == SCALE:
        ops_basic.scale(op, state, sync)
    elif op.code == SOFT_CAP:
        ops_basic.cap(op, state, sync)


@inlined
def _mixture(op: Any, m: Any, state: Any, sync: int, scratch: int, threads: int) -> None:
    if op.code == ROUTE:
        ops_routing.route(m, state, sync, scratch)
    elif op.code == EXPERTS_UP:
        ops_experts.experts_up(m, state, sync, scratch, state[MAX_ROWS], threads)
    elif op.code == EXPERTS_QUANTIZE:
        ops_experts.experts_quantize(m, state, sync)
    elif op.code == EXPERTS_DOWN:
        ops_experts.experts_down(m, state, sync, scratch, state[MAX_ROWS], threads)
    elif op.code == COMBINE:
        ops_experts.combine(m, state, sync, scratch)


@inlined
def _latent(op: Any, tables: Any, state: Any, sync: int, scratch: int, threads: int) -> None:
    if op.code == LATENT_STORE:
        ops_latent.store(tables.latents[op.index], state, sync)
    elif op.code == LATENT_ABSORB:
        ops_latent.absorb(tables.latents[op.index], state, sync, scratch, state[MAX_ROWS], threads)
    elif op.code == LATENT_ATTEND:
        ops_latent.attend(tables.latents[op.index], state, sync, scratch, threads)
    elif op.code == LATENT_EXPAND:
        ops_latent.expand(tables.latents[op.index], state, sync, scratch, state[MAX_ROWS], threads)
    elif op.code == INDEX_STORE:
        ops_index.store(tables.indexers[op.index], state, sync)
    elif op.code == INDEX_SELECT:
        ops_index.select(tables.indexers[op.index], state, sync, scratch, threads)


@inlined
def _recurrent(op: Any, a: Any, state: Any, sync: int, scratch: int) -> None:
    if op.code == DELTA_CONVOLVE:
        ops_recurrent.delta_convolve(a, state, sync)
    elif op.code == DELTA:
        ops_recurrent.delta(a, state, sync, scratch)
    else:
        ops_recurrent.short_convolve(a, state, sync)


@inlined
def _operate(op: Any, tables: Any, state: Any, sync: int, scratch: int, threads: int, number: int) -> None:
    if op.code <= GATE or op.code == SCALE or op.code == SOFT_CAP:
        _basic(op, state, sync, scratch, threads)
    elif op.code == ROTATE:
        ops_attention.rotate(tables.attentions[op.index], state, sync)
    elif op.code == ATTEND:
        ops_attention.attend(tables.attentions[op.index], state, sync, scratch)
    elif LATENT_STORE <= op.code <= INDEX_SELECT:
        _latent(op, tables, state, sync, scratch, threads)
    elif op.code == MIXED_QUERIES:
        ops_mixed_attention.mixed_queries(tables.mixed[op.index], state, sync, scratch)
    elif op.code == MIXED_OUTPUT:
        ops_mixed_attention.mixed_output(tables.mixed[op.index], state, sync, scratch)
    elif DELTA_CONVOLVE <= op.code <= SHORT_CONVOLVE:
        _recurrent(op, tables.deltas[op.index], state, sync, scratch)
    elif op.code == UNION:
        if number == 0:
            ops_routing.union(tables.mixtures[op.index], state)
    else:
        _mixture(op, tables.mixtures[op.index], state, sync, scratch, threads)


@inner
def _walk(ops: Any, tables: Any, state: Any, start: int, end: int, sync: int, threads: int, number: int) -> int:
    """Run operations start..end-1; returns the index after the last one run.

    ops: array of records.OP; tables: records.Tables; state: int64 [STATE_CELLS].
    """
    scratch = state[SCRATCH] + number * state[SCRATCH_BYTES]
    counters, timespec = i64(state[COUNTERS]), state[TIMESPEC]
    before = nanoseconds(timespec) if number == 0 and start < end else 0
    single = state[ROWS] == 1
    since, asked = 0, False  # operations since the last barrier; whether one of them may have asked for a pause
    for i in range(start, end):
        op = ops[i]
        if op.code == LAYER:
            if number == 0:
                counters[BOARD_LAYER] = op.index
                i64(state[LAYER_BEGAN])[op.index] = before
                state[PAUSE] = state[STOP]
        elif number == 0 or not single or op.alone == 0:
            _operate(op, tables, state, counter(sync, since), scratch, threads, number)
        asked = asked or op.code == UNION or op.code == LAYER
        # The last operation ends the run, and the first lets a thread that is late read why the run before paused.
        joined = single and op.joined != 0 and start < i < end - 1
        if joined:
            since += 1
        else:
            barrier(sync, threads)
            since = 0
        if number == 0:
            now = nanoseconds(timespec)
            counters[op.clock] += now - before
            before = now
        if asked and not joined:
            if state[PAUSE] != 0:
                return i + 1
            asked = False
    return end


@njit(cache=True, nogil=True)  # not `native`: arrays are made here
def run(job: int, sync: int, threads: int, number: int) -> int:
    """Run a part of a program, as a team's `entry`; job: address of what `Job` holds.

    Returns the index after the last operation run: the part's end, or less after a pause.
    """
    cells = i64(job)
    tables = Tables(
        carray(_attention(cells[TABLES]), cells[TABLES + 1]),
        carray(_latent_record(cells[TABLES + 2]), cells[TABLES + 3]),
        carray(_indexer(cells[TABLES + 4]), cells[TABLES + 5]),
        carray(_mixture_record(cells[TABLES + 6]), cells[TABLES + 7]),
        carray(_mixed(cells[TABLES + 8]), cells[TABLES + 9]),
        carray(_delta(cells[TABLES + 10]), cells[TABLES + 11]),
    )
    ops, state = carray(_op(cells[OPS]), cells[OPS + 1]), carray(i64(cells[STATE]), STATE_CELLS)
    return _walk(ops, tables, state, cells[START], cells[END], sync, threads, number)
