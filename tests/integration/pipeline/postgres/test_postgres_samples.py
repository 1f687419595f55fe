"""Whole sample databases on Postgres, copied while writers change them, compared row by row."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.data.postgres_datasets import chinook, employees
from benchmarks.data.psql_script import pieces
from benchmarks.data.writer import Transactions, Writer
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
DATA = Path(__file__).resolve().parents[5] / "shared" / "data"
PAGILA = Path(__file__).with_name("pagila_like.sql")
# {n} counts, {r} is a random number below a million.
RENTALS: Transactions = (
    ("INSERT INTO customer (first_name, last_name) VALUES ('New', 'Nr {n}')",
     ("INSERT INTO rental (rental_date, film_id, customer_id) SELECT now(), film_id, "
     "currval('customer_customer_id_seq') FROM film WHERE film_id = 1 + {r} % 1000"),
     ("INSERT INTO payment (customer_id, rental_id, amount, payment_date) "
     "SELECT customer_id, rental_id, 2.99, rental_date FROM rental ORDER BY rental_id DESC LIMIT 1")),
    (("UPDATE film SET rental_rate = {r} % 9 + 0.99, special_features = special_features || 'Nr {n}'::text "
     "WHERE film_id = 1 + {r} % 1000"),),
    ("UPDATE film SET description = description || ' again {n}' WHERE film_id = 1 + {r} % 1000",),
    (("UPDATE payment SET payment_date = payment_date + interval '31 days', amount = amount + 1 "
     "WHERE payment_id = 1 + {r} % 16000"),),
    (("UPDATE rental SET return_date = now(), lent_for = tstzrange(rental_date, now()) "
     "WHERE rental_id = 1 + {r} % 16000"),),
    ("UPDATE rental SET rental_id = 100000 + {r} + {n} WHERE rental_id = 1 + {r} % 16000",),
    ("DELETE FROM payment WHERE payment_id = 1 + {r} % 16000",
        "DELETE FROM rental WHERE rental_id = 1 + ({r} + 7) % 16000"),
    ("DELETE FROM film_actor WHERE actor_id = 1 + {r} % 200 AND film_id % 9 = {n} % 9",
     "UPDATE actor SET actor_id = 1000 + {r} + {n} WHERE actor_id = 1 + {r} % 200"),
    ("DELETE FROM film WHERE film_id = 1 + {r} % 1000 AND {n} % 5 = 0",),
    ("INSERT INTO staff_note VALUES ('2022-01-01', 'note 3'), (now(), NULL)",
     "UPDATE staff_note SET said = said || '!' WHERE ctid = (SELECT ctid FROM staff_note LIMIT 1)",
     "DELETE FROM staff_note WHERE ctid = (SELECT ctid FROM staff_note WHERE said = 'note 3' LIMIT 1)"),
)  # fmt: skip


@pytest.fixture
def lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def sample(*path: str) -> Path:
    script = DATA.joinpath(*path)
    if not script.exists():
        pytest.skip(f"the sample database {path[0]} is not beside the repository (../shared/data)")
    return script


def copied_under_writes(lab: PostgresLab, script: Path, writes: Transactions, tables: int) -> int:
    """The whole schema, from its first rows to the last write; returns the rows compared."""
    lab.execute(*pieces(script))
    lab.replicate()
    with ExitStack() as stack:
        writers = [stack.enter_context(Writer(writing(lab), writes[n:] + writes[:n], seed=n)) for n in range(2)]
        lab.run(timeout=300)
    assert all(writer.transactions > 100 for writer in writers)
    assert set(lab.states().values()) == {"streaming"}
    return lab.run_and_compare(tables)


def writing(lab: PostgresLab) -> Any:
    connection = lab.connect()
    connection.autocommit = False
    return connection


@pytest.mark.long
def test_chinook(lab: PostgresLab) -> None:
    script = sample("chinook", "Chinook_PostgreSql.sql")
    assert copied_under_writes(lab, script, chinook(DATA).writes, tables=11) > 14_000


@pytest.mark.long
def test_employees_with_the_log_that_its_trigger_writes(lab: PostgresLab) -> None:
    script = sample("employees", "postgres", "employee.sql")
    assert copied_under_writes(lab, script, employees(DATA).writes, tables=7) > 120_000


def test_a_film_rental_of_enums_arrays_domains_tsvectors_cascades_and_partitions(
    lab: PostgresLab, caplog: pytest.LogCaptureFixture
) -> None:
    assert copied_under_writes(lab, PAGILA, RENTALS, tables=10) > 30_000
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
