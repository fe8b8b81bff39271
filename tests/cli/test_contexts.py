"""Selection of the broker that a command uses, and of the credentials."""

import stat
from pathlib import Path

import pytest

from broker_app.cli.base import contexts
from broker_app.cli.base.contexts import Context, Contexts
from broker_app.cli.base.failures import FAILED, NOT_FOUND, USAGE, Failure
from tests.cli.conftest import CommandLine


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with two contexts, prod being the current one."""
    (tmp_path / "token").write_text("mom_secret\n")
    environment = {"HOME": str(tmp_path)}
    known = Contexts(environment)
    known.add(Context("prod", "https://mom.example.org", token_file=str(tmp_path / "token"), production=True))
    known.add(Context("lab", "http://lab:8000", token_command="echo mom_lab"))
    return environment


def test_the_default_is_the_broker_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = contexts.find(environment={"HOME": str(tmp_path)})
    assert (target.url, target.login) == ("http://127.0.0.1:8000", "")


def test_without_a_name_the_address_in_the_data_directory_is_used(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = {"HOME": str(tmp_path / "nobody")}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "address").write_text("http://127.0.0.1:9000\n")
    assert contexts.find(environment=nobody).url == "http://127.0.0.1:9000"
    assert contexts.find(environment={**nobody, "MOM_DATA": str(tmp_path)}).url == contexts.DEFAULT_URL
    assert contexts.find(environment={**nobody, "MOM_URL": "http://one"}).url == "http://one"
    assert contexts.find(environment=home).url == "https://mom.example.org"


def test_an_address_file_that_others_can_write_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "address").write_text("http://10.0.0.1:9000\n")
    (tmp_path / "data" / "address").chmod(0o666)
    environment = {"HOME": str(tmp_path)}
    assert contexts.find(environment=environment).url == contexts.DEFAULT_URL
    named = {**environment, "MOM_DATA": str(tmp_path / "data")}
    assert contexts.find(environment=named).url == "http://10.0.0.1:9000"


def test_current_context(home: dict[str, str]) -> None:
    target = contexts.find(environment=home)
    assert (target.url, target.login, target.passcode) == ("https://mom.example.org", "token", "mom_secret")
    assert target.production


@pytest.mark.process
def test_variable_overrides_current_and_option_overrides_variable(home: dict[str, str]) -> None:
    assert contexts.find(environment={**home, "MOM_CONTEXT": "lab"}).passcode == "mom_lab"
    assert contexts.find("prod", environment={**home, "MOM_CONTEXT": "lab"}).passcode == "mom_secret"
    assert contexts.find(url="http://one", environment={**home, "MOM_URL": "http://two"}).url == "http://one"


def test_token_of_a_context_is_not_shown_to_another_broker(home: dict[str, str]) -> None:
    target = contexts.find(url="http://elsewhere:8000", environment=home)
    assert (target.login, target.passcode, target.production) == ("", "", False)


def test_token_of_the_environment(home: dict[str, str], tmp_path: Path) -> None:
    assert contexts.find(environment={**home, "MOM_TOKEN": "mom_given"}).passcode == "mom_given"
    named = {**home, "MOM_TOKEN_FILE": str(tmp_path / "token")}
    assert contexts.find("lab", environment=named).passcode == "mom_secret"


def test_login_in_the_address(tmp_path: Path) -> None:
    target = contexts.find(
        url="http://admin:pass%20word@127.0.0.1:8001/", environment={"HOME": str(tmp_path)}
    )
    assert (target.url, target.login, target.passcode) == ("http://127.0.0.1:8001", "admin", "pass word")


def test_secrets_do_not_show(tmp_path: Path) -> None:
    assert "word" not in repr(contexts.find(url="http://admin:word@b", environment={"HOME": str(tmp_path)}))


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://b", "http://", "http://b:x", "http://b:99999"])
def test_bad_address(url: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="is not the URL of a broker") as failure:
        contexts.find(url=url, environment={"HOME": str(tmp_path)})
    assert failure.value.code == USAGE


def test_unknown_context(home: dict[str, str]) -> None:
    with pytest.raises(Failure, match="no context 'nowhere'") as failure:
        contexts.find("nowhere", environment=home)
    assert failure.value.code == NOT_FOUND
    assert "lab, prod" in failure.value.fix


@pytest.mark.parametrize(
    "content", ["current = ", "[context.a]\n", "[context.a]\nurl = 'http://a'\nport = 1\n", "context = 1"]
)
def test_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".config" / "mom" / "contexts.toml"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(Failure, match="contexts cannot be read") as failure:
        Contexts({"HOME": str(tmp_path)})
    assert (failure.value.code, failure.value.where) == (FAILED, str(path))


def test_commands(command_line: CommandLine, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("mom_secret")
    added = command_line(
        "context", "add", "prod", "--url", "https://mom.example.org", "--token-file", str(token)
    )
    assert (added.code, "it is the current one" in added.err) == (0, True)
    assert (
        command_line("context", "add", "lab", "--url", "http://lab", "--token-command", "pass 'mö\"m'").code
        == 0
    )
    assert command_line("context", "use", "lab").code == 0
    listed = command_line("context", "ls").rows
    assert listed == [
        ["name", "url", "current", "production", "token"],
        ["prod", "https://mom.example.org", "no", "no", str(token)],
        ["lab", "http://lab", "yes", "no", "command"],
    ]
    path = Path(command_line.environment["HOME"], ".config/mom/contexts.toml")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "mom_secret" not in path.read_text()
    assert Contexts(command_line.environment).get("lab").token_command == "pass 'mö\"m'"
    shown = command_line("-o", "json", "context", "show", "prod")
    assert (shown.json()["token"], "mom_secret" in shown.out) == (str(token), False)
    assert command_line("-o", "json", "context", "show").json()["name"] == "lab"
    assert command_line("context", "rm", "prod").err == "context prod is removed\n"
    assert "no context is the current one" in command_line("context", "rm", "lab").err
    assert Contexts(command_line.environment).known == {}
    assert [command_line("context", name).code for name in ("show", "rm")] == [NOT_FOUND, USAGE]


def test_wrong_use_of_commands(command_line: CommandLine) -> None:
    assert command_line("context", "use", "nowhere").code == NOT_FOUND
    assert command_line("context", "add", "x").code == USAGE
    assert command_line("context", "add", "a.b", "--url", "http://b").code == USAGE
    assert command_line("context", "add", "x", "--url", "http://b", "--token-file", "/nowhere").code == FAILED
