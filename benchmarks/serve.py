"""How many decisions a second over HTTP: `opo_cmab.serve` with 1 to 64 clients, with `Bandit` in-process beside it.

A round is a rank and its reward: 4 actions, a context of 3 features. The clients are one process and keep their
connections; they share the machine with the service. The last row asks more than it may: what it gets is refusals
(429, 503), no errors. Results: OUT/serve.md and OUT/serve.csv.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import opo_cmab
import pandas as pd
from opo_cmab.compare.rows import Row

from benchmarks import bandit
from benchmarks.shared.program import count, directory, parse, where, write
from benchmarks.shared.tables import markdown_of

PREFIX = "/personalizer/v1.0"
ACTIONS = [{"id": name} for name in bandit.ACTIONS]


@contextmanager
def service(path: str, *arguments: str) -> Iterator[int]:
    """Its port."""
    command = [sys.executable, "-m", "opo_cmab.serve", path, "--port", "0", "--seed", "0", *arguments]
    environment = {**os.environ, "OPO_CMAB_KEY": "benchmark"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


@dataclass
class Clients:
    """What they have seen."""

    port: int
    left: int  #: rounds to do
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"rank": [], "reward": []})
    refused: Counter[int] = field(default_factory=Counter)
    errors: int = 0

    async def play(self, client: int) -> None:
        rng = random.Random(client)
        streams = None
        while self.left > 0:
            self.left -= 1
            features = [bandit.context_of(self.left, rng)]
            body = {"contextFeatures": features, "actions": ACTIONS}
            streams, answer = await self.insist(streams, "rank", f"{PREFIX}/rank", body)
            path = f"{PREFIX}/events/{json.loads(answer)['eventId']}/reward"
            streams, _ = await self.insist(streams, "reward", path, {"value": float(rng.random() < 0.3)})
        if streams is not None:
            streams[1].close()

    async def insist(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None, call: str, path: str, body: object
    ) -> tuple[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None, bytes]:
        """Asks again while it is told to wait."""
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nOcp-Apim-Subscription-Key: benchmark\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        while True:
            start = time.perf_counter()
            if streams is None:
                streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = streams
            writer.write(head.encode() + text)
            told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            status = int(told.split()[1])
            length = told.partition("content-length: ")[2].partition("\r")[0]
            answer = await reader.readexactly(int(length or 0))
            if "connection: close" in told:
                writer.close()
                streams = None
            if status in (201, 204):
                self.seconds[call].append(time.perf_counter() - start)
                return streams, answer
            self.refused[status] += 1
            self.errors += status not in (429, 503)
            await asyncio.sleep(0.05)


def measure(name: str, path: str, clients: int, rounds: int, *arguments: str) -> Row:
    async def run(port: int) -> Clients:
        seen = Clients(port, rounds)
        await asyncio.gather(*(seen.play(client) for client in range(clients)))
        return seen

    with service(path, *arguments) as port:
        start = time.perf_counter()
        seen = asyncio.run(run(port))
        taken = time.perf_counter() - start
    row: Row = {"what": name, "clients": clients, "per_second": len(seen.seconds["reward"]) / taken}
    for call, seconds in seen.seconds.items():
        row[f"{call}_p50"], row[f"{call}_p99"] = 1e3 * np.quantile(seconds, [0.5, 0.99])
    return row | {"refused": sum(seen.refused.values()) - seen.errors, "errors": seen.errors}


def in_process(path: str, rounds: int) -> Row:
    with opo_cmab.Bandit(path, seed=0) as alone:
        row = bandit.measure("Bandit in-process", bandit.with_bandit(alone), rounds, 1)
    found: Row = {"what": row["what"], "clients": 1, "per_second": row["per_second"], "refused": 0, "errors": 0}
    for call, name in (("rank", "choose"), ("reward", "reward")):
        found |= {f"{call}_{q}": float(row[f"{name}_{q}"] or 0) / 1e3 for q in ("p50", "p99")}
    return found


def table(rows: Sequence[Row]) -> list[str]:
    columns = {"": "{what}", "clients": "{clients:.0f}", "rounds a second": "{per_second:,.0f}"}
    columns |= {f"{call} p{q} ms": f"{{{call}_p{q}:.2f}}" for call in ("rank", "reward") for q in (50, 99)}
    return markdown_of(rows, columns | {"429 and 503": "{refused:.0f}", "errors": "{errors:.0f}"})


@dataclass(frozen=True)
class Options:
    rounds: int = count(4_000, "of each load")
    out: Path = directory("serve")


def main(arguments: Sequence[str] | None = None) -> None:
    options, place = parse(Options, "serve", __doc__, arguments), where()
    with TemporaryDirectory() as folder:
        rows = [in_process(f"{folder}/alone", options.rounds)]
        for clients in (1, 4, 16, 64):
            rows.append(measure("opo_cmab.serve", f"{folder}/{clients}", clients, options.rounds))
        limits = "--rate", "400", "--most-clients", "48"
        name = "with --rate 400 --most-clients 48"
        rows.append(measure(name, f"{folder}/limited", 64, max(64, options.rounds // 10), *limits))
    about = f"{place['machine']}, {place['cores']} cores, {place['date']}. {place['versions']}. "
    about += "`python -m benchmarks.serve`; a round is a rank and its reward: 4 actions, 3 features."
    text = ["# Serve: rounds a second", "", about, "", *table(rows)]
    write("serve", pd.DataFrame(rows).assign(**place), "\n".join(text) + "\n", options.out)


if __name__ == "__main__":
    main()
