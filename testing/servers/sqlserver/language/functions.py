"""T-SQL's functions by name: which of `ss` or Postgres does the same."""

from __future__ import annotations

import re

# Same name and meaning in Postgres.
SAME = frozenset({
    "abs", "avg", "ceiling", "coalesce", "concat", "count", "exp", "floor", "lower", "ltrim", "max", "min", "nullif",
    "power",
    "replace", "reverse", "round", "row_number", "rank", "dense_rank", "rtrim", "sign", "sqrt", "sum", "trim", "upper",
    "lag", "lead", "first_value", "last_value", "ntile", "string_agg", "ascii", "left", "right", "substring", "log10",
})  # fmt: skip
# In schema `ss`.
OWN = frozenset({
    "charindex", "checksum", "databasepropertyex", "datalength", "db_id", "db_name", "has_perms_by_name", "is_member",
    "is_rolemember", "is_srvrolemember", "has_dbaccess", "len", "newid", "object_id", "object_name",
    "object_schema_name", "quotename",
    "schema_id", "schema_name", "serverproperty", "sysdatetimeoffset", "type_name", "collationproperty",
    "todatetimeoffset",
    "columnproperty", "objectproperty", "fulltextserviceproperty", "unicode", "change_tracking_current_version",
    "change_tracking_min_valid_version", "sql_variant_property", "hashbytes", "col_name", "binary_checksum",
    "objectpropertyex", "current_timezone_id",
})  # fmt: skip
RENAMED = {
    "isnull": "coalesce", "getdate": "ss.getdate", "getutcdate": "ss.getdate", "sysdatetime": "ss.now2",
    "sysutcdatetime": "ss.now2", "count_big": "count", "suser_sname": "ss.suser_sname", "suser_name": "ss.suser_sname",
    "original_login": "ss.suser_sname", "system_user": "ss.suser_sname", "user_name": "ss.user_name",
    "current_user": "ss.user_name",
    "char": "chr", "nchar": "chr", "replicate": "repeat", "ceiling": "ceil", "newsequentialid": "ss.newid",
    "stdev": "stddev",
    "is_rolemember": "ss.is_rolemember", "space": "ss.space", "log": "ln", "stuff": "ss.stuff",
}  # fmt: skip
# Whose first argument is a part of a date.
PARTED = {
    "dateadd": "ss.dateadd", "datediff": "ss.datediff", "datediff_big": "ss.datediff_big", "datepart": "ss.datepart",
    "datename": "ss.datename",
}  # fmt: skip
PARTS = {
    "yy": "year", "yyyy": "year", "qq": "quarter", "q": "quarter", "mm": "month", "m": "month", "dd": "day", "d": "day",
    "wk": "week", "ww": "week", "hh": "hour", "mi": "minute", "n": "minute", "ss": "second", "s": "second",
    "ms": "millisecond", "mcs": "microsecond", "ns": "nanosecond", "tz": "tzoffset", "tzoffset": "tzoffset",
    "dy": "dayofyear", "y": "dayofyear",
}  # fmt: skip
WITHOUT_PARENTHESES = {
    "current_timestamp": "ss.getdate()",
    "system_user": "ss.suser_sname()",
    "current_user": "ss.user_name()",
}
# Asked once for a statement.
ONCE = frozenset({"object_id", "schema_id", "db_id"})
# What a function of schema sys gives, where Postgres forgets the size.
SIZED = {
    "fn_cdc_get_max_lsn": 'ss."binary"(10)', "fn_cdc_get_min_lsn": 'ss."binary"(10)',
    "fn_cdc_increment_lsn": 'ss."binary"(10)',
    "fn_cdc_decrement_lsn": 'ss."binary"(10)', "fn_cdc_map_time_to_lsn": 'ss."binary"(10)',
    "fn_cdc_map_lsn_to_time": "ss.datetime",
    "fn_cdc_is_bit_set": "ss.bit", "fn_cdc_has_column_changed": "ss.bit", "fn_cdc_get_column_ordinal": "int4",
    "fn_hadr_is_primary_replica": "ss.bit",
    "fn_varbintohexstr": "ss.nvarchar(4000)", "fn_varbintohexsubstring": "ss.nvarchar(4000)",
}  # fmt: skip
TABLES = frozenset({"generate_series", "dm_db_log_stats", "dm_exec_sql_text", "dm_db_log_info"})  # that give rows
ALL_CHANGES, NET_CHANGES = (
    re.compile(r"fn_cdc_get_all_changes_(.+)", re.IGNORECASE),
    re.compile(r"fn_cdc_get_net_changes_(.+)", re.IGNORECASE),
)
TEXTS = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "ntext"})


def postgres_function(name: str) -> str | None:
    """None where none does the same."""
    known = name.lower()
    if known in RENAMED:
        return RENAMED[known]
    if known in OWN:
        return f"ss.{known}"
    return known if known in SAME else None
