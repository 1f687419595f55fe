"""Queries of the catalog views (learn.microsoft.com/sql/relational-databases/system-catalog-views)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.dialect import literal

_OWN = "s.name NOT IN (N'cdc', N'sys', N'INFORMATION_SCHEMA') AND t.is_ms_shipped = 0"
# Rows and bytes are estimates; index 0 is a heap, 1 the clustered index.
TABLES = f"""
SELECT t.object_id, s.name, t.name FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE {_OWN}
"""
SCHEMAS = """
SELECT s.name FROM sys.schemas s
WHERE s.schema_id < 16384 AND s.name NOT IN (N'cdc', N'sys', N'INFORMATION_SCHEMA', N'guest')
"""
SIZES = """
SELECT p.object_id, SUM(CASE WHEN p.index_id IN (0, 1) THEN p.row_count ELSE 0 END), SUM(p.used_page_count) * 8192
FROM sys.dm_db_partition_stats p WHERE {where} GROUP BY p.object_id
"""
ROWS = """
SELECT p.object_id, SUM(p.rows), 0 FROM sys.partitions p WHERE p.index_id IN (0, 1) AND {where} GROUP BY p.object_id
"""
FACTS = """
SELECT t.object_id, s.name, t.name, CONVERT(varchar(40), t.create_date, 121), t.is_memory_optimized, t.temporal_type,
  t.is_external, t.is_filetable,
  (SELECT MAX(p.partition_number) FROM sys.partitions p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1)),
  (SELECT MAX(i.type) FROM sys.indexes i WHERE i.object_id = t.object_id AND i.index_id = 1),
  CONVERT(nvarchar(4000), e.value)
FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id
LEFT JOIN sys.extended_properties e
  ON e.class = 1 AND e.major_id = t.object_id AND e.minor_id = 0 AND e.name = N'MS_Description'
WHERE t.object_id IN ({ids})
"""
# `b` is the type behind an alias type, and behind sysname, which is the system's own; CLR types have none.
COLUMNS = """
SELECT c.object_id, c.column_id, c.name, COALESCE(b.name, CASE WHEN u.is_assembly_type = 1 AND u.is_user_defined = 1
    THEN N'assembly' ELSE u.name END), u.name, u.is_user_defined, c.max_length, c.precision, c.scale, c.collation_name,
  c.is_nullable, c.is_computed, c.is_column_set, c.is_masked, c.encryption_type, c.default_object_id,
  CONVERT(nvarchar(4000), e.value)
FROM sys.columns c JOIN sys.types u ON u.user_type_id = c.user_type_id
LEFT JOIN sys.types b ON b.user_type_id = c.system_type_id AND u.is_assembly_type = 0
LEFT JOIN sys.extended_properties e
  ON e.class = 1 AND e.major_id = c.object_id AND e.minor_id = c.column_id AND e.name = N'MS_Description'
WHERE c.object_id IN ({ids}) ORDER BY c.object_id, c.column_id
"""
KEYS = """
SELECT i.object_id, i.index_id, i.is_primary_key, k.column_id
FROM sys.indexes i JOIN sys.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE i.object_id IN ({ids}) AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND k.key_ordinal > 0
ORDER BY i.object_id, i.index_id, k.key_ordinal
"""
INSTANCES = """
SELECT t.object_id, t.source_object_id, t.capture_instance, t.start_lsn, t.partition_switch, c.column_id, c.column_name
FROM cdc.change_tables t JOIN cdc.captured_columns c ON c.object_id = t.object_id
WHERE {where} ORDER BY t.object_id, c.column_ordinal
"""
TRACKED = """
SELECT object_id, begin_version, CHANGE_TRACKING_MIN_VALID_VERSION(object_id) FROM sys.change_tracking_tables
"""
HAS_CDC = "SELECT CASE WHEN OBJECT_ID(N'cdc.change_tables') IS NULL THEN 0 ELSE 1 END"
MAY_UNMASK = "SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'UNMASK')"


def named(tables: Sequence[TableId]) -> str:
    """A condition for these tables, compared as the database compares names."""
    return " OR ".join(f"(s.name = {literal(one.database)} AND t.name = {literal(one.name)})" for one in tables)


def listed(numbers: Iterable[int]) -> str:
    """For IN."""
    return ", ".join(map(str, numbers)) or "NULL"
