"""Log that a position belongs to: what the source shows decides, and every doubt is another log."""

import msgspec
import pytest

from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.lineage import (
    Answer,
    Ending,
    Group,
    Here,
    Proof,
    Sought,
    agree,
    by_gtid,
    by_place,
    carried,
    decode,
    encode,
    same_opened,
    server_of,
)
from tidelock.engine.model.records import Position

LAST = Group("0-1", 50, 1_700_000_000_000_000, "bin.000002", 1_600_000_000, 900, 31, 1_700_000_000, 77)
PROOF = Proof("server_id 1", 1_600_000_000, LAST)
ENDING = Ending(1_600_000_000, 31, 1_700_000_000, 77)
HERE = Here("server_id 1", 1_600_000_000, ENDING, exact=False)


def changed(**fields: object) -> Here:
    return msgspec.structs.replace(HERE, **fields)


def test_a_proof_is_read_as_it_was_written():
    inside = Proof("u", 7, None, ("0-1", 51, 8))
    assert [decode(encode(proof)) for proof in (PROOF, inside)] == [PROOF, inside]
    assert decode("") is None


@pytest.mark.parametrize(
    ("here", "answer"),
    [
        (HERE, Answer.SAME),
        (changed(server="server_id 2"), Answer.SAME),  # the same files, at another server
        (changed(begun=1_600_000_001), Answer.OTHER),
        (changed(ending=Ending(1_600_000_000)), Answer.OTHER),
        (changed(ending=Ending(1_600_000_000, 31, 1_700_000_000, 78)), Answer.OTHER),
        (changed(begun=None, ending=None), Answer.SEEK),
        (changed(server="server_id 2", begun=1), Answer.SEEK),
        (changed(begun=1, exact=True), Answer.SEEK),
    ],
)
def test_files_and_offsets_tell(here: Here, answer: Answer):
    assert by_place(PROOF, here) is answer


def test_the_file_of_the_position_proves_it_where_the_last_transactions_is_purged():
    assert by_place(PROOF, changed(ending=None)) is Answer.SAME
    assert by_place(PROOF, changed(ending=None, server="server_id 2")) is not Answer.SAME
    assert by_place(msgspec.structs.replace(PROOF, begun=0), changed(ending=None)) is not Answer.SAME


def test_without_a_transaction_the_file_of_the_same_server_tells():
    proof = Proof("server_id 1", 1_600_000_000)
    assert by_place(proof, HERE) is Answer.SAME
    assert by_place(proof, changed(server="server_id 2")) is Answer.OTHER
    assert by_place(proof, changed(begun=5, exact=True)) is Answer.OTHER


@pytest.mark.parametrize(
    ("sought", "server", "answer"),
    [
        (Sought(LAST.moment_us), "server_id 2", Answer.SAME),
        (Sought(LAST.moment_us + 1), "server_id 2", Answer.OTHER),
        (Sought(), "server_id 1", Answer.OTHER),
        (Sought(continues=True), "server_id 1", Answer.OTHER),
        (Sought(purged=True, continues=True), "server_id 1", Answer.SAME),
        (Sought(purged=True, continues=True), "server_id 2", Answer.OTHER),
        (Sought(purged=True), "server_id 1", Answer.OTHER),
    ],
)
def test_the_transaction_of_a_gtid_tells(sought: Sought, server: str, answer: Answer):
    assert by_gtid(PROOF, changed(server=server, begun=None, ending=None), sought) is answer


def test_proofs_of_one_place_agree_unless_the_transactions_differ():
    other = msgspec.structs.replace(PROOF, last=msgspec.structs.replace(LAST, moment_us=5))
    elsewhere = msgspec.structs.replace(PROOF, server="x", last=msgspec.structs.replace(LAST, file="y", end=1, mark=2))
    assert agree(encode(PROOF), "") and agree(encode(PROOF), encode(elsewhere))
    assert not agree(encode(PROOF), encode(other))
    assert not agree(encode(PROOF), "what is this")


def test_the_chain_takes_no_answer_of_another_log():
    other = msgspec.structs.replace(PROOF, last=msgspec.structs.replace(LAST, moment_us=5))
    here, there = (Position("bin.000002", 900, 0, "0-1-50", encode(proof)) for proof in (PROOF, other))
    last = Position("bin.000002", 950, 0, "0-1-51")
    assert Chain(here).judge(there, last, 0, resent=True) is Verdict.GAP
    assert Chain(here).judge(here, last, 0, resent=True) is Verdict.NEXT
    assert here == there, "they name the same place"


def test_behind_a_failover_the_transaction_of_the_server_before_is_sought():
    """Its file and offset are places at that server, also once the proof is one of the new server's file."""
    there = msgspec.structs.replace(carried(PROOF, "server_id 2"), begun=1_650_000_000)
    here = Here("server_id 2", 1_650_000_000, Ending(1_600_000_500), exact=False)
    assert decode(encode(there)) == there and there.server == "server_id 2"
    assert by_place(there, here) is Answer.SEEK
    assert by_gtid(there, here, Sought(LAST.moment_us)) is Answer.SAME
    assert by_place(carried(there, "server_id 3"), msgspec.structs.replace(here, server="server_id 2")) is Answer.SEEK
    assert carried(there, "server_id 1").last == LAST, "back where it was read"
    assert carried(PROOF, "server_id 1") == PROOF


def test_what_is_purged_was_before_the_place_that_reading_begins_at():
    elsewhere, gone = changed(server="server_id 2", begun=None, ending=None), Sought(purged=True)
    assert by_gtid(PROOF, elsewhere, gone) is Answer.OTHER
    assert by_gtid(PROOF, elsewhere, gone, further=True) is Answer.SAME
    assert by_gtid(PROOF, elsewhere, Sought(), further=True) is Answer.OTHER, "it is not there and was not"
    nameless = msgspec.structs.replace(PROOF, last=msgspec.structs.replace(LAST, source="", number=0))
    assert by_gtid(nameless, elsewhere, gone, further=True) is Answer.OTHER


def test_an_open_transaction_is_known_by_its_name_and_by_what_was_read_of_it():
    opened = ("0-1", 51, 1_700_000_000_000_000)
    proof = msgspec.structs.replace(PROOF, opened=opened, part=(1000, 40, 1_700_000_000, 5))
    assert same_opened(proof, opened, Ending(0, 40, 1_700_000_000, 5))
    assert not same_opened(proof, opened, Ending(0, 40, 1_700_000_000, 6)), "the same second, and other rows"
    assert not same_opened(proof, opened, Ending(0))
    assert not same_opened(proof, ("0-1", 51, 1_700_000_001_000_000), Ending(0, 40, 1_700_000_000, 5))
    assert not same_opened(proof, None)
    assert same_opened(proof, opened), "at another server, where its rows are written in another way"
    assert decode(encode(proof)) == proof
    assert carried(proof, "server_id 2").part is None and carried(proof, "server_id 1").part is not None


def test_where_a_position_was_read():
    assert (server_of(encode(PROOF)), server_of(""), server_of("what is this")) == ("server_id 1", "", "")
