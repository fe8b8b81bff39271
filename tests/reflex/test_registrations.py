"""Registration and deregistration reflexes, and those that OpenMOM's users know."""

from __future__ import annotations

from broker_app.reflex.declaration import DEREGISTRATION, REGISTRATION
from broker_app.reflex.registration import CALLBACKS, Registration
from broker_app.reflex.shipped.registrations import MAIN_ACTIVE
from tests.reflex.filtering_broker import FilteringBroker, reflex
from tests.support.awaiting import until

STOCK = Registration("stock", "anna", "10.0.0.1", "shop", ("order.new",), "c1", "tcp")


async def test_without_declarations_every_service_may_register(filtering: FilteringBroker) -> None:
    verdict = await filtering.reflexes.register(STOCK)
    assert (verdict.accepted, verdict.registration) == (True, STOCK)


async def test_a_service_is_refused_with_the_reflex_and_the_reason(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(REGISTRATION, "allow_stock", name="only-stock"))
    assert (await filtering.reflexes.register(STOCK)).accepted
    verdict = await filtering.reflexes.register(Registration("bank"))
    assert not verdict.accepted
    assert verdict.facts == {"reflex": "only-stock", "reason": "it was refused"}


async def test_a_pattern_decides_which_services_are_asked_about(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(REGISTRATION, "allow_stock", service="bank.>"))
    assert (await filtering.reflexes.register(Registration("other"))).accepted
    assert not (await filtering.reflexes.register(Registration("bank.eu"))).accepted


async def test_functions_receive_all_facts_of_a_registration(filtering: FilteringBroker) -> None:
    filtering.library(
        "facts",
        """
        from broker_app.reflex.api import refuse
        def show(registration):
            return refuse(repr(registration))
        """,
    )
    filtering.declare(reflex(REGISTRATION, "show", library="facts"))
    assert (await filtering.reflexes.register(STOCK)).reason == repr(STOCK)


async def test_a_function_that_fails_refuses_the_service(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(REGISTRATION, "missing"))
    verdict = await filtering.reflexes.register(STOCK)
    assert (verdict.accepted, verdict.reflex) == (False, "missing")


async def test_enabling_callbacks_marks_the_registration(filtering: FilteringBroker) -> None:
    filtering.declare(
        reflex(REGISTRATION, "REenableCallbacks", library="re_localservice.DLL", service="stock")
    )
    verdict = await filtering.reflexes.register(STOCK)
    assert verdict.registration.marks == {CALLBACKS}
    assert not (await filtering.reflexes.register(Registration("bank"))).registration.marks


async def test_services_are_refused_while_another_broker_is_active(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(REGISTRATION, "RE_LPconnectSvcToBkupLog", library="RE_LogService.dll"))
    assert (await filtering.reflexes.register(STOCK)).accepted
    filtering.active = "stomp://main:61613"
    verdict = await filtering.reflexes.register(STOCK)
    assert verdict.facts == {
        "reflex": "RE_LPconnectSvcToBkupLog",
        "reason": MAIN_ACTIVE,
        "active": "stomp://main:61613",
    }


async def test_every_function_hears_of_a_deregistration_whatever_others_return(
    filtering: FilteringBroker,
) -> None:
    filtering.library(
        "bye",
        f"""
        def _note(name, registration):
            with open({str(filtering.notes_file)!r}, "a") as file:
                file.write(f"{{name}} {{registration.name}}\\n")
        def first(registration):
            _note("first", registration)
            return 0
        def fails(registration):
            raise ValueError
        def last(registration):
            _note("last", registration)
        """,
    )
    filtering.declare(*(reflex(DEREGISTRATION, name, library="bye") for name in ("first", "fails", "last")))
    filtering.reflexes.deregistered(STOCK)
    await until(lambda: filtering.notes == ["first stock", "last stock"])
