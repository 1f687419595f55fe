"""How a publication gives a table's changes, and whether that was another way meanwhile: then the log lacks some, without a word.

What was changed and changed back leaves other versions of the catalog's rows: `xmin` names the transaction that wrote one, and is
kept when the row is frozen.  Sources: PostgreSQL 18 manual, chapter 52 (pg_publication, pg_publication_rel, pg_publication_namespace).
"""

from __future__ import annotations

NOT_PUBLISHED = "-"
FILTERS_SINCE = SCHEMAS_SINCE = 150000

_MEMBER = "SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid"
_BY_SCHEMA = "SELECT FROM pg_catalog.pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace"


def sound(version: int) -> str:
    """SQL: does the publication p give all changes of all rows of the relation c, as those of c?"""
    kinds = "p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND (p.pubviaroot OR c.relkind <> 'p')"
    if version < FILTERS_SINCE:
        return f"({kinds} AND (p.puballtables OR EXISTS ({_MEMBER})))"
    # A schema's publication takes no notice of a filter of a table of it.
    return f"({kinds} AND (p.puballtables OR EXISTS ({_BY_SCHEMA}) OR EXISTS ({_MEMBER} AND r.prqual IS NULL)))"


def published(version: int) -> str:
    """SQL: a short digest of the rows of the catalog by which the publication p gives the relation c; `-` where it does not, or not all.

    p may be null.
    """
    rows = [
        _MEMBER.replace(
            "SELECT", "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', r.oid, r.xmin), ',' ORDER BY r.oid)"
        )
    ]
    if version >= SCHEMAS_SINCE:
        rows.append(
            _BY_SCHEMA.replace("SELECT", "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', s.oid, s.xmin), ',')")
        )
    parts = ", ".join(f"({row})" for row in rows)
    digest = f"pg_catalog.left(pg_catalog.md5(pg_catalog.concat_ws(';', p.oid, p.xmin, {parts})), 12)"
    return f"CASE WHEN {sound(version)} THEN {digest} ELSE '{NOT_PUBLISHED}' END"
