"""Files in OpenMOM's form."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_app.reflex import cnf
from broker_app.reflex.declaration import Declaration


def test_each_kind_of_line_is_read_in_order() -> None:
    text = """
    # the filters of stock
    S stock lib order.new take order.gone drop   ; a local service
    F * lib * audit
    G stock lib "odd name" check
    R callbacks RE_LocalService.dll * REenableCallbacks
    D bye lib stock.> ended
    """
    assert cnf.parse(text, "b.cnf") == [
        Declaration("b.cnf:3.1", "service", "lib", "take", "stock", "order.new", origin="b.cnf:3"),
        Declaration("b.cnf:3.2", "service", "lib", "drop", "stock", "order.gone", origin="b.cnf:3"),
        Declaration("b.cnf:4", "arrival", "lib", "audit", "*", "*", origin="b.cnf:4"),
        Declaration("b.cnf:5", "delivery", "lib", "check", "stock", "odd name", origin="b.cnf:5"),
        Declaration(
            *("b.cnf:6", "registration", "RE_LocalService.dll", "REenableCallbacks", "*"), origin="b.cnf:6"
        ),
        Declaration("b.cnf:7", "deregistration", "lib", "ended", "stock.>", origin="b.cnf:7"),
    ]


def test_options_stand_at_the_end_of_a_line() -> None:
    text = 'F stock mom * limit_rate rate=10 by="header:region of sale" time-limit=0.5 on-failure=accept'
    (declaration,) = cnf.parse(text, "b.cnf")
    assert declaration.options == {"rate": 10, "by": "header:region of sale"}
    assert (declaration.time_limit_s, declaration.on_failure) == (0.5, "accept")


def test_values_of_options_are_json_with_blanks_and_quotes() -> None:
    text = 'F * mom * audit headers=["tenant", "a # b"] to="file"  ; all of them'
    (declaration,) = cnf.parse(text, "b.cnf")
    assert declaration.options == {"headers": ["tenant", "a # b"], "to": "file"}
    (declaration,) = cnf.parse('F * lib * f a={} b=[1] c="{not json"', "b.cnf")
    assert declaration.options == {"a": {}, "b": [1], "c": "{not json"}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("F * lib * f a={b}", "b.cnf:1:15: the value is not JSON: Expecting property name enclosed"),
        ("F * lib * f a=[1]b", "b.cnf:1:18: a blank is missing behind the value"),
        ("X a b c d", "b.cnf:1:1: 'X' is no kind of line; write one of S (service), F (arrival)"),
        ("f * lib * audit", "b.cnf:1:1: a line begins with a capital letter; write F"),
        ("F", "b.cnf:1:2: the name is missing; the form is: F <service> <library> [<event> <function>]+"),
        ("R callbacks", "b.cnf:1:12: the library is missing; the form is: R <name> <library>"),
        ("F stock lib", "b.cnf:1:12: a pair is missing at the end; the form is: F <service> <library>"),
        ("F stock lib *", "b.cnf:1:14: a function is missing at the end"),
        ('F "stock lib * audit', "b.cnf:1:3: the quotes are not closed"),
        ('F st"ock lib * audit', "b.cnf:1:5: a quote inside a word; put the whole word in quotes"),
        ('F "" lib * audit', "b.cnf:1:3: an empty name; write * for everything"),
        ("F a.>.b lib * audit", "b.cnf:1:3: the service 'a.>.b' has '>' or '#' before its end"),
        ("F /nowhere/x lib * audit", "b.cnf:1:3: the service '/nowhere/x' must begin with"),
        ("S orders.> lib * take", "b.cnf:1:3: the service 'orders.>' must be the name of one queue"),
        ("F stock lib * audit time-limit=soon", "b.cnf:1:21: time-limit is 'soon'; write seconds"),
        ("F stock lib * audit time-limit=1000", "b.cnf:1:21: the time-limit 'time-limit=1000' must be from"),
        ("F stock lib on-failure=accept * audit", "b.cnf:1:13: options such as on-failure=accept stand at"),
        ("F stock mom * limit_rate", "b.cnf:1:1: option rate is missing: how many a second"),
        ("F stock mom * limit_rate rat=1", "b.cnf:1:26: there is no option 'rat'; did you mean rate?"),
        ("F stock mom * limit", "b.cnf:1:15: library mom has no function limit; it has audit"),
        ("G stock mom * set_headers", "b.cnf:1:15: set_headers is for arrival only"),
    ],
)
def test_an_error_says_where_it_is_and_what_would_be_right(line: str, error: str) -> None:
    with pytest.raises(cnf.CnfError) as raised:
        cnf.parse(line, "b.cnf")
    assert str(raised.value).startswith(error)


def test_all_errors_of_a_file_are_reported() -> None:
    with pytest.raises(cnf.CnfError) as raised:
        cnf.parse("X\nF * lib * audit\nF\n", "b.cnf")
    assert [line.split(" ")[0] for line in str(raised.value).splitlines()] == ["b.cnf:1:1:", "b.cnf:3:2:"]


@pytest.mark.parametrize("name", ["CBdefault.cnf", "REcallback.cnf"])
def test_files_that_come_with_mom_are_found_by_name(name: str) -> None:
    (declaration,) = cnf.read(Path(name))
    assert (declaration.function, declaration.service) == ("REenableCallbacks", "*")


def test_a_file_here_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("CBdefault.cnf").write_bytes(b"\xef\xbb\xbfF * lib * audit\r\n")
    (declaration,) = cnf.read(Path("CBdefault.cnf"))
    assert declaration.function == "audit"


def test_a_file_is_found_from_any_directory_and_errors_have_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "filters"
    folder.mkdir()
    (folder / "own.cnf").write_text("F * lib * audit\n")
    (folder / "bad.cnf").write_text("\nX\n")
    for directory, file, bad in (
        (folder, "own.cnf", "bad.cnf"),
        (tmp_path, "filters/own.cnf", "./filters/bad.cnf"),
        (Path("/"), str(folder / "own.cnf"), str(folder / "bad.cnf")),
    ):
        monkeypatch.chdir(directory)
        (declaration,) = cnf.read(Path(file))
        assert (declaration.name, declaration.origin) == ("own.cnf:1", "own.cnf:1")
        with pytest.raises(cnf.CnfError, match=rf"^{folder}/bad.cnf:2:1: 'X' is no kind of line"):
            cnf.read(Path(bad))


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("own.cnf", "there is no file {here}/own.cnf; CBdefault.cnf, REcallback.cnf come with MOM"),
        ("no/CBdefault.cnf", "there is no file {here}/no/CBdefault.cnf; did you mean CBdefault.cnf, which"),
        (
            r"C:\xiomom\files\CBdefault.cnf",
            r"there is no file {here}/C:\xiomom\files\CBdefault.cnf; did you mean CBdefault.cnf, which",
        ),
        (".", "{here} is no file; name a file with lines"),
    ],
)
def test_a_file_that_is_missing_is_named_with_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cnf.CnfError) as raised:
        cnf.read(Path(file))
    assert str(raised.value).startswith(error.format(here=tmp_path))


def test_a_file_that_is_missing_or_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(cnf.CnfError, match=r"did you mean CBdefault.cnf, which comes with MOM"):
        cnf.read(Path("CBdefaults.cnf"))
    (tmp_path / "latin.cnf").write_bytes(b"# ok\nF caf\xe9 lib * audit\n")
    with pytest.raises(cnf.CnfError, match=r"latin.cnf:2: is not UTF-8"):
        cnf.read(tmp_path / "latin.cnf")


def test_a_value_that_is_nested_too_deeply_is_an_error_of_its_line() -> None:
    with pytest.raises(cnf.CnfError, match=r"b\.cnf:2:13: the value is nested too deeply"):
        cnf.parse("S a b c d\nS a b c d x=" + "[" * 100_000, "b.cnf")
