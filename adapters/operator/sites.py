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
from tidelock.adapters.config.sites import FeedSites
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
    source, target = _ends(feed, feed.sites)
    async with session(source.place) as at_source, session(target.place) as at_target:
        await upgrade(at_source, feed.schema, await look(at_source, feed.schema), source.place.user)
        identities = await _bound(at_source, source), await _bound(at_target, target)
        if identities[0] == identities[1]:
            raise _one_server(source, target, identities[0])
        await _known(at_source, source, target, identities[1])
        await _known(at_target, target, source, identities[0])


async def compare(feed: Feed) -> None:
    """Compares the names of both sites with those that are bound, and writes nothing.  Raises SiteRefused,
    TargetError."""
    if feed.sites is None:
        return
    source, target = _ends(feed, feed.sites)
    async with session(source.place) as at_source, session(target.place) as at_target:
        bound = [SITES not in (await look(server, feed.schema)).tables for server in (at_source, at_target)]
        identities = [
            await _own(server, site) if there else None
            for server, site, there in zip((at_source, at_target), (source, target), bound, strict=True)
        ]
        if identities[0] is not None and identities[0] == identities[1]:
            raise _one_server(source, target, identities[0])
        if bound[0] and identities[1] is not None:
            await _as_known(at_source, source, target, identities[1])
        if bound[1] and identities[0] is not None:
            await _as_known(at_target, target, source, identities[0])


def _ends(feed: Feed, sites: FeedSites) -> tuple[Site, Site]:
    return Site(sites.source, feed.source_url, feed.schema), Site(sites.target, feed.target_url, feed.schema)


def _one_server(source: Site, target: Site, identity: str) -> SiteRefused:
    return SiteRefused(
        f"{source.place} and {target.place} are one server, {identity}: it cannot be the sites "
        f"{source.name} and {target.name}",
        "Correct `source`, `target` or `sites` in the feed",
    )


async def _bound(server: TargetSession, site: Site) -> str:
    """Returns what the server is known by, which has this name from now on.  Raises SiteRefused."""
    identity = await _own(server, site)
    if identity is None:
        await _insert(server, _table(server, site), site.name, await _identity(server, ()), own=1)
        identity = await _own(server, site)  # another feed may have been first
        assert identity is not None, "it has just been stored"
    return identity


async def _own(server: TargetSession, site: Site) -> str | None:
    """Returns what the server is known by; None where it has no name yet.  Raises SiteRefused."""
    table = _table(server, site)
    known = await server.fetch(f"SELECT site, identity FROM {table} WHERE own = 1")
    if not known:
        return None
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
    if not await _as_known(server, at, other, identity):
        await _insert(server, _table(server, at), other.name, identity, own=0)
        await _as_known(server, at, other, identity)


async def _as_known(server: TargetSession, at: Site, other: Site, identity: str) -> bool:
    """Tells whether one site knows the other, as this server.  Raises SiteRefused."""
    found = await server.fetch(f"SELECT identity FROM {_table(server, at)} WHERE site = %s", other.name)
    if found and found[0][0] != identity:
        raise _moved(server, at, other.place, other.name, str(found[0][0]), identity)
    return bool(found)


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
