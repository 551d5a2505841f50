"""The file of a feed as a command names it: `FEED.yaml`, or `PAIR.yaml#NAME` for one of a pair's feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelock.adapters.config import loader
from tidelock.adapters.config.document import DocumentError, parse
from tidelock.adapters.config.feed import ConfigError, Feed

MARK: Final = "#"


def load(path: Path | str) -> Feed:
    """Reads the feed.  Raises ConfigError."""
    file, mark, name = str(path).rpartition(MARK)
    if mark and not Path(path).exists():
        from tidelock.adapters.config.pair import load as load_pair  # only a pair's feeds need it

        return load_pair(file).feed(name)
    try:
        return loader.load(path)
    except ConfigError:
        if _is_pair(Path(path)):
            words = f"a pair of feeds: `tidelock pair … {path}`, or one of its feeds, {path}{MARK}NAME"
            raise ConfigError(f"{path}: {words}", "pair") from None
        raise


def _is_pair(path: Path) -> bool:
    try:
        data, _ = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, DocumentError):
        return False
    return isinstance(data, dict) and "pair" in data
