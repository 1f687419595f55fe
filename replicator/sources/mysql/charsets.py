"""Character sets of the log: collation id → a decoder that gives what the server's own conversion to Unicode gives.

The tables were compared with CONVERT(… USING utf8mb4) of MariaDB 11.4, byte by byte, for every single-byte set and
every pair of the others (and three-byte sequences of ujis).  Where a set differs from Python's codec of that name the
difference stands here; sets that could not be compared (gb18030, eucjpms) are refused (invariant 7).
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import cache

from replicator.errors import UnsupportedCharset

Decode = Callable[[bytes], str]

# Collation ids of MySQL 5.0 to 9 and MariaDB 5.3 to 11, which never give one id to two character sets.
_IDS = """
armscii8 32 64 1056 1088|ascii 11 65 1035 1089|big5 1 84 1025 1108|binary 63|cp1250 26 34 44 66 99 1050 1090
cp1251 14 23 50-52 1074-1075|cp1256 57 67 1081 1091|cp1257 29 58-59 1082-1083|cp850 4 80 1028 1104
cp852 40 81 1064 1105|cp866 36 68 1060 1092|cp932 95-96 1119-1120|dec8 3 69 1027 1093|eucjpms 97-98 1121-1122
euckr 19 85 1043 1109|gb18030 248-250|gb2312 24 86 1048 1110|gbk 28 87 1052 1111|geostd8 92-93 1116-1117
greek 25 70 1049 1094|hebrew 16 71 1040 1095|hp8 6 72 1030 1096|keybcs2 37 73 1061 1097|koi8r 7 74 1031 1098
koi8u 22 75 1046 1099|latin1 5 8 15 31 47-49 94 1032 1071|latin2 2 9 21 27 77 1033 1101|latin5 30 78 1054 1102
latin7 20 41-42 79 1065 1103|macce 38 43 1062 1067|macroman 39 53 1063 1077|sjis 13 88 1037 1112
swe7 10 82 1034 1106|tis620 18 89 1042 1113|ucs2 35 90 128-151 159 640-642 1059 1114 1152 1174
ujis 12 91 1036 1115|utf16 54-55 101-124 672-674 1078-1079 1125 1147|utf16le 56 62 1080 1086
utf32 60-61 160-183 736-738 1084-1085 1184 1206|utf8mb3 33 76 83 192-215 223 576-578 1057 1107 1216 1238
utf8mb4 45-46 224-247 255-323 608-610 1069-1070 1248 1270
"""
_UCA1400 = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")  # MariaDB: 2048 + 256 * place + collation

_PYTHON_SINGLE = {
    "ascii": "ascii", "latin1": "cp1252", "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13",
    "greek": "iso8859-7", "hebrew": "iso8859-8", "koi8r": "koi8-r", "koi8u": "koi8-u", "hp8": "hp-roman8",
    "macce": "mac-latin2", "macroman": "mac-roman", "tis620": "tis-620", "cp1250": "cp1250", "cp1251": "cp1251",
    "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866",
    "armscii8": "ascii", "dec8": "latin-1", "geostd8": "ascii", "keybcs2": "ascii", "swe7": "ascii",
}  # fmt: skip
_C1 = "".join(map(chr, range(0x80, 0xA1)))
_BOXES = "░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
# The upper half (from the byte given) where Python has no such codec; "?" is what the server gives for no character.
_UPPER = {
    "armscii8": (0x80, _C1 + "❁§։)(»«—.՝,-՟…՜՛՞" + "".join(chr(c) + chr(c + 0x30) for c in range(0x531, 0x557)) + "’'"),
    "geostd8": (0x80, "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????" + "".join(map(chr, range(0xA0, 0xC0)))
                + "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ" + "?" * 23 + "№??"),
    "keybcs2": (0x80, "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»" + _BOXES
                + "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"),
}  # fmt: skip
_SINGLE_PATCHES: dict[str, dict[int, str]] = {
    "latin1": {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "cp1256": dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?"),
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "ʽ", 0xA2: "ʼ", 0xA4: "?", 0xA5: "?", 0xAA: "?"},
    "hebrew": {0xAF: "‾"},
    "koi8u": {0x95: "•"},
    "tis620": dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd"),
    "dec8": dict.fromkeys((0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF), "?")
    | {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
    "swe7": dict(zip(b"@[\\]^`{|}~\x7f", "ÉÄÖÅÜéäöåü?", strict=True)),
}
_MULTI = {"sjis": "shift_jis", "cp932": "cp932", "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949", "big5": "big5",
          "ujis": "euc_jp"}  # fmt: skip
# Sequences that Python decodes to another character, and those that it does not know.
_OTHER: dict[str, dict[bytes, str]] = {
    "sjis": {b"\x81\x5f": "\\"},
    "ujis": {b"\xa1\xc0": "\\"},
    "big5": dict.fromkeys(map(bytes.fromhex, ["a15a", "a1c3", "a1c5", "a1fe", "a240", "a2cc", "a2ce"]), "\ufffd"),
}
_MORE: dict[str, dict[bytes, str]] = {
    "big5": {bytes((0xF9, 0xD6 + place)): char for place, char in enumerate("碁銹裏墻恒粧嫺")},
    "ujis": {
        lead + bytes((0xF5 + row, 0xA1 + cell)): chr(base + 94 * row + cell)
        for lead, base in ((b"", 0xE000), (b"\x8f", 0xE3AC))
        for row in range(10)
        for cell in range(94)
    },
}
_WIDE = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    end = error.end if isinstance(error, UnicodeDecodeError) else 0
    return "?", end


codecs.register_error("tidemark-question-mark", _question_mark)


def _half_pair(error: UnicodeError) -> tuple[str | bytes, int]:
    """Half of a surrogate pair stays one: the servers hand it on, and it is refused where the text becomes UTF-8."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return _question_mark(error)


codecs.register_error("tidemark-half-pair", _half_pair)


def _read_ids() -> dict[int, str]:
    ids: dict[int, str] = {}
    for line in _IDS.replace("|", "\n").split("\n"):
        for item in line.split()[1:]:
            first, _, last = item.partition("-")
            ids.update(dict.fromkeys(range(int(first), int(last or first) + 1), line.split()[0]))
    return ids


_NAME_BY_ID = _read_ids()


def collation_of(charset: str) -> int:
    """One of the character set's; KeyError for a name that is unknown here."""
    return {name: collation for collation, name in _NAME_BY_ID.items()}[charset]


def charset_name(collation: int) -> str:
    """The character set of a collation id as MySQL names it; UnsupportedCharset for an id that is unknown here."""
    if 2048 <= collation < 2048 + 256 * len(_UCA1400):
        return _UCA1400[(collation - 2048) >> 8]
    try:
        return _NAME_BY_ID[collation]
    except KeyError:
        message = f"The log uses collation {collation}, which is not supported."
        raise UnsupportedCharset(message) from None


def is_utf8(name: str) -> bool:
    """True where the bytes are UTF-8 already."""
    return name in ("utf8mb4", "utf8mb3", "utf8")


@cache
def decoder(name: str) -> Decode:
    """How to decode `name`; UnsupportedCharset where that cannot be done exactly."""
    if is_utf8(name):
        return lambda data: str(data, "utf-8")
    if name in _PYTHON_SINGLE:
        return _single(name)
    if name in _WIDE:
        return _wide(_WIDE[name], ucs2=name == "ucs2")
    if name in _MULTI:
        return _multi(_MULTI[name], _OTHER.get(name, {}), _MORE.get(name, {}))
    message = f"Character set {name!r} cannot be decoded exactly from the log."
    raise UnsupportedCharset(message)


def _single(name: str) -> Decode:
    codec = _PYTHON_SINGLE[name]
    table = [bytes((code,)).decode(codec, "tidemark-question-mark") for code in range(256)]
    if name in _UPPER:
        start, text = _UPPER[name]
        table[start:] = text
    for code, char in _SINGLE_PATCHES.get(name, {}).items():
        table[code] = char
    mapping = "".join(table)
    charmap_decode = codecs.charmap_decode
    return lambda data: charmap_decode(data, "strict", mapping)[0]


def _wide(codec: str, *, ucs2: bool) -> Decode:
    def decode(data: bytes) -> str:
        if ucs2:  # no surrogate pairs there: each half stands for itself
            units = memoryview(data)
            return "".join(bytes(units[i : i + 2]).decode(codec, "tidemark-half-pair") for i in range(0, len(data), 2))
        return data.decode(codec, "tidemark-half-pair")

    return decode if not ucs2 else _ucs2(codec, decode)


def _ucs2(codec: str, slow: Decode) -> Decode:
    def decode(data: bytes) -> str:
        text = data.decode(codec, "tidemark-half-pair")
        return text if len(text) * 2 == len(data) else slow(data)

    return decode


def _multi(codec: str, other: Mapping[bytes, str], more: Mapping[bytes, str]) -> Decode:
    special = {**more, **other}

    def decode(data: bytes) -> str:
        if not any(sequence in data for sequence in other):
            try:
                return data.decode(codec)
            except UnicodeDecodeError:
                pass
        return _by_character(data, codec, special)

    return decode


def _by_character(data: bytes, codec: str, special: Mapping[bytes, str]) -> str:
    out, at = [], 0
    while at < len(data):
        first = data[at]
        size = 1 if first < 0x80 or (codec == "shift_jis" and 0xA0 <= first <= 0xDF) else 2
        if codec == "euc_jp" and first == 0x8F:
            size = 3
        piece = data[at : at + size]
        out.append(special.get(piece) or _character(piece, codec))
        at += size
    return "".join(out)


def _character(piece: bytes, codec: str) -> str:
    """One question mark for a whole sequence without a character, as the server has it."""
    try:
        return piece.decode(codec)
    except UnicodeDecodeError:
        return "?"
