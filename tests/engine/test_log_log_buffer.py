"""Windows of the log: as much as they may have, no statement, and with whole transactions no half of one."""

from tidelock.engine.log.log_buffer import LogBuffer
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Transaction
from tidelock.engine.model.schema_change import Ddl


def batch(rows: int, *, complete: bool = True, transaction: bool = True, ddl: Ddl | None = None) -> LogBatch:
    changes = tuple(RowChange(0, None, (n,), n) for n in range(rows))
    transactions = (Transaction("0-1", 1, 0, complete),) if transaction else ()
    return LogBatch(Position("log.000001", 0), Position("log.000001", 1), transactions, changes, ddl=ddl)


def buffer(*batches: LogBatch, atomic: bool = False) -> LogBuffer:
    made = LogBuffer(atomic=atomic)
    for one in batches:
        made.put(one)
    return made


def test_a_window_takes_batches_until_it_is_full() -> None:
    waiting = buffer(batch(3), batch(0), batch(2), batch(1))
    assert [len(b.rows) for b in waiting.window(5)] == [3, 0, 2]
    assert waiting.rows == 1 and [len(b.rows) for b in waiting.window(5)] == [1]
    assert waiting.rows == 0 and not waiting and waiting.window(5) == []


def test_a_batch_that_is_longer_than_a_window_is_one() -> None:
    waiting = buffer(batch(9), batch(1))
    assert [len(b.rows) for b in waiting.window(5)] == [9]


def test_a_window_ends_before_a_statement() -> None:
    truncate = Ddl("shop", "truncate item", "0-1", 1)
    waiting = buffer(batch(1), batch(0, ddl=truncate), batch(1))
    assert waiting.ddl is None and len(waiting.window(5)) == 1
    assert waiting.ddl is truncate and waiting.statement().ddl is truncate and waiting.ddl is None
    assert waiting.rows == 1 and buffer().ddl is None


def test_half_a_transaction_is_not_whole() -> None:
    assert not buffer(atomic=True).has_complete_transaction
    assert not buffer(batch(1, complete=False), batch(0, transaction=False), atomic=True).has_complete_transaction
    assert buffer(batch(1, complete=False), batch(0, transaction=False), batch(1), atomic=True).has_complete_transaction


def test_a_window_of_whole_transactions_goes_on_to_the_end_of_the_last() -> None:
    half = batch(3, complete=False)
    waiting = buffer(batch(1), half, batch(4), batch(1), half, atomic=True)
    assert [len(b.rows) for b in waiting.window(3)] == [1], "the next is too long for it"
    assert [len(b.rows) for b in waiting.window(3)] == [3, 4], "but is not cut"
    assert [len(b.rows) for b in waiting.window(9)] == [1], "the end of the last has not arrived"
    assert waiting.rows == 3 and not waiting.has_complete_transaction


def test_a_transaction_that_does_not_fit_is_taken_in_pieces_up_to_its_end() -> None:
    half = batch(2, complete=False)
    waiting = buffer(half, half, batch(0, transaction=False), half, batch(1), batch(5), atomic=True)
    assert [len(b.rows) for b in waiting.piece(3)] == [2, 2] and waiting.open and waiting.rows == 8
    assert [len(b.rows) for b in waiting.piece(9)] == [0, 2, 1] and not waiting.open and waiting.rows == 5


def test_a_piece_ends_before_a_statement() -> None:
    """In the middle of a transaction too: what was taken of it is one then."""
    waiting = buffer(batch(2, complete=False), batch(0, ddl=Ddl("shop", "create table t", "0-1", 1)), atomic=True)
    assert len(waiting.piece(1)) == 1 and not waiting.open
    waiting = buffer(batch(2, complete=False), atomic=True)
    assert len(waiting.piece(1)) == 1 and waiting.open
    waiting.put(batch(0, ddl=Ddl("shop", "create table t", "0-1", 1)))
    assert waiting.piece(1) == [] and not waiting.open


def test_a_row_is_as_large_as_rows_were_lately() -> None:
    waiting = buffer()
    waiting.observe_size(1_000, 10)
    waiting.observe_size(0, 5)  # of which it is not known
    assert waiting.row_bytes == 100
    waiting.observe_size(3_000, 1)  # one large one tells less than ten small ones
    assert waiting.row_bytes == 3_750 / 8.5
    for _ in range(20):
        waiting.observe_size(500, 10)
    assert 50 <= waiting.row_bytes < 52
