"""The server answers what the page asks for, and nothing else."""

import asyncio
import json

import pytest

from ctcdro.serve.request_guard import MAX_REQUEST, RequestGuard


@pytest.fixture
def uploads(tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / "a.wav").write_bytes(b"audio")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


async def application(scope, receive, send):
    """Returns the body that it receives."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message.get("body", b"")})


def request(guard, path, body=b"", host="127.0.0.1:7860", kind="http"):
    """The messages that a request is answered with. The body arrives in two parts."""
    parts = [(body[:5], True), (body[5:], False)]
    messages = [{"type": "http.request", "body": part, "more_body": more} for part, more in parts]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": [(b"host", host.encode())]}
    asyncio.run(guard(scope, receive, send))
    return sent


def status(*arguments, **options):
    return request(*arguments, **options)[0].get("status")


def test_what_the_page_needs_is_answered_with_the_policy(uploads):
    guard = RequestGuard(application, uploads, "127.0.0.1")
    for path in ("/", "/config", "/assets/index.js", "/gradio_api/upload", f"/gradio_api/file={uploads}/a.wav"):
        start = request(guard, path)[0]
        assert start["status"] == 200
        headers = dict(start["headers"])
        assert b"default-src 'self'" in headers[b"content-security-policy"]
        assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]


REFUSED = [
    *("/docs", "/openapi.json", "/login", "/monitoring", "/gradio_api/api/predict", "/gradio_api/call/x"),
    *(
        "/gradio_api/run/x",
        "/gradio_api/proxy=https://a.hf.space/x",
        "/gradio_api/vibe-code/",
        "/gradio_api/dev/reload",
    ),
    *("/gradio_api/process_recording", "/gradio_api/deep_link", "/gradio_api/component_server", "/file=/etc/passwd"),
    *("/gradio_api/file=/etc/passwd", "/gradio_api/file=https://example.org/a.wav", "/gradio_api/file=a.wav"),
    *("/gradio_api/file={uploads}", "/gradio_api/file={uploads}/../secret", "/gradio_api/file={uploads}/link"),
    *("/gradio_api/file={uploads}/x/../../secret", "/gradio_api/file={uploads}-other/a", "/gradio_api/file=/etc/\0"),
    *("/assets/../../secret", "/static/../config"),
]


def test_everything_else_is_refused_without_an_explanation(uploads):
    guard = RequestGuard(application, uploads, "127.0.0.1")
    for path in REFUSED:
        start, end = request(guard, path.format(uploads=uploads))
        assert (start["status"], end["body"]) == (404, b"Not available.\n"), path
    assert request(guard, "/", kind="websocket") == [{"type": "websocket.close"}]


@pytest.mark.parametrize(
    ("listening", "host", "expected"),
    [
        ("127.0.0.1", "localhost:7860", 200),
        ("127.0.0.1", "[::1]:7860", 200),
        ("localhost", "127.0.0.1", 200),
        ("127.0.0.1", "evil.example:7860", 404),
        ("127.0.0.1", "127.0.0.1.evil.example", 404),
        ("127.0.0.1", "", 404),
        ("0.0.0.0", "lab.example:7860", 200),
    ],
)
def test_a_local_server_answers_only_requests_to_this_machine(uploads, listening, host, expected):
    assert status(RequestGuard(application, uploads, listening), "/", host=host) == expected


def test_inputs_are_uploads(uploads):
    guard = RequestGuard(application, uploads, "127.0.0.1")

    def join(*files):
        body = json.dumps({"data": [*({"path": file, "meta": {}} for file in files), "", None], "fn_index": 0}).encode()
        sent = request(guard, "/gradio_api/queue/join", body)
        return sent[0]["status"], sent[1]["body"] == body

    assert join(f"{uploads}/a.wav") == (200, True)
    assert join() == (200, True)
    for path in (
        "/etc/passwd",
        "http://example.org/a.wav",
        f"{uploads}/link",
        f"{uploads}/../secret",
        "a.wav",
        ["x"],
        3,
    ):
        assert join(f"{uploads}/a.wav", path) == (400, False), path
    for body in (b"no json", b"[" * 100_000, b" " * (MAX_REQUEST + 1)):
        assert status(guard, "/gradio_api/queue/join", body) == 400
