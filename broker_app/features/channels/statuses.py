"""The statuses of answers, which are the codes of refusals as well."""

from __future__ import annotations

from typing import Final

OK: Final = "ok"
INVALID: Final = "invalid"
REP_UNAVAIL: Final = "rep-unavail"
NOSERVER: Final = "noserver"
TIMEOUT: Final = "timeout"
KEYEMPTY: Final = "keyempty"
BUFFER_SMALL: Final = "buffer-small"

#: the names in Berkeley DB
BERKELEY_DB: Final = {
    OK: "0",
    INVALID: "EINVAL",
    REP_UNAVAIL: "DB_REP_UNAVAIL",
    NOSERVER: "DB_NOSERVER",
    TIMEOUT: "DB_TIMEOUT",
    KEYEMPTY: "DB_KEYEMPTY",
    BUFFER_SMALL: "DB_BUFFER_SMALL",
}
