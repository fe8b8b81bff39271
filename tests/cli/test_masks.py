"""`mom mask`."""

from tests.cli.conftest import Mom


def test_a_mask_is_created_shown_changed_and_removed(mom: Mom) -> None:
    made = mom(
        "mask", "create", "cards", "destination=/queue/masked.>", "fields=/card/number,/iban", "headers=pin",
        "-o", "json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert (made.json()["fields"], made.json()["groups"]) == (["/card/number", "/iban"], [])
    wrong = mom("mask", "set", "cards", "fields=card")
    assert wrong.code != 0 and "'card' is no JSON pointer" in wrong.err
    assert mom("mask", "set", "cards", "comment=PCI", "--yes").code == 0
    (row,) = mom("mask", "ls", "-o", "json").json()
    assert (row["name"], row["destination"], row["comment"]) == ("cards", "/queue/masked.>", "PCI")
    assert mom("mask", "rm", "cards", "--yes").code == 0
