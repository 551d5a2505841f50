"""Makes connected clients of Kafka from the feed's `log`, and words for the operator from their errors.

A client of Kafka tries its brokers for ever and only logs why none will do.  So `reach` tries each broker once, by
itself: where none answers, the operator hears the first one's own reason, without the password.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import create_conn
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.operator_error import OperatorError

REQUEST_MS: Final = 10_000
REFUSED_LOGIN = (SaslAuthenticationFailed, UnsupportedSaslMechanismError)
NOT_AUTHORISED = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


class LogError(OperatorError):
    """Kafka cannot be used: `args[0]` says what and where, `hint` what to do.  Holds no secret."""


def client_options(endpoint: Endpoint | None) -> dict[str, Any]:
    """Returns keyword arguments of every aiokafka client.  Raises LogError: no log in Kafka, or its certificate cannot
    be used.
    """
    place = _kafka(endpoint)
    context = _tls(place)
    login = {}
    if "sasl" in place.options:
        login = {
            "sasl_mechanism": place.options["sasl"].upper(),
            "sasl_plain_username": place.user,
            "sasl_plain_password": place.password,
        }
    protocol = ("SASL_" if login else "") + ("SSL" if context else "PLAINTEXT")
    return {
        "bootstrap_servers": list(place.servers),
        "security_protocol": protocol if context or login else "PLAINTEXT",
        "ssl_context": context,
        **login,
    }


def faust_options(endpoint: Endpoint | None) -> dict[str, Any]:
    """Returns the same for a Faust app: `broker`, and `broker_credentials` where they are needed.  Raises LogError."""
    from faust.auth import SASLCredentials, SSLCredentials

    place = _kafka(endpoint)
    context = _tls(place)
    options: dict[str, Any] = {"broker": [f"aiokafka://{server}" for server in place.servers]}
    if "sasl" in place.options:
        mechanism = place.options["sasl"].upper()
        options["broker_credentials"] = SASLCredentials(
            username=place.user, password=place.password, ssl_context=context, mechanism=mechanism
        )
    elif context is not None:
        options["broker_credentials"] = SSLCredentials(context)
    return options


async def reach(endpoint: Endpoint | None) -> None:
    """Returns once a broker has let us in.  Raises LogError with what the first one said."""
    options = client_options(endpoint)
    problems = []
    for server in options.pop("bootstrap_servers"):
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=REQUEST_MS, **options)
            try:
                await connection.send(MetadataRequest([]))
            finally:
                await connection.close()
        except (OSError, KafkaError, TimeoutError) as error:
            problems.append(explained(_kafka(endpoint), error))
        else:
            return
    raise problems[0]


@asynccontextmanager
async def administrator(endpoint: Endpoint | None) -> AsyncIterator[AIOKafkaAdminClient]:
    """A started client for topics and settings.  Raises LogError, also for what fails inside."""
    await reach(endpoint)
    admin = AIOKafkaAdminClient(**client_options(endpoint), request_timeout_ms=REQUEST_MS)
    try:
        await admin.start()
        yield admin
    except (OSError, KafkaError, TimeoutError) as error:
        raise explained(_kafka(endpoint), error) from None
    finally:
        await admin.close()


def explained(endpoint: Endpoint, error: Exception) -> LogError:
    """Returns the meaning of a client's error for the feed's `log`."""
    match error:
        case ssl.SSLCertVerificationError():
            return LogError(
                f"the certificate of {endpoint} is not to be trusted: {error.verify_message}",
                "Name the authority that signed it: ?sslrootcert=FILE; with sslmode=verify-full the host must be in it",
            )
        case ssl.SSLError():
            return LogError(
                f"no encrypted connection to {endpoint}: {error.reason or error}",
                "Is that listener encrypted? If not, leave sslmode out; else openssl s_client -connect HOST:PORT",
            )
        case _ if isinstance(error, REFUSED_LOGIN):
            return LogError(
                f"{endpoint} refused the login: {_text(error)}",
                "Correct user, password and ?sasl= in the feed's `log`, or "
                f"kafka-configs.sh --alter --entity-type users --entity-name {endpoint.user or 'USER'} "
                "--add-config 'SCRAM-SHA-512=[password=…]'",
            )
        case _ if isinstance(error, NOT_AUTHORISED):
            return LogError(
                f"{endpoint.user or 'an anonymous client'} may not do this at {endpoint}: {_text(error)}",
                f"kafka-acls.sh --add --allow-principal User:{endpoint.user or 'ANONYMOUS'} --operation All "
                "--resource-pattern-type prefixed --topic tidelock. --group tidelock. --transactional-id tidelock.",
            )
        case OSError() | TimeoutError() if not isinstance(error, KafkaError):
            return LogError(
                f"{endpoint} cannot be reached: {str(error) or 'no answer in time'}",
                "Correct host and port in the feed's `log`, or start the broker"
                + ("" if endpoint.ssl_mode == "disable" else "; is that listener encrypted? If not, leave sslmode out"),
            )
        case _:
            return LogError(
                f"{endpoint} ended the conversation: {_text(error)}",
                "Does that listener want encryption (?sslmode=) or a login (?sasl=)? The broker's log says more",
            )


async def stopped(producer: AIOKafkaProducer) -> None:
    """Stops a transactional producer, also one that was fenced.  Raises KafkaError.

    A fenced producer keeps its error for waiters that nobody awaits.  They are looked at here, or the loop would report
    each with a traceback when the collector runs.
    """
    try:
        await producer.stop()
    finally:
        batches = [batch for queue in producer._message_accumulator._batches.values() for batch in queue]
        manager = producer._txn_manager
        waiters = [manager and manager._transaction_waiter, *(batch._drain_waiter for batch in batches)]
        for waiter in waiters:
            if waiter is not None and waiter.done() and not waiter.cancelled():
                waiter.exception()


def _kafka(endpoint: Endpoint | None) -> Endpoint:
    if endpoint is None:
        raise LogError("the feed's log is embedded", "Set `log: kafka://HOST:PORT`")
    return endpoint


def _tls(endpoint: Endpoint) -> ssl.SSLContext | None:
    try:
        return endpoint.ssl_context()
    except OSError as error:
        raise LogError(
            f"sslrootcert={endpoint.options.get('sslrootcert')} cannot be used: {error.strerror or error}",
            "It names a file with the authority's certificate, in PEM",
        ) from None


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
