"""SQL Server's types as base types of Postgres, in schema `ss`: so every expression has SQL Server's type.

Each is stored like one of Postgres' own types, whose input, output and comparison functions it uses:

    character types   as text, compared as `bpchar`: trailing blanks do not count, collations do
    binary types      as bytea; sql_variant and the CLR types hold the bytes that TDS has
    datetime2, time   as bigint: units of 100 ns since 0001-01-01, or since midnight
    datetime          as bigint: 1/300 s since 1900-01-01; smalldatetime: minutes since then
    datetimeoffset    as bytea: 8 bytes of UTC as datetime2, 2 bytes of offset in minutes; the offset does not compare
    uniqueidentifier  as uuid, its bytes in the order in which SQL Server compares them
    money             as numeric; bit and tinyint as smallint

A scale n of datetime2, time and datetimeoffset is declared as (n + 1): Postgres' modifiers begin with 1.
"""

from __future__ import annotations

CHARACTERS = ("varchar", "nvarchar", "char", "nchar", "text", "ntext", "xml")
BINARIES = (
    "varbinary", "binary", "image", "sql_variant", "hierarchyid", "geography", "geometry", "rowversion",
)  # fmt: skip
TICKS = ("datetime2", "time", "datetime", "smalldatetime")
OPERATORS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
INTERNAL = "LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE"


def _base(name: str, like: str, functions: str, *, modifier: str = "", collatable: bool = False) -> str:
    """functions: the prefix of in, out, recv and send.  modifier: the prefix of Postgres' typmodin and typmodout."""
    kind = f'ss."{name}"'
    three = functions in ("varchar", "bpchar", "numeric")
    reads = "cstring, oid, int4" if three else "cstring"
    receives = "internal, oid, int4" if three else "internal"
    underscore = "_" if functions in ("uuid", "numeric") else ""
    modifiers = f", TYPMOD_IN = {modifier}typmodin, TYPMOD_OUT = {modifier}typmodout" if modifier else ""
    collated = ", COLLATABLE = true, CATEGORY = 'S'" if collatable else ""
    return f"""
        CREATE TYPE {kind};
        CREATE FUNCTION ss."{name}_in"({reads}) RETURNS {kind} {INTERNAL} AS '{functions}{underscore}in';
        CREATE FUNCTION ss."{name}_out"({kind}) RETURNS cstring {INTERNAL} AS '{functions}{underscore}out';
        CREATE FUNCTION ss."{name}_recv"({receives}) RETURNS {kind} {INTERNAL} AS '{functions}{underscore}recv';
        CREATE FUNCTION ss."{name}_send"({kind}) RETURNS bytea {INTERNAL} AS '{functions}{underscore}send';
        CREATE TYPE {kind} (INPUT = ss."{name}_in", OUTPUT = ss."{name}_out", RECEIVE = ss."{name}_recv",
            SEND = ss."{name}_send", LIKE = {like}{modifiers}{collated});
    """


def _compared(name: str, pattern: str, compare: str, hashed: str = "") -> str:
    """pattern: of the internal functions' names, with {} for eq, ne, lt, le, gt, ge."""
    kind, made = f'ss."{name}"', []
    for sign, word in OPERATORS.items():
        joined = ", HASHES, MERGES" if sign == "=" and hashed else ", MERGES" if sign == "=" else ""
        made.append(f"""
            CREATE FUNCTION ss."{name}_{word}"({kind}, {kind}) RETURNS bool {INTERNAL} AS '{pattern.format(word)}';
            CREATE OPERATOR ss.{sign} (LEFTARG = {kind}, RIGHTARG = {kind}, FUNCTION = ss."{name}_{word}",
                COMMUTATOR = OPERATOR(ss.{SWAPPED[sign]}), NEGATOR = OPERATOR(ss.{NEGATED[sign]}),
                RESTRICT = {"neqsel" if sign == "<>" else "eqsel" if sign == "=" else "scalarltsel"}{joined});
        """)
    made.append(
        f"CREATE FUNCTION ss.\"{name}_cmp\"({kind}, {kind}) RETURNS int4 {INTERNAL} AS '{compare}';" + _family(name)
    )
    if hashed:
        made.append(f"""
            CREATE FUNCTION ss."{name}_hash"({kind}) RETURNS int4 {INTERNAL} AS '{hashed}';
            CREATE OPERATOR CLASS ss."{name}_hash" DEFAULT FOR TYPE {kind} USING hash AS
                OPERATOR 1 ss.= , FUNCTION 1 ss."{name}_hash"({kind});
        """)
    return "".join(made)


def _family(name: str) -> str:
    kind = f'ss."{name}"'
    return f"""
        CREATE OPERATOR CLASS ss."{name}_ops" DEFAULT FOR TYPE {kind} USING btree AS
            OPERATOR 1 ss.< , OPERATOR 2 ss.<= , OPERATOR 3 ss.= , OPERATOR 4 ss.>= , OPERATOR 5 ss.> ,
            FUNCTION 1 ss."{name}_cmp"({kind}, {kind});
    """


def _extremes(name: str, largest: str, smallest: str) -> str:
    kind, made = f'ss."{name}"', ""
    for word, function in (("max", largest), ("min", smallest)):
        made += f"""
            CREATE FUNCTION ss."{name}_{word}"({kind}, {kind}) RETURNS {kind} {INTERNAL} AS '{function}';
            CREATE AGGREGATE ss.{word}({kind}) (SFUNC = ss."{name}_{word}", STYPE = {kind});
        """
    return made


def _binary_cast(source: str, target: str, how: str = "IMPLICIT") -> str:
    context = f" AS {how}" if how else ""
    return f"CREATE CAST ({source} AS {target}) WITHOUT FUNCTION{context};\n"


def _characters() -> str:
    made = ""
    for name in CHARACTERS:
        functions = {"varchar": "varchar", "nvarchar": "varchar", "char": "bpchar", "nchar": "bpchar"}.get(name, "text")
        modifier = "" if functions == "text" else functions
        made += _base(name, "text", functions, modifier=modifier, collatable=True)
        made += _compared(name, "bpchar{}", "bpcharcmp", "hashbpchar") + _extremes(
            name, "bpchar_larger", "bpchar_smaller"
        )
        made += _binary_cast(f'ss."{name}"', "pg_catalog.text") + _binary_cast(
            "pg_catalog.text", f'ss."{name}"', "ASSIGNMENT"
        )
        if modifier:
            kind = f'ss."{name}"'
            made += f"""
                CREATE FUNCTION ss."{name}_fit"({kind}, int4, bool) RETURNS {kind} {INTERNAL} AS '{functions}';
                CREATE CAST ({kind} AS {kind}) WITH FUNCTION ss."{name}_fit"({kind}, int4, bool) AS IMPLICIT;
            """
    for one in CHARACTERS:
        for other in CHARACTERS:
            if one != other:
                into = "IMPLICIT" if other == "nvarchar" or (other, one) == ("varchar", "char") else "ASSIGNMENT"
                made += _binary_cast(f'ss."{one}"', f'ss."{other}"', into)
    return made


def _binaries() -> str:
    made = ""
    for name in BINARIES:
        made += _base(name, "bytea", "bytea", modifier="varchar" if name in ("varbinary", "binary") else "")
        made += _compared(name, "bytea{}", "byteacmp")
        made += _binary_cast(f'ss."{name}"', "pg_catalog.bytea") + _binary_cast("pg_catalog.bytea", f'ss."{name}"')
    for one in BINARIES:
        for other in BINARIES:
            if one != other and "sql_variant" not in (one, other):  # variants.sql
                into = "IMPLICIT" if other == "varbinary" else "ASSIGNMENT"
                made += _binary_cast(f'ss."{one}"', f'ss."{other}"', into)
    return made


def _numbers() -> str:
    made = ""
    for name in ("bit", "tinyint"):
        made += _base(name, "int2", "int2") + _binary_cast(f'ss."{name}"', "int2")
    for name in ("money", "smallmoney"):
        made += _base(name, "numeric", "numeric") + _binary_cast(f'ss."{name}"', "numeric")
    made += _base("uniqueidentifier", "uuid", "uuid")
    return made + _compared("uniqueidentifier", "uuid_{}", "uuid_cmp", "uuid_hash")


def _moments() -> str:
    made = ""
    for name in TICKS:
        made += _base(name, "int8", "int8", modifier="" if "date" in name and name != "datetime2" else "varchar")
        made += _compared(name, "int8{}", "btint8cmp", "hashint8") + _extremes(name, "int8larger", "int8smaller")
        made += _binary_cast(f'ss."{name}"', "int8", "") + _binary_cast("int8", f'ss."{name}"', "")
    return made + _base("datetimeoffset", "bytea", "bytea", modifier="varchar") + _offset()


def _offset() -> str:
    """Compared without their offsets."""
    kind = 'ss."datetimeoffset"'
    made = _binary_cast(kind, "bytea", "") + _binary_cast("bytea", kind, "")
    for sign, word in OPERATORS.items():
        made += f"""
            CREATE FUNCTION ss.datetimeoffset_{word}(a {kind}, b {kind}) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
                RETURN substr(a::bytea, 1, 8) {sign} substr(b::bytea, 1, 8);
            CREATE OPERATOR ss.{sign} (LEFTARG = {kind}, RIGHTARG = {kind}, FUNCTION = ss.datetimeoffset_{word},
                COMMUTATOR = OPERATOR(ss.{SWAPPED[sign]}), NEGATOR = OPERATOR(ss.{NEGATED[sign]}),
                RESTRICT = {"neqsel" if sign == "<>" else "eqsel" if sign == "=" else "scalarltsel"}
                {", MERGES" if sign == "=" else ""});
        """
    return (
        made
        + f"""
        CREATE FUNCTION ss.datetimeoffset_cmp(a {kind}, b {kind}) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
            RETURN byteacmp(substr(a::bytea, 1, 8), substr(b::bytea, 1, 8));
    """
        + _family("datetimeoffset")
    )


def types() -> str:
    """Statements that make them all."""
    return "CREATE SCHEMA ss;\n" + _characters() + _binaries() + _numbers() + _moments()
