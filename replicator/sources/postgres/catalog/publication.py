"""How a publication gives a table's changes, and whether that was another way meanwhile: then the log lacks some,
without a word.

What was changed and changed back leaves other versions of the catalog's rows: `xmin` names the transaction that wrote
one, and is kept when the row is frozen.  Sources: PostgreSQL 18 manual, chapter 52 (pg_publication, pg_publication_rel,
pg_publication_namespace).
"""

from __future__ import annotations

NOT_PUBLISHED = "-"
FILTERS_SINCE = SCHEMAS_SINCE = 150000

# While a table is unlogged, its changes are in no log.  The server lets none become so that is named in a publication,
# but any other. What it is stored in then changes twice; TRUNCATE and VACUUM FULL keep the TOAST table, which tells it
# where there is one.
_STORED = "COALESCE(NULLIF(c.reltoastrelid, 0), c.relfilenode)"

# A partition is published by what it is a part of, too, where changes come as the partition's.
_PARTS = "c.relispartition AND NOT p.pubviaroot AND"
_ANCESTORS = "pg_catalog.pg_partition_ancestors(c.oid)"
_MEMBER = (
    "SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid "
    f"AND (r.prrelid = c.oid OR ({_PARTS} r.prrelid IN (SELECT a.relid FROM {_ANCESTORS} a)))"
)
_BY_SCHEMA = (
    "SELECT FROM pg_catalog.pg_publication_namespace s WHERE s.pnpubid = p.oid AND (s.pnnspid = c.relnamespace OR"
    f" ({_PARTS} s.pnnspid IN (SELECT x.relnamespace FROM {_ANCESTORS} a JOIN pg_catalog.pg_class x ON x.oid ="
    " a.relid)))"
)


def sound(version: int, *, ours: bool) -> str:
    """SQL: does the publication p give all changes of all rows of the relation c, as those of c?

    `ours`: of all columns, too.

    What a user's list of columns leaves out may be left out of the selection.
    """
    kinds = "p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND (p.pubviaroot OR c.relkind <> 'p')"
    whole = "(p.puballtables AND NOT (p.pubviaroot AND c.relispartition))"
    if version < FILTERS_SINCE:
        return f"({kinds} AND ({whole} OR EXISTS ({_MEMBER})))"
    in_part = f"r.prrelid = c.oid AND (r.prqual IS NOT NULL{' OR r.prattrs IS NOT NULL' if ours else ''})"
    # A schema's publication takes no notice of a filter of a table of it.
    named = f"(EXISTS ({_MEMBER}) AND NOT EXISTS ({_MEMBER} AND {in_part}))"
    return f"({kinds} AND ({whole} OR EXISTS ({_BY_SCHEMA}) OR {named}))"


def published(version: int, *, ours: bool) -> str:
    """SQL: a short digest of the rows of the catalog by which the publication p gives the relation c; `-` where it does
    not, or not all.

    p may be null.
    """
    rows = [
        _MEMBER.replace(
            "SELECT", "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', r.oid, r.xmin), ',' ORDER BY r.oid)", 1
        )
    ]
    if version >= SCHEMAS_SINCE:
        rows.append(
            _BY_SCHEMA.replace(
                "SELECT",
                "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', s.oid, s.xmin), ',' ORDER BY s.oid)",
                1,
            )
        )
    unnamed = " OR ".join(["p.puballtables", *([f"EXISTS ({_BY_SCHEMA})"] if version >= SCHEMAS_SINCE else [])])
    rows.append(f"CASE WHEN {unnamed} THEN {_STORED} END")
    parts = ", ".join(f"({row})" for row in rows)
    digest = f"pg_catalog.left(pg_catalog.md5(pg_catalog.concat_ws(';', p.oid, p.xmin, {parts})), 12)"
    return f"CASE WHEN {sound(version, ours=ours)} THEN {digest} ELSE '{NOT_PUBLISHED}' END"
