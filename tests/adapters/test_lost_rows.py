"""Shows rows that lost in conflicts."""

from __future__ import annotations

import json

import pytest

from tidelock.adapters.cli import lost_rows
from tidelock.adapters.operator.lost_rows import LostRow, LostRowDetail


def test_a_text_is_a_text_in_json_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of a row from PostgreSQL are kept as its log spells them, in bytes."""
    row = LostRow("1:2:3:0", "shop.lamp", "id=1", "update_origin_differs", "write", "arbiter", "us eu", 1.0)
    detail = LostRowDetail(row, {"word": "at eu", "raw": None, "n": 1}, {"word": "at ü".encode(), "raw": b"\xff\x01"})

    async def found(_: object, id: str) -> LostRowDetail:
        return detail

    monkeypatch.setattr(lost_rows, "load", str)
    monkeypatch.setattr(lost_rows, "_row", found)
    assert lost_rows.show_lost("shop.yaml", "1:2:3:0", True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lost"] == {"word": "at eu", "raw": None, "n": 1}
    assert told["stands"] == {"word": "at ü", "raw": "0xff01"}
