"""The catalog's rows of tables and types as JSON, by queries that any session may run: ours, or an event trigger's.

Sources: PostgreSQL 18 manual, chapter 52 (pg_class, pg_attribute, pg_index, pg_inherits, pg_type); the same columns
since 13. All names are qualified, for search_path is empty.  JSON has no oid: they go as numbers.  From 18 a NOT NULL
may be one that older rows do not keep (NOT VALID).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import literal

# The relation c is in an inheritance tree: a SELECT of a parent gives rows that the log has as a child's.  A temporary
# child's are given to its own session only.
INHERITS = """NOT c.relispartition AND c.relkind IN ('r', 'f')
    AND EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class k ON k.oid = i.inhrelid
                WHERE (i.inhrelid = c.oid OR i.inhparent = c.oid) AND k.relpersistence <> 't')"""
# What the type t is a range, or a multirange, of.  A multirange hangs on its range; 13 has none, and no column that
# would say it.
SUBTYPES = """SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
     UNION ALL SELECT d.refobjid FROM pg_catalog.pg_depend d
       WHERE t.typtype = 'm' AND d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid
         AND d.deptype = 'i'
         AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass"""

# Of the relation c: the texts of an `attributes.Print` after the oid.  A version of a row of pg_attribute is named by
# the transaction that wrote it; labels of enums and fields of composite types, however deep, decide what stored values
# look like (a label's transaction tells one that had another text for a while). A partitioned table's storage is its
# partitions: a(ttached) with the rows that they had, b(uilt) and attached in the transaction that made their row type,
# or c(reated) as such; and in which transaction.  ATTACH writes all rows of a partition's columns again.
PRINTS = f"""
CASE c.relkind WHEN 'p' THEN 'p' || COALESCE((
  WITH RECURSIVE down AS (
    SELECT i.inhrelid, i.xmin AS at FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid
    UNION ALL SELECT i.inhrelid, i.xmin FROM pg_catalog.pg_inherits i JOIN down ON i.inhparent = down.inhrelid)
  SELECT pg_catalog.string_agg(pg_catalog.concat_ws(':', l.oid, l.relfilenode,
    CASE WHEN down.at <> y.xmin THEN 'a' WHEN EXISTS (
      SELECT FROM pg_catalog.pg_attribute s JOIN pg_catalog.pg_attribute a ON a.attrelid = s.attrelid AND a.attnum > 0
      WHERE s.attrelid = l.oid AND s.attnum = -1 AND a.xmin = s.xmin
        AND a.cmin = s.cmin) THEN 'c' ELSE 'b' END || down.at::text),
    ',' ORDER BY l.oid)
  FROM down JOIN pg_catalog.pg_class l ON l.oid = down.inhrelid JOIN pg_catalog.pg_type y ON y.oid = l.reltype), '')
ELSE c.relfilenode::text END,
(SELECT pg_catalog.md5(pg_catalog.concat_ws(';', c.relreplident, (
   SELECT pg_catalog.string_agg(x.indexrelid::text, ',' ORDER BY x.indexrelid) FROM pg_catalog.pg_index x
   WHERE x.indrelid = c.oid AND (x.indisprimary OR x.indisreplident)),
   pg_catalog.string_agg(pg_catalog.concat_ws(':', a.attnum, a.xmin), ',' ORDER BY a.attnum), (SELECT 'inherits'
     WHERE {INHERITS})))
 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) || '.' || c.relnatts,
(WITH RECURSIVE used AS (
   SELECT a.atttypid AS oid FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
   UNION
   SELECT part.oid FROM used u JOIN pg_catalog.pg_type t ON t.oid = u.oid CROSS JOIN LATERAL (
     SELECT t.typbasetype UNION ALL SELECT t.typelem
     UNION ALL {SUBTYPES}
     UNION ALL SELECT f.atttypid FROM pg_catalog.pg_attribute f WHERE f.attrelid = t.typrelid AND t.typrelid <> 0
       AND f.attnum > 0
   ) AS part (oid) WHERE part.oid >= 16384)
 SELECT COALESCE(pg_catalog.string_agg(part.said, ',' ORDER BY part.said), '-') FROM (
   SELECT pg_catalog.concat_ws(':', l.oid, pg_catalog.left(pg_catalog.md5(l.enumlabel), 6), l.xmin)
   FROM used u JOIN pg_catalog.pg_enum l ON l.enumtypid = u.oid
   UNION ALL
   SELECT pg_catalog.concat_ws(':', t.oid, pg_catalog.left(pg_catalog.md5(
     pg_catalog.string_agg(pg_catalog.concat_ws(':', f.attnum, f.xmin), ',' ORDER BY f.attnum)), 6))
   FROM used u JOIN pg_catalog.pg_type t ON t.oid = u.oid JOIN pg_catalog.pg_attribute f ON f.attrelid = t.typrelid
     AND f.attnum > 0
   WHERE t.typtype = 'c' GROUP BY t.oid) AS part (said))
"""

# {oids}: a list of oids or a query that returns them.  One row for each relation that exists, of any kind.
RELATIONS = f"""
SELECT pg_catalog.json_build_object(
  'oid', c.oid::pg_catalog.int8, 'schema', n.nspname::text, 'name', c.relname::text, 'kind', c.relkind::text,
  'comment', pg_catalog.obj_description(c.oid, 'pg_class'),
  'persistence', c.relpersistence::text, 'identity', c.relreplident::text, 'prints',
    pg_catalog.json_build_array({PRINTS}),
  'row_security', c.relrowsecurity,
  'inherits', {INHERITS},
  'parents', CASE WHEN c.relispartition THEN (
    WITH RECURSIVE up AS (
      SELECT i.inhparent AS oid FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid
      UNION ALL SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN up ON i.inhrelid = up.oid)
    SELECT pg_catalog.json_agg(pg_catalog.json_build_array(pn.nspname::text, pc.relname::text))
    FROM up JOIN pg_catalog.pg_class pc ON pc.oid = up.oid
      JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace) END,
  'leaves', CASE WHEN c.relkind = 'p' THEN (
    WITH RECURSIVE down AS (
      SELECT i.inhrelid AS oid FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid
      UNION ALL SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN down ON i.inhparent = down.oid),
    leaf AS (
      SELECT l.relkind::text AS kind, l.relpersistence::text AS persistence, l.relreplident::text AS identity,
        (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attname)
         FROM pg_catalog.pg_index x JOIN pg_catalog.pg_attribute a
           ON a.attrelid = l.oid AND a.attnum = ANY ((x.indkey::pg_catalog.int2[])[0:x.indnkeyatts - 1])
         WHERE x.indrelid = l.oid AND x.indimmediate
           AND CASE l.relreplident WHEN 'i' THEN x.indisreplident WHEN 'd' THEN x.indisprimary END) AS columns,
        l.relnamespace, l.relname
      FROM down JOIN pg_catalog.pg_class l ON l.oid = down.oid AND l.relkind <> 'p')
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object('kind', g.kind, 'persistence', g.persistence,
      'identity', g.identity, 'columns', g.columns, 'number', g.number, 'example', g.example))
    FROM (SELECT f.kind, f.persistence, f.identity, f.columns, pg_catalog.count(*) AS number,
            pg_catalog.min(pg_catalog.format('%I.%I', ln.nspname, f.relname)) AS example
          FROM leaf f JOIN pg_catalog.pg_namespace ln ON ln.oid = f.relnamespace
          GROUP BY f.kind, f.persistence, f.identity, f.columns) g) END,
  'columns', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', a.attname::text, 'number', a.attnum, 'type', a.atttypid::pg_catalog.int8, 'typmod', a.atttypmod,
      'type_text', pg_catalog.format_type(a.atttypid, a.atttypmod),
      'comment', pg_catalog.col_description(c.oid, a.attnum),
      'not_null', a.attnotnull AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'n' AND NOT k.convalidated AND k.conkey[1] = a.attnum),
      'generated', a.attgenerated::text, 'default', a.atthasdef OR a.attidentity <> '', 'missing', a.atthasmissing)
      ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'indexes', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', ic.relname::text, 'columns', (x.indkey::pg_catalog.int2[])[0:x.indnkeyatts - 1],
      'primary', x.indisprimary, 'chosen', x.indisreplident, 'immediate', x.indimmediate))
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class ic ON ic.oid = x.indexrelid
    WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL)
) AS relation
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN ({{oids}})
"""

# {oids}: as above, of types.  Those that they are made of are in the answer as well: domains' bases, arrays' elements,
# and `parts`: fields of composite types, what ranges are of.
_PARTS = f"""SELECT f.atttypid FROM pg_catalog.pg_attribute f
       WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
     UNION ALL {SUBTYPES}"""
TYPES = f"""
WITH RECURSIVE wanted AS (
  SELECT t.oid FROM pg_catalog.pg_type t WHERE t.oid IN ({{oids}})
  UNION
  SELECT part.oid FROM wanted w JOIN pg_catalog.pg_type t ON t.oid = w.oid
    CROSS JOIN LATERAL (VALUES (t.typbasetype), (t.typelem) UNION ALL {_PARTS}) AS part (oid)
  WHERE part.oid <> 0)
SELECT pg_catalog.json_build_object(
  'oid', t.oid::pg_catalog.int8, 'name', t.typname::text, 'schema', n.nspname::text, 'kind', t.typtype::text,
  'base', t.typbasetype::pg_catalog.int8, 'typmod', t.typtypmod,
  'element', CASE WHEN e.typarray = t.oid THEN t.typelem::pg_catalog.int8 ELSE 0 END,
  'parts', ARRAY(SELECT part.oid::pg_catalog.int8 FROM ({_PARTS}) AS part (oid))) AS type
FROM wanted w JOIN pg_catalog.pg_type t ON t.oid = w.oid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
"""
_TYPES_OF = "SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND a.attrelid IN ({oids})"


def relations_sql(oids: str) -> str:
    """Rows of one JSON object each."""
    return RELATIONS.replace("{oids}", oids)


def types_sql(oids: str) -> str:
    """Rows of one JSON object each."""
    return TYPES.replace("{oids}", oids)


def document_sql(oids: str) -> str:
    """One row, one JSON object {"relations": […], "types": […]}: all that `description` needs of these relations."""
    relations, types = relations_sql(oids), types_sql(_TYPES_OF.replace("{oids}", oids))
    return (
        "SELECT pg_catalog.json_build_object('relations', COALESCE((SELECT pg_catalog.json_agg(r.relation) "
        f"FROM ({relations}) r), '[]'), 'types', COALESCE((SELECT pg_catalog.json_agg(t.type) FROM ({types}) t), '[]'))"
    )


def numbers(oids: Iterable[int]) -> str:
    """Oids as a list for `{oids}`; NULL for none."""
    return ", ".join(str(int(oid)) for oid in oids) or "NULL"


def named(tables: Sequence[TableId]) -> str:
    """A query for `{oids}` of the relations with these names; longer names than Postgres has find what they begin
    with.
    """
    if not tables:
        return "NULL"
    schemas = ", ".join(literal(table.database) for table in tables)
    names = ", ".join(literal(table.name) for table in tables)
    return (
        f"SELECT k.oid FROM ROWS FROM (pg_catalog.unnest(ARRAY[{schemas}]::text[]),"
        f" pg_catalog.unnest(ARRAY[{names}]::text[])) AS wanted (schema, name) JOIN pg_catalog.pg_namespace s ON"
        " s.nspname = wanted.schema::pg_catalog.name JOIN pg_catalog.pg_class k ON k.relnamespace = s.oid AND"
        " k.relname = wanted.name::pg_catalog.name"
    )
