import numpy as np
import pytest

from colibri_tui.telemetry import Reads, Telemetry, fired_now, reads_of, resident_share
from engine.board import Board, Counter, Foreseer, Phase, Tier
from engine.events import Hits, Turn


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def board() -> Board:
    return Board(4, 8)


def test_layers_without_a_router_are_left_out(board):
    board.heat[:, 0] = [1, 2, 3, 4]
    sample = Telemetry(board, [1, 3]).sample(live=False)
    assert sample.layers == (1, 3)
    assert sample.heat[:, 0].tolist() == [2, 4]


def test_layer_numbers_outside_the_board_are_ignored(board):
    assert Telemetry(board, [-1, 2, 9]).sample(live=False).layers == (2,)


def test_a_sample_does_not_change_when_the_board_does(board):
    sample = Telemetry(board, range(4)).sample(live=True)
    board.heat += 1
    board.tier[:] = Tier.PIN
    assert not sample.heat.any()
    assert (sample.tier == Tier.DISK).all()


def test_experts_fire_in_this_forward_or_where_it_has_not_been_in_the_last(board):
    board.last_use[:] = [
        [9, 8, 0, 7, 9, 0, 0, 0],
        [8, 7, 8, 0, 0, 0, 0, 0],
        [5, 0, 0, 0, 0, 0, 0, 0],
        [0] * 8,
    ]
    fired = fired_now(board.last_use, clock=9)
    assert [np.flatnonzero(row).tolist() for row in fired] == [[0, 4], [0, 2], [], []]


def test_nothing_fires_between_turns(board):
    board.last_use[:] = 1
    board.counters[Counter.CLOCK] = 1
    assert Telemetry(board, range(4)).sample(live=True).fired.all()
    assert not Telemetry(board, range(4)).sample(live=False).fired.any()


def test_resident_share_weighs_experts_by_use():
    heat = np.array([[6, 3, 1, 0], [0, 0, 0, 0]], np.uint32)
    tier = np.array([[Tier.PIN, Tier.DISK, Tier.WORKING, Tier.CACHE]] * 2, np.uint8)
    share = resident_share(heat, tier)
    assert share[0] == pytest.approx(0.7)
    assert np.isnan(share[1])


def test_a_turn_is_counted_from_its_beginning(board):
    counters = board.counters
    counters[Counter.HITS_PIN : Counter.HITS_DISK + 1] = [10, 20, 30]
    counters[Counter.PREFILL_PIN : Counter.PREFILL_DISK + 1] = [1, 2, 3]
    counters[Counter.BYTES_READ] = 500
    telemetry = Telemetry(board, range(4))
    telemetry.begin_turn()
    counters[Counter.HITS_PIN : Counter.HITS_DISK + 1] += [5, 4, 1]
    counters[Counter.PREFILL_DISK] += 7
    counters[Counter.BYTES_READ] += 80
    sample = telemetry.sample(live=True)
    assert sample.turn == Reads(Hits(5, 4, 1), Hits(0, 0, 7), 80)
    assert sample.turn.total == Hits(5, 4, 8)
    assert sample.ever == Reads(Hits(15, 24, 31), Hits(1, 2, 10), 580)


def test_speed_and_reads_per_token_count_from_the_first_token(board):
    clock, counters = Clock(), board.counters
    telemetry = Telemetry(board, range(4), clock)
    telemetry.begin_turn()
    counters[Counter.BYTES_READ] += 9_000_000  # the prompt
    assert telemetry.sample(live=True).tok_s is None
    counters[Counter.TOKENS] += 1
    first = telemetry.sample(live=True)
    assert (first.tok_s, first.turn.per_token) == (None, None)
    counters[Counter.TOKENS] += 1
    counters[Counter.BYTES_READ] += 100
    clock.now += 0.1
    settling = telemetry.sample(live=True)
    assert settling.tok_s is None, "a tenth of a second says nothing"
    assert settling.turn.per_token == 100
    counters[Counter.TOKENS] += 9
    clock.now += 3.9
    sample = telemetry.sample(live=True)
    assert sample.tok_s == pytest.approx(2.5)
    assert sample.turn.per_token == 10
    assert sample.tokens == 11


def test_the_next_turn_starts_from_zero(board):
    clock = Clock()
    telemetry = Telemetry(board, range(4), clock)
    telemetry.begin_turn()
    board.counters[Counter.TOKENS] += 5
    telemetry.sample(live=True)
    telemetry.begin_turn()
    sample = telemetry.sample(live=True)
    assert (sample.tokens, sample.tok_s, sample.turn.bytes_read) == (0, None, 0)


def test_progress_is_read_off_the_board(board):
    board.counters[[Counter.PHASE, Counter.LAYER, Counter.PREFILL_DONE, Counter.PREFILL_TOTAL]] = [
        1,
        3,
        40,
        90,
    ]
    board.counters[Counter.CONTEXT_USED] = 77
    sample = Telemetry(board, range(4)).sample(live=True)
    assert (sample.phase, sample.layer) == (Phase.PREFILL, 3)
    assert (sample.prefill_done, sample.prefill_total, sample.context_used) == (40, 90, 77)


def test_an_unknown_phase_is_idle(board):
    board.counters[Counter.PHASE] = 12345
    assert Telemetry(board, range(4)).sample(live=True).phase is Phase.IDLE


def test_a_closed_board_gives_no_sample():
    board = Board.create_shared(2, 2)
    other = Board.attach(board.name, 2, 2)
    telemetry = Telemetry(other, range(2))
    assert telemetry.sample(live=True) is not None
    other.close()
    board.close()
    assert telemetry.sample(live=True) is None


def test_the_turns_own_report_is_exact():
    turn = Turn(5, 7, 0.1, 0.1, 1.0, 7.0, Hits(1, 2, 3), Hits(4, 5, 6), 99, 2.0, "eos")
    sampled = Reads(Hits(), Hits(), 1, 12.5)
    assert reads_of(turn, sampled) == Reads(Hits(1, 2, 3), Hits(4, 5, 6), 99, 12.5)


def test_look_ahead_is_of_the_turn_and_none_where_nothing_is_foreseen(board):
    telemetry = Telemetry(board, range(board.layers))
    assert telemetry.sample(live=True).ahead is None
    board.counters[Counter.NEXT_WANTED] = 10
    board.counters[Counter.AHEAD_READS] = 5
    telemetry.begin_turn()
    board.counters[Counter.NEXT_WANTED] = 18
    board.counters[Counter.NEXT_FOUND] = 6
    board.counters[Counter.AHEAD_READS] = 9
    board.counters[Counter.AHEAD_ON] = Foreseer.PAIRS
    board.counters[Counter.AHEAD_GAIN] = -50
    ahead = telemetry.sample(live=True).ahead
    assert ahead.recall == {Foreseer.ROUTER: (6, 8)}
    assert (ahead.reads, ahead.by, ahead.gain) == (4, Foreseer.PAIRS, -0.05)
    board.counters[Counter.PAIRS_FOUND], board.counters[Counter.PAIRS_WANTED] = 3, 4
    assert telemetry.sample(live=True).ahead.recall[Foreseer.PAIRS] == (3, 4)


def test_what_is_loaded_in_the_background(board):
    board.counters[Counter.WARM_DONE], board.counters[Counter.WARM_TOTAL] = 3, 9
    assert Telemetry(board, range(board.layers)).sample(live=False).loading == (3, 9)
