"""Answers only the requests that the page makes: an ASGI middleware in front of Gradio.

Gradio serves more than a page needs: an API for programs, downloads of any public address on behalf of the visitor, and
tools for developers. Guarantees, whatever Gradio does behind it:

- only the routes below are answered;
- files are served from the folder of uploads alone, and a request cannot name any other file or address as its input;
- on a loopback address, only requests to that host are answered, so that pages of other sites cannot reach the server
  through a domain name that they control (DNS rebinding);
- browsers load nothing from other servers (Content-Security-Policy).
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any

from ..storage.paths import PathLike

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

API = "/gradio_api"
PATHS = frozenset(
    {"/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", f"{API}/info", f"{API}/startup-events"}
    | {f"{API}/queue/join", f"{API}/queue/data", f"{API}/upload", f"{API}/upload_progress", f"{API}/cancel"}
    | {f"{API}/theme.css", f"{API}/app_id"}
)
FOLDERS = ("/assets/", "/static/", "/svelte/", f"{API}/heartbeat/")
FILE = f"{API}/file="

# Requests to recognize a recording are small; the recording itself is an upload.
MAX_REQUEST = 2**20

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'"
)


class RequestGuard:
    """
    Args:
        app: the application to protect.
        folder: the folder of uploads.
        host: the address that the server listens on.
    """

    def __init__(self, app: Application, folder: PathLike, host: str) -> None:
        self.app = app
        self.folder = os.path.realpath(folder)
        self.is_local = host == "localhost" or _is_loopback(host)
        policy = f"{POLICY}; frame-ancestors 'none'" if self.is_local else POLICY
        self.headers = [
            (b"content-security-policy", policy.encode()),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
        ]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        if not self.allows(scope["path"], _host(scope)):
            await _refuse(send, 404)
            return
        if scope["path"] == f"{API}/queue/join":
            body = await _read_body(receive)
            if body is None or not self.allows_input(body):
                await _refuse(send, 400)
                return
            receive = _replay(body, receive)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self.headers]
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def allows(self, path: str, host: str) -> bool:
        """Whether a request for a decoded path is answered."""
        if self.is_local and host != "localhost" and not _is_loopback(host):
            return False
        if path.startswith(FILE):
            return self._is_upload(path.removeprefix(FILE))
        return path in PATHS or (path.startswith(FOLDERS) and ".." not in path)

    def allows_input(self, body: bytes) -> bool:
        """Whether all files that a request names are uploads."""
        try:
            return all(map(self._is_upload, _named_files(json.loads(body))))
        except (ValueError, RecursionError):
            return False

    def _is_upload(self, path: Any) -> bool:
        if not isinstance(path, str) or "\0" in path:
            return False
        return os.path.isabs(path) and os.path.realpath(path).startswith(self.folder + os.sep)


def _named_files(value: Any) -> list[Any]:
    """The values of all keys `path`, by which Gradio names files."""
    if isinstance(value, dict):
        own = [value["path"]] if value.get("path") is not None else []
        return own + [path for item in value.values() for path in _named_files(item)]
    return [path for item in value for path in _named_files(item)] if isinstance(value, list) else []


def _host(scope: MutableMapping[str, Any]) -> str:
    """The host of a request, without its port."""
    value = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
    name = value.rpartition(":")[0] if value.rpartition(":")[2].isdecimal() else value
    return name.strip("[]").lower()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def _read_body(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too large or the visitor has left."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_REQUEST:
            return None
        if not message.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns a body that has been read, then what follows it."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return unread.pop() if unread else await receive()

    return next_message


async def _refuse(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"Not available.\n"})
