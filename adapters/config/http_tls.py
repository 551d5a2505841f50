"""The files by which pages are served with TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta


class HttpTls(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the files, in PEM; relative ones are looked for beside the feed's file."""

    cert: Annotated[str, Meta(min_length=1, description="The server's certificate, with those between it and a root.")]
    key: Annotated[str, Meta(min_length=1, description="Its private key, which others cannot read.")]
    client_ca: Annotated[
        str, Meta(description="Authorities: only who shows a certificate of theirs is answered. Default: anybody is.")
    ] = ""

    def beside(self, folder: Path) -> HttpTls:
        """Returns the same files, relative names looked for in a folder."""
        authorities = str(folder / self.client_ca) if self.client_ca else ""
        return HttpTls(cert=str(folder / self.cert), key=str(folder / self.key), client_ca=authorities)
