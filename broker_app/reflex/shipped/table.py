"""The table of shipped reflexes that run in the broker, and the check of options of all shipped ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from broker_app.reflex.chain import InBroker
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, REGISTRATION, SERVICE, Declaration
from broker_app.reflex.libraries.library_loader import canonical
from broker_app.reflex.shipped import audit, copies, headers, options, rate_limit, registrations
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.options import Option

SCHEMA: Final = "mom-schema"
#: of its function, which needs the body of a message
_SCHEMA_KINDS: Final = (ARRIVAL, DELIVERY)
DELETE_COPIES: Final = "delete_copies"


class Shipped(NamedTuple):
    """A shipped reflex: makes the function of a declaration. `make` is None where it is no function."""

    make: Callable[[Declaration, Context], InBroker] | None
    kinds: tuple[str, ...]
    about: str
    options: tuple[Option, ...] = ()


#: by library and function
IN_BROKER: Final[Mapping[str, Mapping[str, Shipped]]] = MappingProxyType(
    {
        "mom": MappingProxyType(
            {
                "audit": Shipped(audit.audit, (ARRIVAL, DELIVERY), "notes each message", audit.OPTIONS),
                "set_headers": Shipped(
                    headers.set_headers, (ARRIVAL,), "sets, renames and removes headers", headers.OPTIONS
                ),
                "limit_rate": Shipped(
                    rate_limit.limit_rate,
                    (ARRIVAL, REGISTRATION),
                    "refuses what is too fast, with the time to wait",
                    rate_limit.OPTIONS,
                ),
                "copy_to_broker": Shipped(
                    copies.copy_to_broker,
                    (ARRIVAL,),
                    "publishes a copy for another broker, through a bridge",
                    copies.COPY_OPTIONS,
                ),
                "delete_copy": Shipped(
                    copies.delete_copy,
                    (DELIVERY,),
                    "has the copy at the other broker deleted when the message has ended",
                    copies.DELETE_OPTIONS,
                ),
                DELETE_COPIES: Shipped(
                    None, (SERVICE,), "deletes copies for another broker: the service RE_deleteCopy"
                ),
            }
        ),
        "RE_LocalService": MappingProxyType(
            {
                "REenableCallbacks": Shipped(
                    registrations.enable_callbacks,
                    (REGISTRATION,),
                    "lets callback brokers serve the service",
                )
            }
        ),
        "RE_LogService": MappingProxyType(
            {
                "RE_LPconnectSvcToBkupLog": Shipped(
                    registrations.refuse_beside_main,
                    (REGISTRATION,),
                    "refuses services while another broker holds the lease of the journal",
                )
            }
        ),
    }
)


def find(library: str, function: str) -> Shipped | None:
    """The shipped reflex that runs in the broker, None if it is another. Raises LookupError for a function
    that a library of MOM does not have."""
    functions = IN_BROKER.get(canonical(library))
    if functions is None:
        return None
    if function not in functions:
        raise LookupError(f"library {library} has no function {function}; it has {', '.join(functions)}")
    return functions[function]


def fault(kind: str, library: str, function: str, given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The member of a declaration of a shipped reflex that is wrong, and its error; None if there is none."""
    if canonical(library) == SCHEMA:
        return _schema_fault(kind, function, given)
    try:
        shipped = find(library, function)
    except LookupError as error:
        return "function", str(error)
    if shipped is None:
        return None
    found = _kind_fault(kind, function, shipped.kinds)
    return found or _options_fault(options.faults(shipped.options, given))


def _kind_fault(kind: str, function: str, kinds: tuple[str, ...]) -> tuple[str, str] | None:
    return None if kind in kinds else ("kind", f"{function} is for {' and '.join(kinds)} only")


def _options_fault(found: list[str]) -> tuple[str, str] | None:
    return ("options", "; ".join(found)) if found else None


def _schema_fault(kind: str, function: str, given: Mapping[str, Any]) -> tuple[str, str] | None:
    # Here, for it takes a tenth of a second to import, which only checks of this reflex need.
    from broker_app.reflex.shipped import schema

    if function != schema.check_schema.__name__:
        return "function", f"library {SCHEMA} has no function {function}; it has check_schema"
    found = _kind_fault(kind, function, _SCHEMA_KINDS)
    return found or _options_fault(options.faults(schema.OPTIONS, given) or schema.schema_faults(given))
