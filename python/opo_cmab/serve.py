"""A bandit over HTTP, for clients of Azure Personalizer and others. docs/from-personalizer.md is the guide."""

from __future__ import annotations

import argparse
import base64
import hmac
import ipaddress
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .bandit import Bandit, BanditError
from .bandit.features import finite
from .bandit.logs import leaves
from .bandit.session import AWAY

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise ImportError('the service needs more packages: pip install "vw-opo-cmab[serve]"') from error
if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["application", "main"]

VERSIONS = "/personalizer", "/personalizer/v1.0", "/personalizer/v1.1-preview.{preview:int}"  # the first: api-version=
CODES = {400: "BadRequest", 404: "ResourceNotFound", 500: "InternalServerError"}
LONGEST = 256  # characters of an event's id, as in Personalizer, and of a feature's name
SAFE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}


def _problem(status: int, message: str, **headers: str) -> Response:
    """An error as Personalizer writes it."""
    code = CODES.get(status) or HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
    told = {"error": {"code": code, "message": message[:500]}}
    return JSONResponse(told, status, {"Cache-Control": "no-store"} | headers)


async def _explained(_: Request, error: Exception) -> Response:
    """What went wrong, without more than the caller may know."""
    if isinstance(error, HTTPException):
        return _problem(error.status_code, error.detail, **(error.headers or {}))
    if isinstance(error, BanditError):  # a full disk: nothing was recorded
        print(error, file=sys.stderr, flush=True)
        return _problem(503, "the bandit's file cannot be used now: nothing was recorded", **{"Retry-After": "10"})
    if isinstance(error, RecursionError):
        return _problem(400, "the request is nested too deep")
    return _problem(404, error.args[0]) if isinstance(error, KeyError) else _problem(400, str(error))


async def _crashed(*_: Any) -> Response:
    return _problem(500, "the service failed: its log says why")


class Guard:
    """Before everything else: who asks, how often, and how long it took."""

    def __init__(self, app: ASGIApp, key: str | None, rate: float, metrics: Metrics | None) -> None:
        self.app, self.key, self.rate, self.metrics = app, key, max(rate, 1), metrics
        self._left, self._at = self.rate, time.monotonic()  # a bucket of tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await (self._refused(Request(scope)) or self.app)(scope, receive, noting)
        finally:
            if self.metrics is not None:
                self.metrics.note(scope["path"], status, time.perf_counter() - start)

    def _refused(self, request: Request) -> Response | None:
        if request.scope["path"] == "/health":
            return None
        host = request.headers.get("host", "")  # of a page that was led here by its name
        if self.key is None and not _is_loopback(host.rpartition(":")[0] or host):
            return _problem(400, "without a key only localhost is served")
        if self.key is not None and not hmac.compare_digest(_given(request).encode(), self.key.encode()):
            challenge = {"WWW-Authenticate": 'Basic realm="opo_cmab", charset="UTF-8"'}
            return _problem(401, "give the key in the header Ocp-Apim-Subscription-Key", **challenge)
        now = time.monotonic()
        self._left, self._at = min(self.rate, self._left + (now - self._at) * self.rate), now
        if self._left < 1:
            return _problem(429, "too many requests", **{"Retry-After": "1"})
        self._left -= 1
        return None


def _given(request: Request) -> str:
    """The key: in Personalizer's header or, for browsers, as the password."""
    with suppress(ValueError):
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            return base64.b64decode(value).decode().partition(":")[2]
    return str(request.headers.get("ocp-apim-subscription-key", ""))


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


class Metrics:
    """For Prometheus."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Gauge, Histogram

        self.registry = CollectorRegistry()
        self._seconds = Histogram("opo_cmab_request_seconds", "of calls", ["call", "status"], registry=self.registry)
        self._gauge = Gauge("opo_cmab_bandit", "what the bandit says about itself", ["what"], registry=self.registry)

    def note(self, path: str, status: int, seconds: float) -> None:
        call = path.rpartition("/")[2]
        known = call in ("rank", "reward", "activate", "status", "model", "metrics", "health", "")
        self._seconds.labels(call if known else "other", str(status)).observe(seconds)

    def text(self, status: dict[str, Any]) -> bytes:
        from prometheus_client import generate_latest

        for what, value in status.items():
            self._gauge.labels(what).set(math.nan if value is None else value)
        return bytes(generate_latest(self.registry))


class Service:
    """What the calls do. Those that decide or learn run in the loop: the bandit takes them one after the other."""

    def __init__(self, bandit: Bandit, most_actions: int, most_bytes: int, metrics: Metrics | None) -> None:
        self.bandit, self.most_actions, self.most_bytes, self.metrics = bandit, most_actions, most_bytes, metrics

    async def _object(self, request: Request) -> dict[str, Any]:
        """The body."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):  # so that a form on another page cannot send it
            raise HTTPException(415, "the content type must be application/json")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.most_bytes:
                raise HTTPException(413, f"the body is longer than {self.most_bytes} bytes")
        found = json.loads(bytes(body).decode())
        if not isinstance(found, dict):
            raise ValueError("the body must be an object")
        return found

    async def rank(self, request: Request) -> Response:
        body = await self._object(request)
        offered, excluded = _list(body, "actions"), _list(body, "excludedActions")
        if len(offered) > self.most_actions:
            raise ValueError(f"actions: {len(offered)} are more than {self.most_actions}")
        id, is_deferred = body.get("eventId"), body.get("deferActivation") or False
        if not isinstance(is_deferred, bool):
            raise ValueError("deferActivation must be true or false")
        if id is not None and (not isinstance(id, str) or not 0 < len(id) <= LONGEST or "\0" in id):
            raise ValueError(f"eventId must be a string of at most {LONGEST} characters")
        context = _features({"FromUrl": _list(body, "contextFeatures")})
        actions = [_action(action) for action in offered]
        if not all(isinstance(name, str) for name in excluded):
            raise ValueError("excludedActions must be ids of actions")
        names = [name for name, _ in actions]
        decision = self.bandit.choose(context, actions, exclude=set(excluded) & set(names), ids=id)
        if is_deferred:
            self._set_time(decision.id, AWAY + decision.time.timestamp())
        others = 0.0 if decision.probability == 1 else 1.0  # an apprentice's are those of the baseline
        rest = [(name, others * p) for name, p in decision.ranking if name != decision.action]
        left = iter([(decision.action, decision.probability), *rest])
        ranking = [(name, 0.0) if name in excluded else next(left) for name in names]  # excluded ones keep their place
        answer = {"ranking": [{"id": name, "probability": p} for name, p in ranking]}
        return JSONResponse(answer | {"eventId": decision.id, "rewardActionId": decision.action}, 201)

    async def reward(self, request: Request) -> Response:
        body = await self._object(request)
        id, value = request.path_params["id"], finite(body.get("value"), "the reward, value,")
        self._set_time(id)
        try:
            self.bandit.reward(id, value)
        except ValueError as error:
            if "already has" not in str(error):
                raise  # a second reward of another value is answered as Personalizer did: the first one counts
        return Response(status_code=204)

    async def activate(self, request: Request) -> Response:
        self._set_time(request.path_params["id"])
        return Response(status_code=204)

    def _set_time(self, id: str, until: float | None = None) -> None:
        """A decision that nobody has seen yet waits for no reward; from now on it does if nothing else is said."""
        with self.bandit._held():
            store, now = self.bandit._store, self.bandit._ahead + time.monotonic()
            store.find("n", id)  # or KeyError
            store.run("UPDATE decisions SET time = ? WHERE id = ? AND (time > ? OR ?)", until or now, id, AWAY, until)

    async def status(self, _: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.bandit.status))

    async def model(self, _: Request) -> Response:
        """As VW's file."""

        def newest() -> bytes:
            with self.bandit._held():
                self.bandit._model.save(self.bandit._store, every=1)
                found = self.bandit._store.run("SELECT bytes FROM models ORDER BY rounds DESC LIMIT 1")
            if not found:
                raise HTTPException(404, "there is no model yet: nothing was learnt")
            return bytes(found[0][0])

        return Response(await run_in_threadpool(newest), media_type="application/octet-stream")

    async def report(self, _: Request) -> Response:
        def page() -> str:
            with TemporaryDirectory(prefix="opo_cmab-") as folder:
                return self.bandit.report(Path(folder) / "report.html").read_text()

        return HTMLResponse(await run_in_threadpool(page), headers=SAFE)

    async def measured(self, _: Request) -> Response:
        assert self.metrics is not None
        status = await run_in_threadpool(self.bandit.status)
        return Response(self.metrics.text(status), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def described(self, _: Request) -> Response:
        return Response((Path(__file__).parent / "openapi.json").read_bytes(), media_type="application/json")

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})


def _list(body: dict[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    if not isinstance(found, list | None):
        raise ValueError(f"{name} must be a list")
    return found or []


def _features(given: dict[str, Any]) -> dict[str, Any]:
    """Named as in Personalizer's logs."""
    found = dict(leaves(given))
    if any(len(name) > LONGEST for name in found):
        raise ValueError(
            f"a feature has a name, or is nested so deep that its path is, longer than {LONGEST} characters"
        )
    return found


def _action(given: Any) -> tuple[str, dict[str, Any]]:
    """Its id, and its features."""
    if not isinstance(given, dict) or not isinstance(given.get("id"), str):
        raise ValueError('each action must be an object with an "id" that is a string, and with "features"')
    return given["id"], {"i.constant": 1} | _features({"j": _list(given, "features")})


def application(
    bandit: Bandit, key: str | None = None, rate: float = math.inf, most_actions: int = 100, most_bytes: int = 1 << 20
) -> Guard:
    """An ASGI application. It does not close the bandit.

    Args:
        bandit: opened for writing.
        key: that callers must give; none: only requests to localhost are answered.
        rate: requests a second; more get 429.
        most_actions: in a rank.
        most_bytes: of a body.
    """
    metrics = None
    with suppress(ImportError):
        metrics = Metrics()
    service = Service(bandit, most_actions, most_bytes, metrics)
    calls: list[tuple[str, Callable[[Request], Awaitable[Response]], str]] = [
        ("/rank", service.rank, "POST"),
        ("/events/{id:path}/reward", service.reward, "POST"),
        ("/events/{id:path}/activate", service.activate, "POST"),
        ("/status", service.status, "GET"),
        ("/model", service.model, "GET"),
    ]
    routes = [Route(prefix + path, call, methods=[method]) for prefix in VERSIONS for path, call, method in calls]
    routes += [Route("/", service.report), Route("/status", service.status), Route("/health", service.health)]
    routes += [Route("/openapi.json", service.described)] + ([Route("/metrics", service.measured)] if metrics else [])
    kinds = (HTTPException, BanditError, RecursionError, KeyError, ValueError)
    handlers: Any = dict.fromkeys(kinds, _explained) | {Exception: _crashed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), key, rate, metrics)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m opo_cmab.serve", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("path", help="the file of the bandit; made if it does not exist")
    add("--host", default="127.0.0.1", help="address to listen on; others than loopback need a key (%(default)s)")
    add("--port", type=int, default=8080, help="(%(default)s; 0: any)")
    add("--wait", default="10min", help="for a reward: 30s, 10min, 1h, 2d (%(default)s)")
    add("--otherwise", type=float, default=0.0, help="the reward of a decision that got none (%(default)s)")
    add("--apprentice", action="store_true", help="plays the first action, and learns")
    add("--epsilon", type=float, help="least probability of an action, times the number of actions")
    add("--vw", help="more arguments of VW")
    add("--seed", type=int, help="of the draws")
    add("--rate", type=float, default=math.inf, help="requests a second; more get 429 (no limit)")
    add("--most-clients", type=int, default=512, help="connections; more get 503 (%(default)s)")
    add("--most-actions", type=int, default=100, help="of a rank (%(default)s)")
    add("--most-bytes", type=int, default=1 << 20, help="of a body (%(default)s)")
    given, key = parser.parse_args(arguments), os.environ.get("OPO_CMAB_KEY") or None
    if key is None and not _is_loopback(given.host):
        parser.error(f"to listen on {given.host} set a key: OPO_CMAB_KEY=... in the environment")
    settings = {name: getattr(given, name) for name in ("wait", "otherwise", "epsilon", "vw", "seed")}
    try:
        bandit = Bandit(given.path, baseline=(lambda _, names: names[0]) if given.apprentice else None, **settings)
    except (BanditError, ValueError) as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn ends the calls, then raises the signal again
    with closing(bandit), suppress(KeyboardInterrupt):
        limits = {name: getattr(given, name) for name in ("rate", "most_actions", "most_bytes")}
        quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
        times = {"timeout_keep_alive": 60, "timeout_graceful_shutdown": 10, "limit_concurrency": given.most_clients}
        config = uvicorn.Config(application(bandit, key, **limits), given.host, given.port, **quiet, **times)
        with closing(config.bind_socket()) as listening:
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer takes 40 ms
            listening.listen(config.backlog)
            print(f"http://{given.host}:{listening.getsockname()[1]}", flush=True)
            uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
