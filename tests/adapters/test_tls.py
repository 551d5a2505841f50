"""TLS of served pages: certificates that are good, bad and exchanged, and clients that show one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from tests.adapters.made_certificates import Authority, Made
from tidelock.adapters.checks.http_port import check_http
from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.config.loader import read
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.client_names import client_name
from tidelock.adapters.web.own_pages import own_page
from tidelock.adapters.web.plain import served
from tidelock.adapters.web.serving import serve
from tidelock.adapters.web.tls import ServerTls, TlsError

FEED = "feed: shop\nsource: mysql://a@h:1\ntarget: postgresql://b@h:2/c\ntables: [{source: crm.*}]\n"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def files(made: Made, client_ca: Path | str = "") -> HttpTls:
    return HttpTls(cert=str(made.cert), key=str(made.key), client_ca=str(client_ca))


def client(ca: Authority, shown: Made | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.cert))
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


async def got(port: int, context: ssl.SSLContext, path: str = "/livez") -> int:
    url = f"https://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        return answer.status


async def presented(port: int) -> bytes:
    """The certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()


def der(made: Made) -> bytes:
    return x509.load_pem_x509_certificate(made.cert.read_bytes()).public_bytes(Encoding.DER)


def exchange(place: Made, new: Made) -> None:
    """Put a new certificate and its key where another was."""
    os.replace(new.cert, place.cert)
    os.replace(new.key, place.key)


async def test_pages_are_served_with_tls_and_not_without(ca: Authority, tmp_path: Path) -> None:
    page = serve(("127.0.0.1", 0), Sample, "shop", tls=files(ca.server()))
    async with page as port:
        assert await got(port, client(ca)) == 200
        with pytest.raises(aiohttp.ClientError):
            await got(port, client(Authority(tmp_path, "another")))
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{port}/livez")
        assert await got(port, client(ca)) == 200


async def test_clients_show_a_certificate_of_the_authority(ca: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another")
    good, foreign = ca.signs("good", common="ann"), other.signs("foreign", common="ann")
    expired = ca.signs("expired", common="ann", days=(-3.0, -1.0))
    async with serve(("127.0.0.1", 0), Sample, "shop", tls=files(ca.server(), ca.cert)) as port:
        assert await got(port, client(ca, good), "/metrics") == 200
        for shown in (None, foreign, expired):
            with pytest.raises((aiohttp.ClientError, OSError)):
                await got(port, client(ca, shown), "/metrics")


async def test_certificates_are_exchanged_while_pages_are_served(ca: Authority) -> None:
    now, told = ca.server(), list[str]()
    tls = ServerTls(files(now), told.append)
    async with _served(tls) as port:
        before = der(now)
        assert await presented(port) == before and tls.knows("localhost") and not tls.knows("new.example")
        now.cert.write_bytes(ca.server("half").cert.read_bytes())  # its key is not there yet
        assert await presented(port) == before and await presented(port) == before
        assert len(told) == 1 and "is not the key of the certificate" in told[0] and "stays in use" in told[0]
        new = ca.server("new", "*.example")
        after = der(new)
        exchange(now, new)
        assert await presented(port) == after
        assert len(told) == 2 and "from now on" in told[1]
        assert tls.knows("new.example") and not tls.knows("a.new.example") and not tls.knows("example")


async def test_an_authority_that_is_taken_away_lets_nobody_in(ca: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another")
    old, new = ca.signs("old", common="ann"), other.signs("new", common="ann")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca.cert.read_bytes())
    context = client(ca, old)
    async with _served(ServerTls(files(ca.server(), trusted), lambda _: None)) as port:
        assert await got(port, context) == 200
        trusted.write_bytes(other.cert.read_bytes() + b"\n")
        with pytest.raises((aiohttp.ClientError, OSError)):
            await got(port, context)
        assert await got(port, client(ca, new)) == 200


@asynccontextmanager
async def _served(tls: ServerTls) -> AsyncIterator[int]:
    from tidelock.adapters.web.server import application, start

    runner, port = await start(("127.0.0.1", 0), application(Sample, "shop", tuple, tuple), tls)
    try:
        yield port
    finally:
        await runner.cleanup()


def _no_such_file(ca: Authority, good: Made) -> HttpTls:
    return HttpTls(cert=f"{good.cert}.gone", key=str(good.key))


def _no_certificate(ca: Authority, good: Made) -> HttpTls:
    return HttpTls(cert=str(good.key), key=str(good.key))


def _no_key(ca: Authority, good: Made) -> HttpTls:
    good.cert.chmod(0o600)
    return HttpTls(cert=str(good.cert), key=str(good.cert))


def _expired(ca: Authority, good: Made) -> HttpTls:
    return files(ca.server("expired", days=(-3.0, -1.0)))


def _to_come(ca: Authority, good: Made) -> HttpTls:
    return files(ca.server("to-come", days=(1.0, 3.0)))


def _mismatched(ca: Authority, good: Made) -> HttpTls:
    return HttpTls(cert=str(good.cert), key=str(ca.server("other").key))


def _readable(ca: Authority, good: Made) -> HttpTls:
    good.key.chmod(0o644)
    return files(good)


def _secret(ca: Authority, good: Made) -> HttpTls:
    return files(ca.signs("secret", passphrase=b"hidden"))


def _no_authority(ca: Authority, good: Made) -> HttpTls:
    return files(good, good.cert)


BAD = {
    _no_such_file: "cannot be read: No such file",
    _no_certificate: "holds no certificate in PEM",
    _no_key: "holds no private key in PEM",
    _expired: "the certificate has expired on 20",
    _to_come: "the certificate begins 20",
    _mismatched: "is not the key of the certificate in",
    _readable: "the key is not safe: others than its owner can read it",
    _secret: "the key has a passphrase",
    _no_authority: "is no authority",
}


@pytest.mark.parametrize("made", BAD, ids=lambda made: made.__name__.strip("_"))
async def test_what_cannot_serve_is_said_at_start(ca: Authority, made: Callable[[Authority, Made], HttpTls]) -> None:
    wrong = made(ca, ca.server())
    with pytest.raises(TlsError, match=BAD[made]) as caught:
        ServerTls(wrong)
    assert caught.value.hint
    feed = read(f"{FEED}http: 127.0.0.1:1\nhttp_tls: {{cert: {wrong.cert}, key: {wrong.key}}}\n", Path("shop.yaml"))
    if not wrong.client_ca:
        (found,) = [one for one in await check_http(feed) if one.kind == "http-tls"]
        assert BAD[made] in found.message


def feed_with_tls(folder: Path, port: int, client_ca: str = "") -> Feed:
    ca = f", client_ca: {client_ca}" if client_ca else ""
    text = f"{FEED}http: 127.0.0.1:{port}\nhttp_tls: {{cert: server.pem, key: server.key{ca}}}\n"
    return read(text, folder / "shop.yaml")


async def test_a_feed_names_files_beside_its_own_and_its_page_is_asked_for(ca: Authority, tmp_path: Path) -> None:
    """A certificate says which run is meant: that of another is refused, though signed by the same authority."""
    ca.server()
    (tmp_path / "elsewhere").mkdir()
    for client_ca in ("", "ca.pem"):  # the run's own certificate is one of the authority's too
        async with serve(("127.0.0.1", 0), Sample, "shop", tls=feed_with_tls(tmp_path, 1, client_ca).http_tls) as port:
            feed = feed_with_tls(tmp_path, port, client_ca)
            status, page = await asyncio.to_thread(own_page, feed, "/metrics", 5.0)
            assert status == 200 and b'feed="shop"' in page
            assert await check_http(feed) == [], "a run of the very feed serves there"
    async with serve(("127.0.0.1", 0), Sample, "shop", tls=files(ca.server("other"))) as port:
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(own_page, feed_with_tls(tmp_path, port), "/metrics", 5.0)


def test_a_run_serves_its_page_with_tls_and_status_reads_it(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, ca: Authority
) -> None:
    server = ca.server()
    address = f"127.0.0.1:{free_port()}"
    tls = {"cert": str(server.cert), "key": str(server.key), "client_ca": str(ca.cert)}
    rig = make_rig(mariadb, postgres, "tls", lanes=2, http=address, http_tls=tls)
    rig.table("t", "id int PRIMARY KEY, n int")
    server.key.chmod(0o644)
    assert rig.catch_up_code() == 1 and "the key is not safe" in rig.said()
    server.key.chmod(0o600)
    rig.run()
    port = int(address.rpartition(":")[2])
    until(lambda: answers(port, client(ca, server)), "the page")
    told = json.loads(rig.command("status", "--json").out)
    assert told["live"]["state"] in ("running", "caught up"), told


def answers(port: int, context: ssl.SSLContext) -> bool:
    try:
        return asyncio.run(got(port, context, "/readyz")) == 200
    except (aiohttp.ClientError, OSError):
        return False


def test_a_key_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown key; did you mean 'cert'"):
        read(f"{FEED}http: h:1\nhttp_tls: {{certs: a, key: b}}\n", Path("shop.yaml"))


def test_pages_of_a_process_without_a_loop_are_served_with_tls_too(
    ca: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    tls = ServerTls(files(ca.server()))
    with served(("127.0.0.1", 0), lambda: "tidelock_x 1\n", tls) as port:
        silent = _connected(port)
        junk = _connected(port)
        junk.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert asyncio.run(got(port, client(ca), "/metrics")) == 200, "while another says nothing"
        junk.close()
        silent.close()
    assert capfd.readouterr().err == ""


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        (None, ""),
        ({}, ""),
        ({"subject": ((("organizationName", "x"),), (("commonName", "ann"),))}, "CN=ann"),
        ({"subject": (), "subjectAltName": (("IP Address", "::1"), ("DNS", "a.b"), ("URI", "u:x"))}, "DNS=a.b"),
        ({"subject": (), "subjectAltName": (("URI", "spiffe://x/y"),)}, "URI=spiffe://x/y"),
        ({"subject": ((("commonName", "x" * 2000),),), "serialNumber": "0A"}, "SERIAL=0A"),
    ],
)
def test_a_client_has_the_name_of_its_certificate(shown: dict[str, object] | None, name: str) -> None:
    assert client_name(shown) == name
