import pytest

from engine.origin import admits

# The columns of tidelock_progress: feed, grp, epoch, batch, covered, origin, path.
ROW = ("shop", 0, 1, 7, b"\x80")


def mark(origin: str, path: str) -> tuple[int, tuple]:
    return (3, (*ROW, origin, path))


@pytest.mark.parametrize(
    ("marks", "admitted"),
    [
        ([], True),
        ([mark("north", "north")], True),
        ([mark("south", "north")], False),
        ([mark("north", "north south")], False),
        ([mark("north", "south north")], False),
        ([mark("north", "southern north")], True),
        ([mark("north", "")], True),
        ([mark("north", "north"), mark("south", "")], False),
    ],
    ids=["local", "another's", "ours", "through us", "through us first", "a longer name", "no path", "one of two"],
)
def test_an_endless_loop_in_a_ring_pglogical_210(marks: list, admitted: bool) -> None:
    assert admits(marks, "south") is admitted


def test_a_feed_without_a_node_name_goes_one_way_and_takes_all() -> None:
    assert admits([mark("south", "north south")], "") and admits([mark("south", "")], "")
