"""How far the groups are: the newest owner's word counts, and who has never spoken holds the feed."""

from tidelock.engine.cluster.group_progress import GroupProgress
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import GroupReport, Statement


def at(offset: int) -> Position:
    return Position("log.000001", offset)


PLAN = TablePartitioning(1, at(4), (at(4), at(50)), ((TableName("s", "a"), 0), (TableName("s", "b"), 1)))
STATEMENT = Statement("s", 7, at(90))


def report(
    group: int, resolved: int, checkpoint: int, epoch: int = 1, vote: Statement | None = None, parked: int = 0
) -> GroupReport:
    return GroupReport(group, epoch, "w", "running", at(resolved), at(checkpoint), vote, parked=parked)


def test_the_feed_stands_where_its_last_group_does() -> None:
    standing = GroupProgress([report(0, 70, 60), report(1, 80, 40)])
    assert (standing.resolved(PLAN), standing.checkpoint(PLAN)) == (at(70), at(40))
    assert standing.sealed(PLAN, at(40))
    assert not standing.sealed(PLAN, at(41))


def test_a_group_that_never_reported_stands_where_its_partition_begins() -> None:
    standing = GroupProgress([report(0, 70, 60)])
    assert (standing.resolved(PLAN), standing.checkpoint(PLAN)) == (at(50), at(50))
    assert standing.parked(1) == 0


def test_votes_count_when_all_vote_for_the_same_statement_with_their_newest_epoch() -> None:
    standing = GroupProgress([report(0, 89, 89, vote=STATEMENT)])
    assert standing.votes(PLAN, STATEMENT) is None
    standing.observe(report(1, 89, 89, epoch=3, vote=STATEMENT))
    assert standing.votes(PLAN, STATEMENT) == {0: 1, 1: 3}
    assert standing.votes(PLAN, Statement("s", 8, at(90))) is None


def test_a_zombie_changes_nothing_and_a_newer_owner_everything() -> None:
    standing = GroupProgress([report(0, 89, 89, epoch=2), report(1, 89, 89, vote=STATEMENT)])
    standing.observe(report(0, 95, 95, epoch=1, vote=STATEMENT, parked=4))
    assert standing.votes(PLAN, STATEMENT) is None
    assert (standing.resolved(PLAN), standing.parked(0)) == (at(89), 0)
    standing.observe(report(0, 60, 60, epoch=3, parked=4))
    assert (standing.resolved(PLAN), standing.parked(0)) == (at(60), 4)
