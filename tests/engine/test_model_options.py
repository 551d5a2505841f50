"""Spelling of what is stored or sent, which stays however the code calls it: journals and workers of older versions."""

import msgspec

from tidelock.engine.apply import machine
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.simulations.plan import draw

RECORDED = {
    "lanes": 1, "batch_rows": 2, "fill_rows": 3, "atomic": True, "window_rows": 4, "room_rows": 5, "room_bytes": 6,
    "gather_rows": 7, "gather_us": 8, "checkpoint_us": 9, "idle_checkpoint_us": 10, "commit_bound_us": 11,
    "stream_idle_us": 12, "weights": {}, "locking": False, "copy_reads": 13, "copy_touched": 14,
}  # fmt: skip
LATER = {
    "idle_checkpoint_bytes": 0, "verify": "off", "versions": {}, "replace": False, "direction": "none", "policies": {},
    "stamp": None, "clock": None, "left_behind": (),
}  # fmt: skip
"""What older ones lack, and what that means."""


def test_a_journal_s_settings_are_read_and_written_by_the_names_that_they_had() -> None:
    made = msgspec.msgpack.decode(msgspec.msgpack.encode(RECORDED), type=Options)
    assert msgspec.to_builtins(made) == RECORDED | LATER
    assert (made.min_rows_per_lane, made.max_in_flight_rows, made.max_in_flight_bytes) == (3, 5, 6)
    assert (made.coalesce_rows, made.linger_us) == (7, 8)


def test_a_kept_plan_spells_the_settings_as_a_journal_does() -> None:
    assert set(msgspec.to_builtins(draw(1).engine)) <= {*RECORDED, *LATER}


def test_a_failure_in_a_journal_is_its_kind_by_value_its_words_and_its_code() -> None:
    assert msgspec.json.encode(Failure(ErrorKind.COMMITS_LOST, "words", "code")) == b'["rewound","words","code"]'
    kinds = ["transient", "in_doubt", "row", "fenced", "rewound", "changed", "target"]
    assert [kind.value for kind in ErrorKind] == kinds


def test_a_state_is_told_by_the_word_that_status_and_reports_had() -> None:
    assert [state.value for state in machine.State] == ["starting", "running", "halted", "ousted"]


def test_a_plan_in_the_control_topic_has_the_fields_that_it_had() -> None:
    assert TablePartitioning.__struct_encode_fields__ == ("version", "position", "since", "tables", "left")


def test_a_plan_of_before_is_read() -> None:
    """No table had left a group with it."""
    place = Position("bin.000001", 4)
    plan = TablePartitioning(1, place, (place,), ((TableName("shop", "item"), 0),))
    told = msgspec.json.decode(msgspec.json.encode(plan))
    del told["left"]
    assert msgspec.json.decode(msgspec.json.encode(told), type=TablePartitioning) == plan
