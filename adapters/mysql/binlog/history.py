"""A check that a source's log is the one that a position belongs to.

It is asked of the source at each start and each reconnect.

What can be read again says so (`engine.model.lineage`): the file's beginning and the event that ends the last
transaction, a few hundred bytes wherever they are.  After a failover the transaction is looked for by its GTID: MySQL
finds it by itself, of MariaDB's log the one file is read that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec
import pymysql

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.log_file import Event, events_of, events_without
from tidelock.adapters.mysql.binlog.positions import ending_of, gtid_list, gtid_of, has_gtid, survey
from tidelock.adapters.mysql.connection import Address, connect, explained, flavor, rows, variables
from tidelock.adapters.mysql.errors import SEE_THE_LOG
from tidelock.adapters.mysql.gtid import MySqlGtids
from tidelock.adapters.ports import history_words as words
from tidelock.adapters.ports.source_errors import AccessDenied, OtherHistory, SourceError, Unreachable
from tidelock.engine.model import lineage
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.lineage import Answer, Ending, Group, Here, Proof, Sought
from tidelock.engine.model.records import Position

_FURTHEST: Final = 0xFFFFFFFF
_FAR: Final = 64 << 20  # a second or two of reading
HINT: Final = (
    "Rows may be missing between the two, so nothing is applied. If the source is the wrong one, correct `source`; if"
    " it is a replica that is behind, run the feed again once it has caught up. If its log was reset, or it was put"
    f" back from a backup: {RESYNC}; {words.OF_A_SPOKE}"
)


def identity(connection: pymysql.Connection[Any]) -> str:
    """The server's UUID; MariaDB has none, so its id."""
    known = variables(connection, "server_uuid", "server_id")
    return known.get("server_uuid") or f"server_id {known['server_id']}"


def confirm(endpoint: Address, start: Position, further: Sequence[Position] = ()) -> None:
    """Check that the log is that of the place `start`, and of those `further` in it (`engine.log.receipts`).

    A position without a proof passes.  Raises OtherHistory, or any SourceError where the log cannot be asked.
    """
    _confirm(endpoint, start)
    for place in further:
        _confirm(endpoint, msgspec.structs.replace(place, gtids=start.gtids), further=True)


def _confirm(endpoint: Address, place: Position, *, further: bool = False) -> None:
    try:
        proof = lineage.decode(place.proof)
    except msgspec.MsgspecError:
        raise OtherHistory(f"what proves the log of {place} cannot be read: {place.proof[:200]}", HINT) from None
    if proof is None:
        return
    connection = connect(endpoint)
    try:
        found = _judged(connection, endpoint, place, proof, further=further)
    except pymysql.MySQLError as error:
        raise explained(error, endpoint) from error
    finally:
        connection.close()
    if found is not None:
        problem = OtherHistory(
            f"the log of {endpoint} is not the one that was read up to {place}: that was {words.told(place, proof)};"
            f" here is {found}",
            HINT,
        )
        problem.position = str(place)
        raise problem


def witnessed(endpoint: Address, place: Position, *, deep: bool = True) -> Position:
    """The place with its proof.  `deep`: the file is read up to there for its last transaction, unless that is far;
    else its beginning alone proves it.  Raises SourceError where the log has no such place."""
    if not place.file:
        return place
    deep = deep and place.offset <= _FAR
    connection = connect(endpoint)
    try:
        who = identity(connection)
    except pymysql.MySQLError as error:
        raise explained(error, endpoint) from error
    finally:
        connection.close()
    found = survey(endpoint, place if deep else Position(place.file, 4))
    proof = Proof(who, found.begun, found.last if deep else None)
    return msgspec.structs.replace(place, proof=lineage.encode(proof))


def other_transaction(expected: tuple[str, int, int], found: tuple[str, int, int]) -> tuple[str, str]:
    """Message and hint where a transaction was read in part, and another is in its place now."""
    told = [f"{source}:{number} of {words.time(moment)}" for source, number, moment in (expected, found)]
    return f"the log is not the one that was read: inside {told[0]} it was left, and here is {told[1]}", HINT


def _judged(
    connection: pymysql.Connection[Any], endpoint: Address, place: Position, proof: Proof, *, further: bool
) -> str | None:
    """Say in words what is found in the place of the proof; None where it is the same log."""
    mariadb = flavor(connection).is_mariadb
    files = [str(row[0]) for row in rows(connection, "SHOW BINARY LOGS")]
    here = _here(endpoint, place, proof, files, identity(connection), exact=not mariadb)
    match lineage.by_place(proof, here):
        case Answer.SAME:
            if proof.opened is None or not proof.opened[2] or place.offset > _FURTHEST:
                return None
            begun = _opened(endpoint, place)
            part = None if proof.part is None else _ending(endpoint, place.file, *proof.part[:2])
            return None if lineage.same_opened(proof, begun, part) else words.found_open(proof, here, begun, part)
        case Answer.OTHER:
            return words.found(place, proof, here)
    sought = _seek(connection, endpoint, place, proof.last, files, mariadb=mariadb)
    if lineage.by_gtid(proof, here, sought, further=further) is Answer.OTHER:
        return words.found(place, proof, here, sought)
    if proof.opened is None or proof.last is None or not proof.last.source:
        return None
    source, number, moment = proof.opened
    sought = _seek(connection, endpoint, place, _named(source, number), files, mariadb=mariadb)
    if sought.moment_us == moment or (further and sought.purged):
        return None
    return words.found_open(proof, here, (source, number, sought.moment_us) if sought.moment_us else None)


def _named(source: str, number: int) -> Group:
    """A transaction of which nothing else is known."""
    return Group(source, number, 0, "", 0, 0, 0, 0, 0)


def _opened(endpoint: Address, place: Position) -> tuple[str, int, int] | None:
    """The transaction that the place is inside of; None: none begins there."""
    try:
        with closing(events_of(endpoint, place.file, offset=place.offset)) as read:
            for event in read:
                if event.kind == events.ANONYMOUS_GTID:
                    return place.file, event.log_end - ending_of(event)[0], gtid_of(event)[2]
                if has_gtid(event):
                    return gtid_of(event)
    except (Unreachable, AccessDenied):
        raise
    except SourceError:  # nothing begins there, or the file ends before
        pass
    return None


def _here(endpoint: Address, place: Position, proof: Proof, files: list[str], who: str, *, exact: bool) -> Here:
    last = proof.last
    ending = _ending(endpoint, last.file, last.end, last.size) if last is not None and last.file in files else None
    begun: int | None = None
    if place.file in files:
        begun = ending.begun if ending and last and last.file == place.file else _begun(endpoint, place.file)
    return Here(who, begun, ending, exact)


def _begun(endpoint: Address, file: str) -> int:
    with closing(events_of(endpoint, file)) as read:
        for event in read:
            if event.kind == events.FORMAT_DESCRIPTION:
                return event.when
    raise SourceError(f"{endpoint} sent nothing of its log {file}", SEE_THE_LOG)


def _ending(endpoint: Address, file: str, end: int, size: int) -> Ending | None:
    """Returns what ends where an event of this size ended; None where that is too far in the file to be asked for."""
    if end - size > _FURTHEST:
        return None
    begun = 0
    try:
        with closing(events_of(endpoint, file, offset=end - size)) as read:
            for event in read:
                if event.kind == events.FORMAT_DESCRIPTION:
                    begun = event.when
                elif event.kind != events.ROTATE or event.log_end:
                    if event.log_end == end & _FURTHEST:
                        return Ending(begun, *ending_of(event))
                    break
    except (Unreachable, AccessDenied):
        raise
    except SourceError:  # nothing begins there, or the file ends before
        pass
    return Ending(begun)


# -- by GTID -------------------------------------------------------------------------------------------------------


def _seek(
    connection: pymysql.Connection[Any],
    endpoint: Address,
    place: Position,
    last: Group | None,
    files: list[str],
    *,
    mariadb: bool,
) -> Sought:
    continues = _continues(endpoint, place, last, files)
    if last is None or not last.source:
        return Sought(purged=True, continues=continues)
    if mariadb:
        moment, purged = _seek_mariadb(endpoint, last, files)
    else:
        moment, purged = _seek_mysql(connection, endpoint, place, last)
    return Sought(moment, purged, continues)


def _continues(endpoint: Address, place: Position, last: Group | None, files: list[str]) -> bool:
    name, _, number = place.file.rpartition(".")
    first_name, _, first = files[0].rpartition(".")
    if name != first_name or int(first) <= int(number):
        return False
    return last is None or _begun(endpoint, files[0]) >= last.when


def _seek_mysql(
    connection: pymysql.Connection[Any], endpoint: Address, place: Position, last: Group
) -> tuple[int, bool]:
    gtid = f"{last.source}:{last.number}"
    ((there, purged, others),) = rows(
        connection,
        "SELECT GTID_SUBSET(%s, @@global.gtid_executed), GTID_SUBSET(%s, @@global.gtid_purged), GTID_SUBTRACT(%s, %s)",
        gtid, gtid, place.gtids, gtid,
    )  # fmt: skip
    if not there or purged:
        return 0, bool(purged)
    with closing(events_without(endpoint, MySqlGtids(str(others).replace("\n", "")))) as read:
        return _moment(read, last), False


def _seek_mariadb(endpoint: Address, last: Group, files: list[str]) -> tuple[int, bool]:
    """Look from the newest file back to the one that begins before the transaction."""
    domain = int(last.source.partition("-")[0])
    for file in reversed(files):
        before = _numbers_before(endpoint, file).get(domain, 0)
        if before < last.number:
            with closing(events_of(endpoint, file)) as read:
                return _moment(read, last), False
    return 0, True


def _numbers_before(endpoint: Address, file: str) -> dict[int, int]:
    """Read the last sequence number of each domain before a file of MariaDB's."""
    with closing(events_of(endpoint, file)) as read:
        for event in read:
            if event.kind == events.GTID_LIST:
                return gtid_list(event).numbers()
    return {}


def _moment(read: Iterator[Event], last: Group) -> int:
    """Find when the transaction with that GTID was committed; 0: there is none."""
    for event in read:
        if has_gtid(event):
            source, number, moment = gtid_of(event)
            if number == last.number and source == last.source:
                return moment
    return 0
