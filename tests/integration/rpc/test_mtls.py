"""Who gets in and who does not, over real TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stele.errors import (
    InvalidArgument,
    PermissionDenied,
    SteleError,
    Unauthenticated,
    Unreachable,
)
from stele.rpc.channel import Channel
from stele.rpc.client_session import ClientOptions
from stele.rpc.identity import Role
from stele.rpc.server import Server, ServerOptions
from stele.rpc.tls import Credentials, TlsFiles
from tests.integration.rpc.raw import PATIENCE_S, RawPeer, hello_bytes
from tests.unit.rpc.certificates import DAY, NOW, Authority
from tests.unit.rpc.support import CountingRandom, EchoService, Text


class Fort:
    """A server with certificates, and everyone who tries to get in."""

    def __init__(self, folder: Path):
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.revoked = folder / "revoked.txt"
        self.revoked.write_text("")
        self.echo = EchoService()
        self.files = self.authority.issue("m1", Role.MASTER, Role.METASTORE, revoked=self.revoked)
        self.server = Server(
            self.echo.bindings(),
            ServerOptions(role=Role.METASTORE, cluster="c1"),
            credentials=Credentials(self.files),
        )
        self.address = self.server.listen("127.0.0.1:0")
        self._channels: list[Channel] = []

    def channel(
        self, files: TlsFiles | None, role: Role = Role.CLIENT, **options: object
    ) -> Channel:
        credentials = None if files is None else Credentials(files, **options)  # type: ignore[arg-type]
        channel = Channel(
            self.address,
            ClientOptions(role=role, cluster="c1"),
            random=CountingRandom(),
            credentials=credentials,
        )
        self._channels.append(channel)
        return channel

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(grace_s=0)
        await self.server.close(grace_s=0)


@pytest.fixture
async def fort(tmp_path: Path) -> AsyncIterator[Fort]:
    fort = Fort(tmp_path)
    yield fort
    await fort.close()


async def check_refused(fort: Fort, channel: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """No call goes through, the server says so in one line, and goes on."""
    with pytest.raises(Unreachable, match="closed the connection before its hello") as caught:
        await channel.call(fort.echo.plain, Text(), timeout_s=PATIENCE_S)
    assert caught.value.cuts == 1
    lines = [r for r in caplog.records if r.name == "stele.rpc.audit"]
    assert len(lines) == 1
    assert lines[0].exc_info is None
    assert fort.echo.contexts == []
    good = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    assert (await good.call(fort.echo.plain, Text("in"))).text == "in"


async def test_a_good_certificate_gets_in(fort: Fort) -> None:
    channel = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    await channel.call(fort.echo.echo, Text())
    (context,) = fort.echo.contexts
    assert (context.peer.name, context.peer.roles) == ("ada", frozenset({Role.CLIENT}))


async def test_another_authority(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.stranger.issue("ada", Role.CLIENT, trusted=fort.authority.path)
    await check_refused(fort, fort.channel(files), caplog)


async def test_expired(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.authority.issue("ada", Role.CLIENT, begin=NOW - 2 * DAY, end=NOW - DAY)
    await check_refused(fort, fort.channel(files), caplog)


async def test_not_yet_valid(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.authority.issue("ada", Role.CLIENT, begin=NOW + DAY, end=NOW + 2 * DAY)
    await check_refused(fort, fort.channel(files), caplog)


async def test_no_identity_in_the_certificate(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.authority.issue("ada", uris=["https://example.org/ada"])
    await check_refused(fort, fort.channel(files), caplog)


async def test_a_role_that_does_not_exist(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.authority.issue("ada", uris=["stele://c1/king/ada"])
    await check_refused(fort, fort.channel(files), caplog)


async def test_revoked(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    files = fort.authority.issue("eve", Role.CLIENT)
    fort.revoked.write_text("2 # eve")
    fort.server.reload_credentials()
    await check_refused(fort, fort.channel(files), caplog)


async def test_no_certificate(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(fort.authority.path)
    host, port = fort.address.split(":")
    # With TLS 1.3 the client thinks it is in until it reads.
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError)):
        await send_hello(reader, writer)
    writer.transport.abort()
    assert [r.exc_info for r in caplog.records if r.name == "stele.rpc.audit"] == [None]


async def send_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(PATIENCE_S):
        writer.write(hello_bytes())
        await writer.drain()
        data = await reader.read(1)
    assert data == b"", "a stranger got data"
    raise ConnectionResetError("closed without a word")


async def test_old_tls(fort: Fort) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(fort.authority.path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    host, port = fort.address.split(":")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=context)


async def test_plaintext_to_a_tls_port(fort: Fort, caplog: pytest.LogCaptureFixture) -> None:
    await check_refused(fort, fort.channel(None), caplog)


async def test_a_tls_port_answers_nothing_in_plaintext(
    fort: Fort, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await RawPeer.connect(fort.address)
    peer.send(hello_bytes())
    answer = await peer.rest()
    assert wire_free(answer), "the server fell back to plaintext"
    await peer.close()
    assert [r.exc_info for r in caplog.records if r.name == "stele.rpc.audit"] == [None]


def wire_free(answer: bytes) -> bool:
    """At most a TLS alert, which is a record of type 21."""
    return not answer or answer[0] == 21


async def test_tls_to_a_plaintext_port(fort: Fort) -> None:
    plain = Server(fort.echo.bindings(), ServerOptions(role=Role.METASTORE))
    files = fort.authority.issue("ada", Role.CLIENT)
    channel = Channel(
        plain.listen("127.0.0.1:0"), random=CountingRandom(), credentials=Credentials(files)
    )
    with pytest.raises(Unreachable, match="closed the connection during the TLS handshake"):
        await channel.call(fort.echo.plain, Text())
    await channel.close()
    await plain.close(grace_s=0)


async def test_a_client_certificate_may_not_call_a_peers_method(fort: Fort) -> None:
    client = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    with pytest.raises(PermissionDenied):
        await client.call(fort.echo.guarded, Text())
    master = fort.channel(fort.authority.issue("m2", Role.MASTER), Role.MASTER)
    assert (await master.call(fort.echo.guarded, Text("ok"))).text == "ok"


async def test_a_claim_beyond_the_certificate(fort: Fort) -> None:
    liar = fort.channel(fort.authority.issue("ada", Role.CLIENT), Role.MASTER)
    with pytest.raises(Unauthenticated, match="its certificate says client"):
        await liar.call(fort.echo.guarded, Text())


async def test_a_client_certificate_cannot_pose_as_a_server(fort: Fort) -> None:
    impostor = Server(
        fort.echo.bindings(),
        ServerOptions(role=Role.CLIENT),
        credentials=Credentials(fort.authority.issue("eve", Role.CLIENT)),
    )
    fort.address = impostor.listen("127.0.0.1:0")
    channel = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    with pytest.raises(Unauthenticated, match="is not"):
        await channel.call(fort.echo.plain, Text())
    await impostor.close(grace_s=0)


async def test_a_server_of_another_authority(fort: Fort) -> None:
    files = fort.authority.issue("ada", Role.CLIENT, trusted=fort.stranger.path)
    with pytest.raises(Unauthenticated):
        await fort.channel(files).call(fort.echo.plain, Text())


async def test_another_cluster(fort: Fort) -> None:
    files = fort.authority.issue("ada", Role.CLIENT, cluster="c2")
    with pytest.raises(Unauthenticated, match="cluster"):
        await fort.channel(files).call(fort.echo.plain, Text())


@pytest.mark.parametrize(("name", "fits"), [("127.0.0.1", True), ("m9.example.org", False)])
async def test_a_host_name_is_checked_if_given(fort: Fort, name: str, fits: bool) -> None:
    files = fort.authority.issue("ada", Role.CLIENT)
    channel = fort.channel(files, server_hostname=name)
    if fits:
        assert (await channel.call(fort.echo.plain, Text("ok"))).text == "ok"
    else:
        with pytest.raises(Unauthenticated):
            await channel.call(fort.echo.plain, Text())


async def test_without_certificates_only_the_loopback_is_served(fort: Fort) -> None:
    plain = Server(fort.echo.bindings(), ServerOptions(role=Role.METASTORE))
    with pytest.raises(InvalidArgument, match="without TLS"):
        plain.listen("0.0.0.0:0")
    secure = fort.server.listen("0.0.0.0:0")
    assert secure.startswith("0.0.0.0:")
    await plain.close()


async def test_rotation_does_not_disturb_calls_in_flight(fort: Fort) -> None:
    channel = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    before = await channel.call(fort.echo.plain, Text("before"))
    renewed = fort.authority.issue("m1", Role.MASTER, Role.METASTORE, revoked=fort.revoked)
    assert renewed == fort.files
    call = asyncio.ensure_future(channel.call(fort.echo.echo, Text("during")))
    fort.server.reload_credentials()
    assert (before.text, (await call).text) == ("before", "during")
    newcomer = fort.channel(fort.authority.issue("bob", Role.CLIENT))
    assert (await newcomer.call(fort.echo.plain, Text("after"))).text == "after"


async def test_a_bad_renewal_leaves_the_old_certificate_in_force(
    fort: Fort, caplog: pytest.LogCaptureFixture
) -> None:
    fort.files.certificate.write_text("half a cert")
    fort.server.reload_credentials()
    assert "not reloaded" in caplog.text
    channel = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    assert (await channel.call(fort.echo.plain, Text("ok"))).text == "ok"


async def test_revocation_cuts_connections_that_stand(fort: Fort) -> None:
    eve = fort.channel(fort.authority.issue("eve", Role.CLIENT))
    ada = fort.channel(fort.authority.issue("ada", Role.CLIENT))
    await asyncio.gather(eve.call(fort.echo.plain, Text()), ada.call(fort.echo.plain, Text()))
    fort.revoked.write_text("2")
    fort.server.reload_credentials()
    async with asyncio.timeout(PATIENCE_S):
        while eve.is_open:
            await asyncio.sleep(0.001)
    with pytest.raises(SteleError):
        await eve.call(fort.echo.plain, Text())
    assert ada.is_open
    assert (await ada.call(fort.echo.plain, Text("fine"))).text == "fine"


async def test_a_readable_key_stops_the_start(fort: Fort) -> None:
    fort.files.key.chmod(0o644)
    with pytest.raises(InvalidArgument, match="0644"):
        Credentials(replace(fort.files))


async def test_a_handshake_that_never_ends_is_bounded(
    fort: Fort, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stele.rpc.network.HANDSHAKE_TIMEOUT_S", 0.2)
    monkeypatch.setattr("stele.rpc.network.HANDSHAKES_MAX", 2)
    caplog.set_level(logging.WARNING)
    peers = [await RawPeer.connect(fort.address) for _ in range(4)]
    for peer in peers:
        assert await peer.rest() == b""
        await peer.close()
    refusals = [r.getMessage() for r in caplog.records if "refused" in r.getMessage()]
    assert any("handshakes in progress" in text for text in refusals)
    assert any("handshakes in progress" not in text for text in refusals)
    assert len(refusals) <= 4
    assert (
        await fort.channel(fort.authority.issue("ada", Role.CLIENT)).call(
            fort.echo.plain, Text("in")
        )
    ).text == "in"
