"""Registration reflexes under the names that OpenMOM gave them."""

from __future__ import annotations

from broker_app.reflex.api import ACCEPT, Verdict, accept, refuse
from broker_app.reflex.chain import InBroker
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.registration import CALLBACKS
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.subject import Subject

#: the reason that programs recognize
MAIN_ACTIVE = "MAIN_ACTIVE"
_ENABLED = accept(marks=(CALLBACKS,))


def enable_callbacks(declaration: Declaration, context: Context) -> InBroker:
    """Mark services, so that callback brokers may serve them."""
    return lambda subject, trial: _ENABLED


def refuse_beside_main(declaration: Declaration, context: Context) -> InBroker:
    """Refuse services while another broker holds the lease of the journal, and name its addresses."""

    def decide(subject: Subject, trial: bool) -> Verdict:
        active = context.main_active()
        if active is None:
            return ACCEPT
        return refuse(MAIN_ACTIVE, facts={"active": active})

    return decide
