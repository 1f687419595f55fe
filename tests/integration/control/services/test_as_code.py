"""Connections and replicators as code: idempotent, all or nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction

from replicator.errors import ConfigurationError, SourceUnreachable
from replicator.model.table_set import NameRule
from tests.integration.control.conftest import MemorySource
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.console.definitions.apply import apply
from webapp.monitoring.models import TableObjective
from webapp.replicators.models import Desired, Replicator
from webapp.replicators.selectors import tables_called
from webapp.streams.models import Stream

pytestmark = pytest.mark.django_db
FILE = """
connections:
  - name: shop
    kind: memory
    config: {host: "${SHOP_HOST:-localhost}", password: "${SHOP_PASSWORD}"}
replicators:
  - name: copy
    connection: shop
    tables: ["shop.*", {table: crm.notes, exclude_columns: [body]}]
    exclude: ["shop.audit"]
    options: {slo_minutes: 1, ddl_policy: keep}
    state: running
"""
ENVIRON = {"SHOP_PASSWORD": "pw"}


def test_a_file_makes_what_it_says_and_a_second_time_nothing() -> None:
    assert apply(FILE, ENVIRON) == ["connection shop: created", "replicator copy: created", "replicator copy: running"]
    assert apply(FILE, ENVIRON) == []
    assert full_config(Connection.objects.get())["password"] == "pw"
    replicator = Replicator.objects.get()
    assert replicator.desired == Desired.RUNNING
    assert replicator.parsed_options.ddl_preset == "keep"
    lines = {(s.database, s.table, s.excluded, tuple(s.excluded_columns)) for s in replicator.selection.all()}
    assert lines == {("shop", "", False, ()), ("crm", "notes", False, ("body",)), ("shop", "audit", True, ())}


def test_names_are_kept_as_a_source_without_case_compares_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemorySource, "names", lambda _: NameRule(str.lower))
    typed = FILE.replace("shop.*", "Shop.*").replace("crm.notes", "CRM.Notes").replace("shop.audit", "SHOP.Audit")
    apply(typed, ENVIRON)
    replicator = Replicator.objects.get()
    lines = {(line.database, line.table, line.excluded) for line in replicator.selection.all()}
    assert lines == {("shop", "", False), ("crm", "notes", False), ("shop", "audit", True)}
    assert [str(table) for table in replicator.tables.all()] == ["crm.notes"]
    assert apply(typed, ENVIRON) == []
    tables = list(replicator.tables.all())
    assert tables_called(replicator, tables, ["CRM.NOTES", "crm.notes"]) == (tables, [])
    assert tables_called(replicator, tables, ["CRM.Other"]) == ([], ["CRM.Other"])


def test_a_table_that_a_file_names_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line would have taken the mask of the first away."""
    monkeypatch.setattr(MemorySource, "names", lambda _: NameRule(str.lower))
    masked = "[shop.*, {table: CRM.Notes, mask: {body: 'null'}}, crm.notes]"
    (listed,) = [line for line in FILE.splitlines() if line.strip().startswith("tables:")]
    with pytest.raises(ConfigurationError, match="listed twice"):
        apply(FILE.replace(listed, f"{listed.partition('tables:')[0]}tables: {masked}"), ENVIRON)
    assert not Replicator.objects.exists()


def test_what_a_file_does_not_name_stays_protected() -> None:
    """A mask, a row filter and left-out columns go by a line that says so (invariant 12)."""

    def file(line: str) -> str:
        (listed,) = [line for line in FILE.splitlines() if line.strip().startswith("tables:")]
        return FILE.replace(listed, f"{listed.partition('tables:')[0]}tables: [shop.*, {line}]")

    def kept() -> tuple[object, ...]:
        line = Replicator.objects.get().selection.get(table="notes")
        return (list(line.masks), line.excluded_columns, line.row_filter)

    whole = "{table: crm.notes, mask: {body: 'null'}, exclude_columns: [secret], row_filter: 'id > 9'}"
    apply(file(whole), ENVIRON)
    before = kept()
    assert before == (["body"], ["secret"], "id > 9")
    for line in ("crm.notes", "{table: crm.notes}", "{table: crm.notes, slo: null}"):
        assert apply(file(line), ENVIRON) == []
        assert kept() == before
    assert apply(file("{table: crm.notes, mask: {}}"), ENVIRON) == ["replicator copy: selected crm.notes"]
    assert kept() == ([], ["secret"], "id > 9")
    apply(file("{table: crm.notes, exclude_columns: [], row_filter: ''}"), ENVIRON)
    assert kept() == ([], [], "")


def test_a_name_with_capitals_is_refused_while_the_source_cannot_say_what_it_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply(FILE, ENVIRON)

    def away(_: object) -> NameRule:
        raise SourceUnreachable("shop does not answer")

    monkeypatch.setattr(MemorySource, "names", away)
    assert apply(FILE, ENVIRON) == []  # nothing to ask
    with pytest.raises(ConfigurationError, match="whether Notes and notes are one name"):
        apply(FILE.replace("crm.notes", "crm.Notes"), ENVIRON)


def test_changes_are_applied_and_named() -> None:
    apply(FILE, ENVIRON)
    changed = (
        FILE.replace("slo_minutes: 1", "slo_minutes: 2")
        .replace("state: running", "state: paused")
        .replace("crm.notes", "crm.calls")
    )
    assert apply(changed, {"SHOP_PASSWORD": "new"}) == [
        "connection shop: changed password",
        "replicator copy: selected crm.calls",
        "replicator copy: removed crm.notes",
        "replicator copy: changed slo_minutes",
        "replicator copy: paused",
    ]


def test_a_table_may_have_a_objective_of_its_own() -> None:
    """It stays where the file says nothing of it, and goes where it says null."""
    own = FILE.replace("exclude_columns: [body]}", "exclude_columns: [body], slo: {percent: 99.9, minutes: 0.5}}")
    assert "replicator copy: SLO of crm.notes" in apply(own, ENVIRON)
    assert apply(own, ENVIRON) == []
    assert TableObjective.objects.values_list("table__name", "percent", "seconds").get() == ("notes", 99.9, 30)
    assert apply(FILE, ENVIRON) == []
    assert apply(own.replace("99.9", "99.5"), ENVIRON) == ["replicator copy: SLO of crm.notes"]
    none = FILE.replace("exclude_columns: [body]}", "exclude_columns: [body], slo: null}")
    assert apply(none, ENVIRON) == ["replicator copy: SLO of crm.notes"]
    assert apply(none, ENVIRON) == []
    assert TableObjective.objects.get().percent is None


def test_a_single_table_beside_its_database_is_in_its_databases_mode() -> None:
    lines = '[{table: "shop.*", mode: history}, {table: shop.notes, exclude_columns: [body]}]'
    file = FILE.replace('["shop.*", {table: crm.notes, exclude_columns: [body]}]', lines)
    apply(file, ENVIRON)
    assert Replicator.objects.get().tables.get().mode == "history"
    assert apply(file, ENVIRON) == []


def own(target: str) -> str:
    """The file, with a name in the target for its table."""
    return FILE.replace("exclude_columns: [body]}", f"exclude_columns: [body], target: {target}}}")


def called(name: str = "notes") -> tuple[str, str]:
    """What the table's copy is, and is to be, called."""
    row = Replicator.objects.get().tables.get(name=name)
    return f"{row.target_namespace}.{row.target_name}", f"{row.own_namespace}.{row.own_name}".strip(".")


def test_a_table_may_have_a_name_of_its_own_in_the_target() -> None:
    """A new table has it from the beginning; one that is there is renamed, which is said; without a word it stays."""
    assert "replicator copy: the target table of crm.notes is lake.texts" in apply(own("lake.texts"), ENVIRON)
    assert called() == ("lake.texts", "lake.texts")
    assert (apply(own("lake.texts"), ENVIRON), apply(FILE, ENVIRON)) == ([], [])
    with transaction.atomic():
        said = apply(own("a.b.c"), ENVIRON)
        transaction.set_rollback(True)  # as a dry run does
    assert said == ["replicator copy: the target table of crm.notes is renamed from lake.texts to a.b.c"]
    assert called() == ("lake.texts", "lake.texts")
    assert apply(own('{namespace: a, name: " b.c"}'), ENVIRON) == [
        "replicator copy: the target table of crm.notes is renamed from lake.texts to a.b.c"
    ]
    assert apply(own("{namespace: a, name: b.c}"), ENVIRON) == []
    assert called() == ("lake.texts", "a.b.c")  # from the next merge on


def test_a_name_that_another_copy_has_is_refused() -> None:
    apply(own("lake.texts"), ENVIRON)
    other = FILE.replace("name: copy", "name: second").replace('"shop.*", ', "").replace('["shop.audit"]', "[]")
    apply(other, ENVIRON)  # crm.notes, which the first one has left
    with pytest.raises(ConfigurationError, match=r"lake\.texts is the target table of"):
        apply(other.replace("[body]}", "[body], target: lake.texts}"), ENVIRON)
    with pytest.raises(ConfigurationError, match=r"crm\.notes is the target table of"):
        apply(own("crm.notes"), ENVIRON)
    with pytest.raises(ConfigurationError, match=r"lake\.texts is the target table of"):
        apply(other.replace("name: second", "name: third").replace("[body]}", "[body], target: lake.texts}"), ENVIRON)


def fed(*streams: str) -> str:
    """The file, with streams of its replicator."""
    return FILE.replace("state: running", f"streams: [{', '.join(streams)}]\n    state: running")


def test_streams_are_made_and_changed_as_the_file_says() -> None:
    assert apply(fed("{name: s, shards: 2, tables: [crm.notes]}", "{name: all}"), ENVIRON)[2:4] == [
        "replicator copy, stream s: created",
        "replicator copy, stream all: created",
    ]
    assert apply(fed("{name: s, shards: 2, tables: [crm.notes]}", "{name: all}"), ENVIRON) == []
    assert apply(fed("{name: s}"), ENVIRON) == []  # what is not said stays
    assert apply(FILE, ENVIRON) == []
    assert Stream.objects.count() == 2
    changed = fed("{name: s, tables: null, retention_hours: 7.5, enabled: false}", "{name: all, exclude: [crm.notes]}")
    assert apply(changed, ENVIRON) == [
        "replicator copy, stream s: changed its tables",
        "replicator copy, stream s: keeps changes for 7.5 h",
        "replicator copy, stream s: disabled",
        "replicator copy, stream all: changed its tables",
    ]
    assert apply(changed, ENVIRON) == []
    stream = Stream.objects.get(name="s")
    assert (stream.every_table, stream.retention_hours, stream.enabled, stream.shards) == (True, 7.5, False, 2)
    assert apply(fed("{name: all, exclude: []}"), ENVIRON) == ["replicator copy, stream all: changed its tables"]
    with pytest.raises(ConfigurationError, match="shards cannot be changed from 2 to 3"):
        apply(fed("{name: s, shards: 3}"), ENVIRON)
    other = (
        fed("{name: s}")
        .replace("name: copy", "name: second")
        .replace("options:", "target: {namespace_prefix: x_}\n    options:")
    )
    with pytest.raises(ConfigurationError, match="stream s: it is a stream of the replicator copy"):
        apply(other, ENVIRON)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (FILE.replace("kind: memory", "kind: oracle9"), "oracle9"),
        (FILE.replace("shop.*", "shop"), "DATABASE.TABLE"),
        (FILE.replace("connection: shop", "connection: shp"), "shp"),
        (FILE.replace("slo_minutes", "slow_minutes"), "slow_minutes"),
        (FILE.replace("exclude:", "without:"), "without"),
        ("connections: [", "not YAML"),
        (FILE.replace("[body]}", "[body], slo: {percent: 99}}"), "percent and minutes"),
        (FILE.replace("[body]}", "[body], slo: {percent: 99, seconds: 3}}"), "seconds"),
        (FILE.replace("[body]}", "[body], slo: {percent: 99, minutes: 6.69}}"), "not a valid SLO"),
        *(
            (FILE.replace("[body]}", f"[body], slo: {{percent: 99, minutes: {n}}}}}"), "24 hours")
            for n in (".inf", ".nan", 10**400, -1)
        ),
        (FILE.replace("[body]}", f"[body], slo: {{percent: {10**400}, minutes: 1}}}}"), "between 0.1 and 100"),
        (FILE.replace('"shop.*"', "{table: shop.*, slo: {percent: 99, minutes: 1}}"), "not a single"),
        *(
            (FILE.replace("[body]}", f"[body], target: {target}}}"), "crm.notes: target must be NAMESPACE.NAME")
            for target in ("texts", ".texts", "lake.", "null", "[lake, texts]", "{name: texts}", '"lake. "', "7")
        ),
        (FILE.replace("[body]}", "[body], target: lake." + 256 * "x" + "}"), "1 to 255 characters"),
        (FILE.replace("[body]}", '[body], target: "lake.a\\u0007b"}'), "1 to 255 characters"),
        (FILE.replace('"shop.*"', "{table: shop.*, target: a.b}"), "not a single"),
        (FILE.replace('"shop.*"', '{table: "shop.o?", target: a.b}'), "not a single"),
        (FILE.replace('"shop.*"', '{table: "!shop.o", target: a.b}'), "not a single"),
        (FILE.replace('"shop.*"', "{table: crm.calls, target: crm.notes}"), "crm.notes would be written to"),
        (
            FILE.replace("[body]}", "[body], target: a.b}").replace(
                "options:", "target: {kind: kafka, bootstrap_servers: 'x:9092'}\n    options:"
            ),
            "cannot be renamed",
        ),
        (fed("{shards: 2}"), "every stream needs a name"),
        (fed("s"), "every stream needs a name"),
        (fed("{name: Ä}"), "stream Ä: A stream's name has"),
        (fed("{name: s, shard: 2}"), "unknown key 'shard'"),
        (fed("{name: s, shards: 65}"), "1 to 64 shards"),
        (fed("{name: s, shards: true}"), "whole number"),
        (fed("{name: s, shards: 2.0}"), "whole number"),
        *((fed(f"{{name: s, retention_hours: {n}}}"), "1 to 744 hours") for n in (".nan", 0, 10**400)),
        (fed("{name: s, retention_hours: x}"), "must be a number"),
        (fed("{name: s, enabled: 1}"), "true or false"),
        (fed("{name: s, tables: crm.notes}"), "must be a list"),
        (fed("{name: s, tables: []}"), "at least one table"),
        (fed("{name: s, tables: [crm.notes], exclude: [crm.notes]}"), "at least one table"),
        (fed("{name: s, tables: [notes]}"), "DATABASE.TABLE"),
        (fed("{name: s, tables: [shop.orders]}"), r"stream s: The replicator copy has no table shop\.orders"),
    ],
)
def test_a_wrong_file_says_where_and_changes_nothing(wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        apply(wrong, ENVIRON)
    assert not Connection.objects.exists()
    assert not Replicator.objects.exists()


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="SHOP_PASSWORD"):
        apply(FILE, {})


def test_the_commands_say_what_they_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "pw")
    path = tmp_path / "file.yml"
    path.write_text(FILE)
    out = io.StringIO()
    call_command("apply", str(path), stdout=out)
    call_command("apply", str(path), stdout=out)
    assert out.getvalue().splitlines()[-1] == "no changes"
    out = io.StringIO()
    call_command("status", "copy", json=True, stdout=out)
    assert '"status": "starting"' in out.getvalue()
    with pytest.raises(CommandError, match="Unknown replicator"):
        call_command("status", "other")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("apply", str(tmp_path / "absent.yml"))
