"""Is a source's log the one that a position belongs to?  Asked of the source at each start and each reconnect.

What can be read again says so (`engine.lineage`): the file's beginning and the event that ends the last transaction, a
few hundred bytes wherever they are.  After a failover the transaction is looked for by its GTID: MySQL finds it by
itself, of MariaDB's log the one file is read that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pymysql

from adapters.mysql import connection as server
from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.errors import SEE_THE_LOG, OtherHistory, SourceError
from adapters.mysql.gtid import MySqlGtids
from adapters.mysql.log_file import Event, events_of, events_without
from adapters.mysql.positions import ending_of, gtid_list, gtid_of, has_gtid, survey
from engine import lineage
from engine.errors import RESYNC
from engine.lineage import Answer, Ending, Group, Here, Proof, Sought
from engine.records import Position

_FURTHEST: Final = 0xFFFFFFFF
_FAR: Final = 64 << 20  # a second or two of reading
HINT: Final = (
    "Rows may be missing between the two, so nothing is applied. If the source is the wrong one, correct `source`. If"
    f" its log was reset, or it was put back from a backup: {RESYNC}"
)


def identity(connection: pymysql.Connection[Any]) -> str:
    """The server's UUID; MariaDB has none, so its id."""
    uuid = server.variable(connection, "server_uuid")
    return uuid or f"server_id {server.variable(connection, 'server_id')}"


def confirm(endpoint: Endpoint, place: Position) -> None:
    """A position without a proof passes.  Raises OtherHistory, or any SourceError where the log cannot be asked."""
    try:
        proof = lineage.decode(place.proof)
    except msgspec.MsgspecError:
        raise OtherHistory(f"what proves the log of {place} cannot be read: {place.proof[:200]}", HINT) from None
    if proof is None:
        return
    connection = server.connect(endpoint)
    try:
        found = _judged(connection, endpoint, place, proof)
    except pymysql.MySQLError as error:
        raise server.explained(error, endpoint) from error
    finally:
        connection.close()
    if found is not None:
        problem = OtherHistory(
            f"the log of {endpoint} is not the one that was read up to {place}: that was {_told(place, proof)};"
            f" here is {found}",
            HINT,
        )
        problem.position = str(place)
        raise problem


def witnessed(endpoint: Endpoint, place: Position, *, deep: bool = True) -> Position:
    """The place with its proof.  `deep`: the file is read up to there for its last transaction, unless that is far;
    else its beginning alone proves it.  Raises SourceError where the log has no such place."""
    if not place.file:
        return place
    deep = deep and place.offset <= _FAR
    connection = server.connect(endpoint)
    try:
        who = identity(connection)
    except pymysql.MySQLError as error:
        raise server.explained(error, endpoint) from error
    finally:
        connection.close()
    found = survey(endpoint, place if deep else Position(place.file, 4))
    proof = Proof(who, found.begun, found.last if deep else None)
    return msgspec.structs.replace(place, proof=lineage.encode(proof))


def other_transaction(expected: tuple[str, int, int], found: tuple[str, int, int]) -> tuple[str, str]:
    """Message and hint where a transaction was read in part, and another is in its place now."""
    told = [f"{source}:{number} of {_time(moment)}" for source, number, moment in (expected, found)]
    return f"the log is not the one that was read: inside {told[0]} it was left, and here is {told[1]}", HINT


def _judged(
    connection: pymysql.Connection[Any], endpoint: Endpoint, place: Position, proof: Proof
) -> str | None:
    """What is found in the place of the proof, in words; None where it is the same log."""
    flavor = server.flavor(connection)
    files = [str(row[0]) for row in server.rows(connection, "SHOW BINARY LOGS")]
    here = _here(endpoint, place, proof, files, identity(connection), exact=not flavor.is_mariadb)
    match lineage.by_place(proof, here):
        case Answer.SAME:
            return None
        case Answer.OTHER:
            return _found(place, proof, here)
    sought = _seek(connection, endpoint, place, proof.last, files, mariadb=flavor.is_mariadb)
    if lineage.by_gtid(proof, here, sought) is Answer.SAME:
        return None
    return _found(place, proof, here, sought)


def _here(endpoint: Endpoint, place: Position, proof: Proof, files: list[str], who: str, *, exact: bool) -> Here:
    last = proof.last
    ending = _ending(endpoint, last) if last is not None and last.file in files else None
    begun: int | None = None
    if place.file in files:
        begun = ending.begun if ending and last and last.file == place.file else _begun(endpoint, place.file)
    return Here(who, begun, ending, exact)


def _begun(endpoint: Endpoint, file: str) -> int:
    with closing(events_of(endpoint, file)) as read:
        for event in read:
            if event.kind == events.FORMAT_DESCRIPTION:
                return event.when
    raise SourceError(f"{endpoint} sent nothing of its log {file}", SEE_THE_LOG)


def _ending(endpoint: Endpoint, last: Group) -> Ending | None:
    """What ends where the last transaction ended; None where that is too far in the file to be asked for."""
    if last.end - last.size > _FURTHEST:
        return None
    begun = 0
    try:
        with closing(events_of(endpoint, last.file, offset=last.end - last.size)) as read:
            for event in read:
                if event.kind == events.FORMAT_DESCRIPTION:
                    begun = event.when
                elif event.kind != events.ROTATE or event.log_end:
                    if event.log_end == last.end & _FURTHEST:
                        return Ending(begun, *ending_of(event))
                    break
    except (server.Unreachable, server.AccessDenied):
        raise
    except SourceError:  # nothing begins there, or the file ends before
        pass
    return Ending(begun)


# -- by GTID -------------------------------------------------------------------------------------------------------


def _seek(
    connection: pymysql.Connection[Any],
    endpoint: Endpoint,
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


def _continues(endpoint: Endpoint, place: Position, last: Group | None, files: list[str]) -> bool:
    name, _, number = place.file.rpartition(".")
    first_name, _, first = files[0].rpartition(".")
    if name != first_name or int(first) <= int(number):
        return False
    return last is None or _begun(endpoint, files[0]) >= last.when


def _seek_mysql(
    connection: pymysql.Connection[Any], endpoint: Endpoint, place: Position, last: Group
) -> tuple[int, bool]:
    gtid = f"{last.source}:{last.number}"
    ((there, purged, others),) = server.rows(
        connection,
        "SELECT GTID_SUBSET(%s, @@global.gtid_executed), GTID_SUBSET(%s, @@global.gtid_purged), GTID_SUBTRACT(%s, %s)",
        gtid, gtid, place.gtids, gtid,
    )  # fmt: skip
    if not there or purged:
        return 0, bool(purged)
    with closing(events_without(endpoint, MySqlGtids(str(others).replace("\n", "")))) as read:
        return _moment(read, last), False


def _seek_mariadb(endpoint: Endpoint, last: Group, files: list[str]) -> tuple[int, bool]:
    """From the newest file back to the one that begins before the transaction."""
    domain = int(last.source.partition("-")[0])
    for file in reversed(files):
        before = _numbers_before(endpoint, file).get(domain, 0)
        if before < last.number:
            with closing(events_of(endpoint, file)) as read:
                return _moment(read, last), False
    return 0, True


def _numbers_before(endpoint: Endpoint, file: str) -> dict[int, int]:
    """By domain, the last sequence number before a file of MariaDB's."""
    with closing(events_of(endpoint, file)) as read:
        for event in read:
            if event.kind == events.GTID_LIST:
                return gtid_list(event).numbers()
    return {}


def _moment(read: Iterator[Event], last: Group) -> int:
    """Of the transaction with that GTID; 0: there is none."""
    for event in read:
        if has_gtid(event):
            source, number, moment = gtid_of(event)
            if number == last.number and source == last.source:
                return moment
    return 0


# -- words ---------------------------------------------------------------------------------------------------------


def _told(place: Position, proof: Proof) -> str:
    begun = f", whose {place.file} was begun {_time(proof.begun * 1_000_000)}" if proof.begun else ""
    last = proof.last
    if last is None:
        return f"{_who(proof.server)}{begun}"
    what = f"transaction {last.gtid}" if last.gtid else "a transaction"
    when = _time(last.moment_us or last.when * 1_000_000)
    return f"{_who(proof.server)}{begun}, with {what} of {when} up to {last.file}:{last.end}"


def _found(place: Position, proof: Proof, here: Here, sought: Sought | None = None) -> str:
    parts = [_who(here.server)]
    last = proof.last
    if here.begun is None:
        parts.append(f"without a file {place.file}")
    elif here.begun != proof.begun:
        parts.append(f"whose {place.file} was begun {_time(here.begun * 1_000_000)}")
    elif last is not None and here.ending is not None:
        ends = f"an event of {_time(here.ending.when * 1_000_000)} ends" if here.ending.size else "no event ends"
        parts.append(f"where {ends} at {last.file}:{last.end}")
    if last is not None and sought is not None and last.source:
        if sought.moment_us:
            parts.append(f"with a transaction {last.gtid} of {_time(sought.moment_us)}")
        else:
            parts.append(f"where transaction {last.gtid} " + ("is purged" if sought.purged else "is not in the log"))
    return ", ".join(parts)


def _who(name: str) -> str:
    return name if name.startswith("server_id") else f"server {name}"


def _time(moment_us: int) -> str:
    seconds, fraction = divmod(moment_us, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}.{fraction:06} UTC" if fraction else f"{at} UTC"
