"""Who may talk to the server: checks of Host, Origin and token, limits of requests, and headers of every answer."""

from __future__ import annotations

import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from .limits import Refused

__all__ = ["COOKIE", "Guard", "is_loopback"]

COOKIE = "repri"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets through what may pass.

    Args:
        app: The application behind it.
        host: The host that the server listens on.
        token: A secret that every request must know, in a cookie or as a bearer; None on loopback.
        body: Bytes that a request may have.
    """

    def __init__(self, app: Any, host: str, token: str | None, body: int):
        self.app, self.host, self.token, self.body = app, host, token, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope, headers)
        if problem is None and self.token is not None and not self._knows_token(headers):
            given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
            if scope["method"] == "GET" and secrets.compare_digest(given.encode(), self.token.encode()):
                await self._welcome(scope, send)
                return
            problem = (401, "Open the address that `repri serve` printed: it holds the token of this server.")
        if problem is not None:
            await _refuse(send, *problem)
            return
        await self.app(scope, self._limited(receive), _with_headers(send))

    def _problem(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and sentence of a request that is refused."""
        host = headers.get("host", "")
        name = _host_name(host)
        if name is None or not self._is_us(name):
            return 403, "This server does not answer to that host name."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if scope["method"] not in SAFE or site == "cross-site":
            if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
                return 403, "Another web page may not use this server."
            if origin is None and site == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
                return 403, "Another web page may not use this server."
        length = headers.get("content-length", "0")
        if not length.isdigit():
            return 400, "The length of the request is not a number."
        if int(length) > self.body:
            return 413, f"A request may have {self.body:,} bytes: send fewer images at once."
        return None

    def _is_us(self, name: str) -> bool:
        if name in LOOPBACK or name == self.host.lower():
            return True
        if is_loopback(self.host):
            return False
        wildcard = self.host in ("0.0.0.0", "::")
        return wildcard and (_is_address(name) or name == socket.gethostname().lower())

    def _knows_token(self, headers: dict[str, str]) -> bool:
        assert self.token is not None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [cookie.value if cookie else "", bearer if scheme.lower() == "bearer" else ""]
        return any(secrets.compare_digest(value.encode(), self.token.encode()) for value in given)

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Keep the token in a cookie, and show the address without it."""
        query = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
        place = scope["path"] if scope["path"].startswith("/") and not scope["path"].startswith("//") else "/"
        target = place + (f"?{urlencode(query)}" if query else "")
        cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        headers = {**HEADERS, "location": target, "set-cookie": cookie, "content-length": "0"}
        await send({"type": "http.response.start", "status": 303, "headers": _encoded(headers)})
        await send({"type": "http.response.body", "body": b""})

    def _limited(self, receive: Receive) -> Receive:
        """A body that is sent in pieces must not be longer than one that says its length."""
        read = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.body:
                raise Refused(413, f"A request may have {self.body:,} bytes: send fewer images at once.")
            return message

        return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", [])}
            more = {name: value for name, value in HEADERS.items() if name.encode() not in there}
            message["headers"] = [*message.get("headers", []), *_encoded(more)]
        await send(message)

    return sending


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _host_name(host: str) -> str | None:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
