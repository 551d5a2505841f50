"""Throw-away certificates: an authority of our own and a server's certificate for loopback, made by openssl."""

from __future__ import annotations

from pathlib import Path

from bench.harness.servers.place import HOST, program, run

PACKAGE = "openssl"
DAYS = "3"
NAMES = f"subjectAltName=IP:{HOST},DNS:localhost"
SIGNS = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]


def authority(folder: Path, name: str = "ca") -> Path:
    """Make `name.pem`, beside it `name.key`; return the certificate.  Raises ServerMissing."""
    return _certificate(folder, name, SIGNS)


def server_certificate(folder: Path, ca: Path, name: str = "server") -> Path:
    """Make `name.pem`: the private key (PKCS #8), the certificate that `ca` signed, and `ca`'s.

    Raises ServerMissing.
    """
    signed = ["-CA", str(ca), "-CAkey", str(ca.with_suffix(".key")), "-addext", NAMES]
    path = _certificate(folder, name, [*signed, "-addext", "basicConstraints=critical,CA:FALSE"])
    path.write_bytes(path.with_suffix(".key").read_bytes() + path.read_bytes() + ca.read_bytes())
    return path


def _certificate(folder: Path, name: str, options: list[str]) -> Path:
    path = folder / f"{name}.pem"
    key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(path.with_suffix(".key")),
    ]
    subject = ["-subj", f"/O=Tidelock/CN=throw-away {name}", "-days", DAYS, "-out", str(path)]
    run([program("openssl", PACKAGE), "req", "-x509", *key, *subject, *options], None, folder)
    return path
