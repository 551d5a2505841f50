"""Binds the names of sites to servers, so that one server has one name and one name means one server.

Each server that is a site keeps its own name in its bookkeeping, in `tidelock_site` (`own` = 1), and the names of those
that feeds have tied it to.  A name is bound when the first feed that says it begins; from then on every run compares.

What a server is known by: MySQL's `server_uuid`; PostgreSQL's system identifier and the database; at MariaDB its
`server_id` and a random number that its row of `tidelock_site` holds: a replica has the row, and another `server_id`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from tidelock.adapters.bookkeeping.tables import SITES, quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.operator.upgrade import look, upgrade
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session


class SiteRefused(TargetError):
    """A site's name is another server's, or a server's name another one."""


class Site(msgspec.Struct, frozen=True):
    """A site as a feed says it: its name, and the server with that name.  `schema`: of the bookkeeping."""

    name: str
    place: Endpoint
    schema: str


async def bind(feed: Feed) -> None:
    """Binds the names of both sites, or compares where they are bound.  Raises SiteRefused, TargetError.

    A source without bookkeeping gets it: its name is kept there, and feeds to it are told by what they write there.
    """
    if feed.sites is None:
        return
    source = Site(feed.sites.source, feed.source_url, feed.schema)
    target = Site(feed.sites.target, feed.target_url, feed.schema)
    async with session(source.place) as at_source, session(target.place) as at_target:
        await upgrade(at_source, feed.schema, await look(at_source, feed.schema), source.place.user)
        identities = await _bound(at_source, source), await _bound(at_target, target)
        if identities[0] == identities[1]:
            raise SiteRefused(
                f"{source.place} and {target.place} are one server, {identities[0]}: it cannot be the sites "
                f"{source.name} and {target.name}",
                "Correct `source`, `target` or `sites` in the feed",
            )
        await _known(at_source, source, target, identities[1])
        await _known(at_target, target, source, identities[0])


async def _bound(server: TargetSession, site: Site) -> str:
    """Returns what the server is known by, which has this name from now on.  Raises SiteRefused."""
    table = _table(server, site)
    own = f"SELECT site, identity FROM {table} WHERE own = 1"
    known = await server.fetch(own)
    if not known:
        identity = await _identity(server, ())
        await _insert(server, table, site.name, identity, own=1)
        known = await server.fetch(own)  # another feed may have been first
    identity = await _identity(server, known)
    names = sorted(str(name) for name, _ in known)
    if names != [site.name]:
        raise SiteRefused(
            f"{site.place} is the site {' and '.join(names)} ({identity}) to other feeds, and this feed calls it "
            f"{site.name}",
            f"Correct `sites` in the feed, or give it the new name in all feeds and run there: "
            f"UPDATE {table} SET site = '{site.name}' WHERE own = 1, and likewise at each server that knows it",
        )
    if known[0][1] != identity:
        raise _moved(server, site, site.place, site.name, str(known[0][1]), identity)
    return identity


async def _known(server: TargetSession, at: Site, other: Site, identity: str) -> None:
    """Notes at one site which server the other one is, or compares.  Raises SiteRefused."""
    table = _table(server, at)
    query = f"SELECT identity FROM {table} WHERE site = %s"
    found = await server.fetch(query, other.name)
    if not found:
        await _insert(server, table, other.name, identity, own=0)
        found = await server.fetch(query, other.name)
    if found[0][0] != identity:
        raise _moved(server, at, other.place, other.name, str(found[0][0]), identity)


def _moved(server: TargetSession, at: Site, place: Endpoint, name: str, bound: str, identity: str) -> SiteRefused:
    return SiteRefused(
        f"{at.place} knows the site {name} as the server {bound}, and {place} is {identity}",
        f"Correct the URL in the feed; or, if the site is at {place} from now on, run at {at.place}: "
        f"UPDATE {_table(server, at)} SET identity = '{identity}' WHERE site = '{name}'",
    )


async def _insert(server: TargetSession, table: str, name: str, identity: str, *, own: int) -> None:
    head = f"INTO {table} (site, identity, own) VALUES (%s, %s, {own})"
    if server.dialect == "postgres":
        await server.execute(f"INSERT {head} ON CONFLICT DO NOTHING", name, identity)
    else:
        await server.execute(f"INSERT IGNORE {head}", name, identity)


async def _identity(server: TargetSession, known: Sequence[tuple[Any, ...]]) -> str:
    """Returns what the server is known by; `known`: its own rows, which hold MariaDB's random number."""
    if server.dialect == "postgres":
        rows = await server.fetch("SELECT system_identifier::text, current_database() FROM pg_control_system()")
        return f"{rows[0][0]}/{rows[0][1]}"
    ((version, server_id),) = await server.fetch("SELECT VERSION(), @@server_id")
    if "mariadb" not in str(version).lower():
        return str((await server.fetch("SELECT @@server_uuid"))[0][0])
    number = str(known[0][1]).partition("-")[2] if known else secrets.token_hex(8)
    return f"{server_id}-{number}"


def _table(server: TargetSession, site: Site) -> str:
    return f"{quote(server.dialect, site.schema)}.{SITES}"
