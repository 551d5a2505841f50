"""The statements that Debezium and TiCDC are tested with: what becomes of each is as it was written down."""

from __future__ import annotations

import pytest

from tests.adapters.ddl_corpora import OUTCOMES, PAGE, TARGETS, cases, files, page, recorded, share

COMMAND = "python -m tests.adapters.ddl_corpora"
ENOUGH = 0.85


def test_each_statement_becomes_what_is_recorded() -> None:
    assert OUTCOMES.read_text(encoding="utf-8") == recorded(), COMMAND


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), COMMAND


@pytest.mark.parametrize("target", TARGETS)
def test_most_statements_need_nobody(target: str) -> None:
    """So do those about tables, indexes and databases alone."""
    everything = [case for file in files() for case in cases(file)]
    for found in (everything, [case for case in everything if case.is_of_tables]):
        taken, nobody = share(found, target)
        assert nobody >= ENOUGH * taken
