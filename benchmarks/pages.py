"""Every page and API at the server, on a metadata database as an installation of 200 tables has it after 30 days."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.data import clients, installation
from benchmarks.data.world import World
from benchmarks.report import Row

PAGE_GOAL, CHARTS_GOAL = 500.0, 300.0  # milliseconds
HTMX = {"HTTP_HX_REQUEST": "true"}


def run(world: World[Any], repeats: int) -> list[Row]:
    """The median of each, through Django's test client: middleware, view, database and template, without the
    network.
    """
    from django.test import Client

    from webapp.accounts.services import create_token
    from webapp.alerts.evaluation import evaluate

    began = time.monotonic()
    made = installation.fill(installation.at_a_minute())
    print(f"{made.rows:,} rows in {time.monotonic() - began:.0f} s", file=sys.stderr)
    evaluate()
    client = Client(SERVER_NAME="localhost")
    client.force_login(made.user)
    rows = [
        measured(client, name, path, repeats, CHARTS_GOAL if "charts" in path else PAGE_GOAL)
        for name, path in addresses(made).items()
    ]
    token, one = create_token(user=made.user, name="benchmark"), f"/api/v1/replicators/{made.replicator}/"
    asked = {"api tables": f"{one}tables/", "api replicators": "/api/v1/replicators/", "api replicator": one}
    rows += clients.run(world.folder, token, asked)
    return [
        Row(f"pages: rows in the metadata database, {installation.TABLES} tables, {installation.DAYS} days", made.rows,
            None, "none", met=True),
        *rows,
    ]  # fmt: skip


def measured(client: Any, name: str, path: str, repeats: int, goal: float) -> Row:
    """SystemExit where the answer is none."""
    extra = HTMX if name.startswith("live") else {}
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        answer = client.get(path, **extra)
        taken.append(1000 * (time.perf_counter() - begun))
        if answer.status_code != 200:
            sys.exit(f"{path} answered {answer.status_code}")
    median = statistics.median(taken)
    return Row(f"pages: {name}", median, None, f"≤ {goal:.0f} ms", median <= goal, "ms")


def addresses(made: installation.Installation) -> Mapping[str, str]:
    """What is asked, by name."""
    page, api = f"/replicators/{made.replicator}/", f"/api/v1/replicators/{made.replicator}/"
    tabs = ("tables/", "activity/", "logs/", "schema/", "lineage/", f"lineage/{made.table}/", "settings/")
    found = {
        "fleet": "/",
        "live fleet": "/fleet/rows/",
        "overview": page,
        "live overview": page,
        "live head": f"{page}head/",
    }
    found |= {tab.strip("/").replace(f"/{made.table}", " of a table"): f"{page}{tab}" for tab in tabs}
    for name in ("1h", "6h", "24h", "7d", "30d"):
        found[f"charts {name}"] = f"{page}charts/?range={name}"
    found["charts 30d, all tables of figures open"] = f"{page}charts/?range=30d" + "".join(
        f"&open={key}" for key in OPEN
    )
    found["charts 30d of a table"] = f"{page}charts/?range=30d&table={made.table}"
    found["live charts 30d"] = f"{page}charts/?range=30d"
    found |= {"alerts": "/alerts/", "connections": "/connections/"}
    found |= {"api replicators": "/api/v1/replicators/", "api replicator": api, "api tables": f"{api}tables/"}
    found |= {
        f"api {name}": f"{api}{name}/"
        for name in ("failures", "failures/counts", "logs", "timeline", "slo", "alert-rules")
    }
    found["api metrics of a day"] = f"{api}metrics/?minutes=1440"
    found["api charts 30d"] = f"{api}charts/?range=30d"
    found["api charts 30d of a table"] = f"{api}charts/?range=30d&table={made.table}"
    return found


OPEN = (
    "lag", "throughput", "backlog-rows", "backlog-bytes", "backlog-age", "log-kept", "merge-time", "merge-rows",
    "merge-bytes", "failures",
)  # fmt: skip
