"""Errors in the output of mombench."""

from benchmarks.generator import faults

CLEAN = {
    "lost": 0,
    "duplicated": 0,
    "out_of_order": 0,
    "foreign": 0,
    "refused": 0,
    "errors": 0,
    "receipts": True,
    "send_via": "tcp",
    "sent": 10,
    "confirmed": 10,
}


def test_a_clean_run_has_no_faults() -> None:
    assert faults(CLEAN) == []


def test_each_kind_of_fault_is_named() -> None:
    raw = CLEAN | {"lost": 2, "out_of_order": 1, "errors": 1, "first_error": "ERROR frame: no"}
    assert faults(raw) == ["2 lost", "1 out of order", "1 errors", "first error: ERROR frame: no"]


def test_a_missing_confirmation_is_a_fault_where_one_was_asked_for() -> None:
    assert faults(CLEAN | {"confirmed": 7}) == ["3 never confirmed"]
    assert faults(CLEAN | {"confirmed": 0, "receipts": False}) == []


def test_a_refused_post_is_not_counted_twice() -> None:
    raw = CLEAN | {"receipts": False, "send_via": "http", "confirmed": 9, "refused": 1}
    assert faults(raw) == ["1 refused"]
