"""What the server answers when it refuses: a number, and Oracle's text for it (Database Error Messages)."""

from __future__ import annotations

TEXTS = {
    1: "unique constraint ({}) violated",
    54: "resource busy and acquire with NOWAIT specified or timeout expired",
    60: "deadlock detected while waiting for resource",
    308: "cannot open archived log '{}'",
    900: "invalid SQL statement",
    902: "invalid datatype",
    904: "{}: invalid identifier",
    907: "missing right parenthesis",
    911: "invalid character",
    922: "missing or invalid option",
    923: "FROM keyword not found where expected",
    932: "inconsistent datatypes: {}",
    933: "SQL command not properly ended",
    942: "table or view does not exist",
    947: "not enough values",
    955: "name is already used by an existing object",
    957: "duplicate column name",
    990: "missing or invalid privilege",
    1003: "no statement parsed",
    1008: "not all variables bound",
    1012: "not logged on",
    1013: "user requested cancel of current operation",
    1017: "invalid username/password; logon denied",
    1031: "insufficient privileges",
    1045: "user {} lacks CREATE SESSION privilege; logon denied",
    1086: "savepoint '{}' never established in this session or is invalid",
    1291: "missing log file",
    1292: "no log file has been specified for the current LogMiner session",
    1293: "mounted database required for specified LogMiner options",
    1306: "dbms_logmnr.start_logmnr() must be invoked before selecting from v$logmnr_contents",
    1307: "no LogMiner session is currently active",
    1400: 'cannot insert NULL into ({})',
    1403: "no data found",
    1407: 'cannot update ({}) to NULL',
    1408: "such column list already indexed",
    1418: "specified index does not exist",
    1430: "column being added already exists in table",
    1438: "value larger than specified precision allowed for this column",
    1440: "column to be modified must be empty to decrease precision or scale",
    1441: "cannot decrease column length because some value is too big",
    1442: "column to be modified to NOT NULL is already NOT NULL",
    1451: "column to be modified to NULL cannot be modified to NULL",
    1466: "unable to read data - table definition has changed",
    1476: "divisor is equal to zero",
    1555: "snapshot too old: rollback segment number 1 with name \"_SYSSMU1$\" too small",
    1722: "invalid number",
    1752: "cannot delete from view without exactly one key-preserved table",
    1758: "table must be empty to add mandatory (NOT NULL) column",
    1861: "literal does not match format string",
    1918: "user '{}' does not exist",
    1920: "user name '{}' conflicts with another user or role name",
    1950: "no privileges on tablespace 'USERS'",
    2260: "table can have only one primary key",
    2261: "such unique or primary key already exists in the table",
    2275: "such a referential constraint already exists in the table",
    2290: "check constraint ({}) violated",
    2291: "integrity constraint ({}) violated - parent key not found",
    2292: "integrity constraint ({}) violated - child record found",
    2296: "cannot enable ({}) - null values found",
    2437: "cannot validate ({}) - primary key violated",
    2449: "unique/primary keys in table referenced by foreign keys",
    3001: "unimplemented feature: {}",
    6550: "line 1, column 7:\nPLS-00201: identifier '{}' must be declared",
    8177: "can't serialize access for this transaction",
    8180: "no snapshot found based on specified time",
    8181: "specified number is not a valid system change number",
    12801: "error signaled in parallel query server",
    12899: "value too large for column {}",
    22288: "file or LOB operation failed",
    32594: "invalid object category for COMMENT command",
    39726: "unsupported add/drop column operation on compressed tables",
    65096: "invalid common user or role name",
}  # fmt: skip


class OracleError(Exception):
    """number: without ORA-; at: the place in the statement where it is known, from 0."""

    def __init__(self, number: int, *words: object, at: int = 0) -> None:
        text = TEXTS[number].format(*words)
        self.number, self.at = number, at
        self.message = f"ORA-{number:05}: {text}"
        super().__init__(self.message)


def unsupported(what: object) -> OracleError:
    """What the emulator does not know is refused, never guessed."""
    return OracleError(3001, " ".join(str(what).split())[:300])
