"""The wire: STOMP 1.0, 1.1 and 1.2, both roles, bytes in and frames out.

Owns the grammar, escaping, limits and the order of a conversation. Never a socket, a clock or a
decision about a message.
"""

from .encode import convert_block, encode, escape, unescape
from .errors import Malformed
from .frame import AckRun, Frame, Headers, ReceiptRun
from .parser import Limits, Parser

__all__ = [
    "AckRun",
    "Frame",
    "Headers",
    "Limits",
    "Malformed",
    "Parser",
    "ReceiptRun",
    "convert_block",
    "encode",
    "escape",
    "unescape",
]
