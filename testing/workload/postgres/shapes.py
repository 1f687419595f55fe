"""Values of types that need no parameters: documents, addresses, geometry, ranges, searches."""

from __future__ import annotations

from collections.abc import Callable

from testing.workload.rng_literals import Pen

Draw = Callable[[Pen], str]


def _uuid(pen: Pen) -> str:
    return f"{pen.getrandbits(128):032x}"


def _inet(pen: Pen) -> str:
    address = ".".join(str(pen.randrange(256)) for _ in range(4))
    return pen.choice(
        (
            address,
            f"{address}/{pen.randint(0, 32)}",
            "::1",
            "::ffff:1.2.3.4",
            f"2001:db8::{pen.getrandbits(16):x}/64",
            "fe80::1",
        )
    )


def _cidr(pen: Pen) -> str:
    return pen.choice(
        (f"{pen.randrange(256)}.0.0.0/8", "0.0.0.0/0", "10.1.2.3/32", "2001:db8::/32", "::/0", "192.168.4.0/22")
    )


def _mac(digits: int) -> Draw:
    return lambda pen: f"{pen.getrandbits(digits * 4):0{digits}x}"


def _number(pen: Pen) -> str:
    return pen.choice(("0", "-1.5", "1e300", "0.1", str(pen.randint(-99, 99)), repr(pen.uniform(-1e3, 1e3))))


def _point(pen: Pen) -> str:
    return "(Infinity,NaN)" if pen.chance(0.05) else f"({_number(pen)},{_number(pen)})"


def _points(pen: Pen) -> str:
    return ",".join(_point(pen) for _ in range(pen.randint(1, 4)))


def _path(pen: Pen) -> str:
    return pen.choice((f"[{_points(pen)}]", f"({_points(pen)})"))


def _line(pen: Pen) -> str:
    return f"{{{pen.randint(1, 9)},{_number(pen)},{_number(pen)}}}"


def _json(pen: Pen) -> str:
    return pen.choice(
        (
            "{}", "[]", "null", "1", "-0.5", '"text"', "true", '{"a": 1, "b": [1, 2, {"c": null}]}',
            '{"é": "表🎈", "n": 12345678901234567890, "f": 1.5e300}', '[1, "two", 3.0, false]',
            '{"b": 1, "a": 2, "b": 3}',
            '{ "spaces" :  1.50 }', '{"k": "' + "x" * pen.randint(0, 300) + '"}',
            '{"q": "it\'s \\"quoted\\" \\\\ \\u00e9"}',
        )
    )  # fmt: skip


def _hstore(pen: Pen) -> str:
    pairs = ('"a"=>"1"', '"b"=>NULL', '"it\'s"=>"\\"q\\""', '"é"=>"表"', '""=>""', f'"n"=>"{pen.randint(0, 99)}"')
    return ", ".join(pen.some(pairs, 4)) if pen.chance(0.9) else ""


def _vector(pen: Pen) -> str:
    words = ("fat:1A", "cat:2,3B", "'it''s'", "'two words':5", "rat", "é:16383")
    return " ".join(pen.some(words, 5)) if pen.chance(0.9) else ""


def _query(pen: Pen) -> str:
    return pen.choice(("fat & rat", "fat & (rat | !cat:AB)", "super:* <-> 'it''s'", "a <2> b", "!!x"))


def _xml(pen: Pen) -> str:
    return pen.choice(
        ("<a/>", "<a b='1'>é</a>", "text &amp; more", "<!-- c --><r><x>1</x></r>", f"<n>{pen.randint(0, 99)}</n>", "")
    )


def _lsn(pen: Pen) -> str:
    return f"{pen.getrandbits(8):X}/{pen.getrandbits(32):X}"


def _tree(pen: Pen) -> str:
    return ".".join(pen.some(("Top", "Science", "a_1", "B", "Zz9"), 4))


def _path_query(pen: Pen) -> str:
    return pen.choice(("$", "$.a[*]", "$.a[*] ? (@ > 1)", 'lax $."k k"', "strict $.b"))


def _range(edges: Callable[[Pen], tuple[str, str]]) -> Draw:
    def drawn(pen: Pen) -> str:
        low, high = edges(pen)
        return pen.choice(
            (
                "empty",
                f"[{low},{low}]",
                f"[{low},{high})",
                f"({low},{high}]",
                f"[{low},{high})",
                f"({low},)",
                f"(,{high}]",
                "(,)",
            )
        )

    return drawn


def _whole(pen: Pen) -> tuple[str, str]:
    low = pen.randint(-100, 100)
    return str(low), str(low + pen.randint(1, 50))


def _decimal(pen: Pen) -> tuple[str, str]:
    low = pen.randint(-100, 100)
    return f"{low}.50", f"{low + 1}.0"


def _days(pen: Pen) -> tuple[str, str]:
    return pen.choice(("2020-02-28", "0044-03-15 BC", "-infinity")), pen.choice(("2024-02-29", "infinity"))


def _moments(pen: Pen) -> tuple[str, str]:
    return pen.choice(('"2020-02-28 01:02:03.5"', "-infinity")), pen.choice(('"2024-02-29 23:59:59"', "infinity"))


def _instants(pen: Pen) -> tuple[str, str]:
    return pen.choice(('"2020-02-28 01:02:03.5+05:30"', "-infinity")), pen.choice(
        ('"2024-02-29 23:59:59+00"', "infinity")
    )


RANGES: dict[str, Draw] = {
    "int4range": _range(_whole), "int8range": _range(_whole), "numrange": _range(_decimal), "daterange": _range(_days),
    "tsrange": _range(_moments), "tstzrange": _range(_instants),
}  # fmt: skip
GEOMETRIES: dict[str, Draw] = {
    "point": _point, "line": _line, "lseg": lambda pen: f"[{_point(pen)},{_point(pen)}]",
    "box": lambda pen: f"{_point(pen)},{_point(pen)}",
    "path": _path, "polygon": lambda pen: f"({_points(pen)})",
    "circle": lambda pen: f"<{_point(pen)},{pen.randint(0, 9)}>",
}  # fmt: skip
ADDRESSES: dict[str, Draw] = {"uuid": _uuid, "inet": _inet, "cidr": _cidr, "macaddr": _mac(12), "macaddr8": _mac(16)}
DOCUMENTS: dict[str, Draw] = {
    "json": _json, "jsonb": _json, "xml": _xml, "hstore": _hstore, "tsvector": _vector, "tsquery": _query,
    "ltree": _tree,
    "jsonpath": _path_query, "pg_lsn": _lsn,
}  # fmt: skip
VALUES: dict[str, Draw] = {**RANGES, **GEOMETRIES, **ADDRESSES, **DOCUMENTS}
