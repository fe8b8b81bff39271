"""Settings: from variables and options, with clear errors."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from broker_app import config
from broker_app.base import units
from broker_app.base.settings import mail_server, roles
from broker_app.base.settings.setting_groups import TITLES
from broker_app.base.settings.shipped_files import REFLEX_FILES


def refusal(**variables: str) -> str:
    with pytest.raises(config.ConfigError) as refused:
        config.load(variables)
    return str(refused.value)


def test_without_variables_all_is_default() -> None:
    assert config.load({"PATH": "/bin"}) == config.Config()


def test_variables_are_read_by_type() -> None:
    read = config.load(
        {
            "MOM_PORT": "0",
            "MOM_DATA": "/srv/mom",
            "MOM_ANONYMOUS": "Yes",
            "MOM_CONNECT_TIMEOUT": "2.5",
            "MOM_MAX_BODY_BYTES": "16 MiB",
            "MOM_LEASE_S": "5s",
            "MOM_MEMORY_BYTES": "500MB",
            "MOM_ALLOWED_HOSTS": "a.example, b.example,",
        }
    )
    assert (read.port, read.data, read.anonymous, read.connect_timeout) == (0, Path("/srv/mom"), True, 2.5)
    assert read.max_body_bytes == 16 * 1024 * 1024
    assert {"localhost", "a.example", "b.example"} <= set(read.known_hosts)


def test_an_unknown_variable_is_refused_with_a_suggestion() -> None:
    assert refusal(MOM_PROT="1") == "MOM_PROT is no setting of MOM; did you mean MOM_PORT?"
    assert refusal(MOM_QQQQQQ="1") == "MOM_QQQQQQ is no setting of MOM"


@pytest.mark.parametrize(
    ("address", "path", "behind_tls"),
    [
        (None, "", False),
        ("https://mom.example.org", "", True),
        ("http://mom.example.org/console/", "", False),
        ("https://mom.example.org:8443/a/broker/console/", "/a/broker", True),
        ("https://mom.example.org/broker/", "/broker", True),
    ],
)
def test_the_address_of_the_console_has_its_path_and_says_where_tls_ends(
    address: str | None, path: str, behind_tls: bool
) -> None:
    read = config.Config(console_url=address)
    assert (read.base_path, read.behind_tls) == (path, behind_tls)
    assert not replace(read, tls_cert=Path("cert.pem")).behind_tls, "TLS ends here"


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("smtp://mail.example", ("mail.example", 25, "smtp", "", "")),
        ("smtp+starttls://ops@mail.example", ("mail.example", 587, "smtp+starttls", "ops", "")),
        ("smtps://ops:p%40ss@[::1]:1465", ("::1", 1465, "smtps", "ops", "p@ss")),
    ],
)
def test_the_address_of_the_mail_server_has_its_login(
    address: str, server: tuple[str, int, str, str, str]
) -> None:
    for query, sender in (("", "mom@localhost"), ("?from=mom@b1.example", "mom@b1.example")):
        read = config.load({"MOM_SMTP": address + query}).smtp
        assert mail_server.parse(read or "") == (*server, sender)


@pytest.mark.parametrize(
    "address",
    ["mail.example", "smtp://", "smtp://a:x@mail:99999", "http://mail", "smtp://m/x", "smtp://m?to=a@b"],
)
def test_a_wrong_address_of_the_mail_server_is_refused_without_its_password(address: str) -> None:
    assert refusal(MOM_SMTP=address).startswith("MOM_SMTP: the address of the mail server ")


def test_kinds_of_messages_share_the_memory_for_them() -> None:
    def together(memory: config.Config) -> int:
        return sum((
            memory.body_bytes, memory.transient_bytes, memory.transactions_bytes, memory.blocked_bytes,
            memory.reflex_bytes, memory.inbox_bytes, memory.histories * 160 * config.KIB,
        ))  # fmt: skip

    for memory_bytes in (8 * config.MIB, config.Config().memory_bytes, 10**11):
        memory = config.Config(memory_bytes=memory_bytes)
        assert 0.7 * memory_bytes < together(memory) <= memory_bytes


def test_a_word_that_is_not_among_the_choices_is_refused_with_a_suggestion() -> None:
    assert refusal(MOM_LOG_LEVEL="warn") == (
        "MOM_LOG_LEVEL: 'warn' is not one of debug, info, warning, error; did you mean warning?"
    )


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("MOM_PORT", "x", "MOM_PORT: 'x' is not a number"),
        ("MOM_PORT", "65536", "MOM_PORT: 65536 must be between 0 and 65535"),
        ("MOM_PORT", "", "MOM_PORT: '' is not a number"),
        ("MOM_LEASE", "nan", "MOM_LEASE: 'nan' is not a time such as 2s, 5m or 90"),
        ("MOM_CREDIT", "0", "MOM_CREDIT: 0 must be at least 1"),
        (
            "MOM_MEMORY_BYTES",
            "1 apple",
            "MOM_MEMORY_BYTES: '1 apple' is not a size such as 65536, 64MB or 64MiB",
        ),
        ("MOM_LEASE_S", "1 blink", "MOM_LEASE_S: '1 blink' is not a time such as 2s, 5m or 90"),
        ("MOM_ANONYMOUS", "maybe", "MOM_ANONYMOUS: 'maybe' is neither true nor false"),
        ("MOM_NAME", "", "MOM_NAME: is empty"),
        ("MOM_NAME", "a b", r"MOM_NAME: 'a b' is not of the form [\w.-]{1,64}"),
        (
            "MOM_ALLOWED_HOSTS",
            "https://x/y",
            "MOM_ALLOWED_HOSTS: 'https://x/y' is not of the form (https?://)?[^/,]+",
        ),
    ],
)
def test_an_invalid_value_is_named(variable: str, value: str, sentence: str) -> None:
    assert refusal(**{variable: value}) == sentence


TIMES = [one for one in config.settings() if one.rule.unit in ("s", "bytes")]


@pytest.mark.parametrize("setting", TIMES, ids=lambda setting: setting.name)
def test_every_time_and_size_may_have_a_unit(setting: config.Setting) -> None:
    text, number = ("30s", 30) if setting.rule.unit == "s" else ("5GiB", 5 * 1024**3)
    read = config.load({setting.variable: text})
    assert getattr(read, setting.name) == number


def test_a_mirror_needs_a_journal_to_share_and_a_main_does_not(tmp_path: Path) -> None:
    assert config.load({"MOM_ROLE": "1"}).role == roles.MAIN
    assert config.load({"MOM_ROLE": "-1", "MOM_JOURNAL": "file:/srv/mom"}).role == roles.MIRROR
    assert "set --journal (MOM_JOURNAL) to the address that the main has" in refusal(MOM_ROLE="-1")


def test_a_wrong_role_in_a_file_is_reported_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text('/config/mom = {\n    "role": 3\n}\n')
    assert refusal(MOM_CONFIG_FILE=str(file)).startswith("zero.config:2: 3 is not a role")


def test_all_errors_are_reported_together() -> None:
    assert len(refusal(MOM_PORT="x", MOM_LEASE="x", MOM_PROT="x").splitlines()) == 3


def test_variables_of_the_command_line_client_are_left_alone() -> None:
    config.load(dict.fromkeys(config.CLIENT_VARIABLES, "anything"))


def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s e cret\n")
    read = config.load({"MOM_ADMIN_PASSWORD_FILE": str(file)})
    assert read.admin_password == "s e cret"
    assert "s e cret" not in repr(read)


def test_a_secret_is_refused_when_it_is_ambiguous_absent_or_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "take one" in refusal(MOM_ADMIN_PASSWORD="a", MOM_ADMIN_PASSWORD_FILE="b")
    assert "No such file" in refusal(MOM_ADMIN_PASSWORD_FILE=str(tmp_path / "absent"))
    assert "is empty" in refusal(MOM_ADMIN_PASSWORD_FILE=str(empty))


def test_options_become_variables() -> None:
    found = config.options_in(
        ["--port", "1", "--anonymous", "--verbosity", "2", "--admin-password-file=f", "--por", "3"]
    )
    assert found == {"MOM_PORT": "1", "MOM_ANONYMOUS": "true", "MOM_ADMIN_PASSWORD_FILE": "f"}


def test_a_truth_may_be_given_as_an_option_with_its_value() -> None:
    found = config.options_in(["--auto-create-queues", "false", "--anonymous", "--smash-reload=no"])
    assert found == {"MOM_AUTO_CREATE_QUEUES": "false", "MOM_ANONYMOUS": "true", "MOM_SMASH_RELOAD": "no"}


def test_no_secret_is_an_option_and_every_option_names_its_variable() -> None:
    parser = argparse.ArgumentParser()
    config.add_options(parser)
    text = parser.format_help()
    assert "--admin-password " not in text
    for setting in config.settings():
        assert setting.option in text
        assert setting.variable in text
    options = [word for action in parser._actions for word in action.option_strings]
    assert [option for option in options if "_" in option] == []
    assert config.options_in(["--channel-layer", "redis://h"]) == {"MOM_CHANNEL_LAYER": "redis://h"}


def test_the_help_lists_settings_in_groups() -> None:
    parser = argparse.ArgumentParser()
    config.add_options(parser)
    groups = {group.title: len(group._group_actions) for group in parser._action_groups[2:]}
    assert list(groups) == list(TITLES.values())
    assert max(groups.values()) <= 18
    assert [action.option_strings for action in parser._actions] == [
        action.option_strings for group in parser._action_groups for action in group._group_actions
    ]


def test_a_file_gives_settings_that_variables_replace(tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text(
        """
        /config/messaging/broker/name = "plant7"
        /config/messaging/broker/messageStore = "store"
        /config/mom += {"port": 0, "max_body_bytes": "16MiB", "lease": 2.5, "anonymous": true,
                        "allowed_hosts": ["a.example"]}
        """
    )
    read = config.load({"MOM_CONFIG_FILE": str(file), "MOM_PORT": "8001"})
    assert (read.name, read.port, read.lease, read.anonymous) == ("plant7", 8001, 2.5, True)
    assert (read.max_body_bytes, read.allowed_hosts) == (16 * 1024 * 1024, ("a.example",))
    assert read.data == tmp_path / "store"
    assert read.sources == {
        "config_file": "MOM_CONFIG_FILE", "port": "MOM_PORT",
        "name": "zero.config:2", "data": "zero.config:3",
        "max_body_bytes": "zero.config:4", "lease": "zero.config:4", "anonymous": "zero.config:4",
        "allowed_hosts": "zero.config:5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("/config/mom/port = 65536", "1:20: /config/mom/port 65536 must be between 0 and 65535"),
        ("/config/mom/port = 1.5", "1:20: /config/mom/port must be a whole number"),
        ("/config/mom/port = true", "1:20: /config/mom/port must be a whole number"),
        ('/config/mom/port = "8000"', "1:20: /config/mom/port must be a whole number"),
        ('/config/mom/lease = "soon"', "1:21: /config/mom/lease 'soon' is not a time such as 2s, 5m or 90"),
        ('/config/mom/segment_bytes = "1 apple"', "1:29: /config/mom/segment_bytes '1 apple' is not a size"),
        ("/config/mom/smash_reload = 1", "1:28: /config/mom/smash_reload must be true or false"),
        ("/config/mom/data = 1", "1:20: /config/mom/data must be a string"),
        ("/config/mom/allowed_hosts = [1]", "1:29: /config/mom/allowed_hosts must be an array of strings"),
        ('/config/mom/allowed_hosts = ["x/y"]', "1:29: /config/mom/allowed_hosts 'x/y' is not of the form"),
        (
            '/config/mom/log_level = "warn"',
            "1:25: /config/mom/log_level 'warn' is not one of debug, info, warning, error; did",
        ),
        ('/config/mom/admin_password = "x"', "1:1: /config/mom/admin_password: a secret stands in no file"),
        ('/config/mom/config_file = "x"', "1:1: /config/mom/config_file: a file does not name itself"),
        ('/config/mom/nam = "x"', "1:1: there is no key /config/mom/nam; did you mean /config/mom/name?"),
    ],
)
def test_a_wrong_setting_in_a_file_is_reported_with_its_position(
    tmp_path: Path, line: str, fault: str
) -> None:
    file = tmp_path / "zero.config"
    file.write_text(line)
    told = refusal(MOM_CONFIG_FILE=str(file)).splitlines()
    assert told[0] == f"{file} cannot be used:"
    assert told[1].startswith(f"  zero.config:{fault}")


def test_a_missing_file_is_reported_with_all_other_errors(tmp_path: Path) -> None:
    told = refusal(MOM_CONFIG_FILE=str(tmp_path / "zero.config"), MOM_PORT="x")
    assert "MOM_PORT: 'x' is not a number" in told
    assert "there is no file zero.config" in told


def test_a_file_names_reflexes_next_to_it_or_those_that_come_with_mom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "own.cnf").touch()
    (tmp_path / "CBdefault.cnf").touch()
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "etc" / "zero.config"

    def found(named: str) -> Path | None:
        file.write_text(f'/config/mom/reflex_file = "{named}"\n')
        return config.load({"MOM_CONFIG_FILE": str(file)}).reflex_file

    assert found("CBdefault.cnf") == REFLEX_FILES / "CBdefault.cnf"
    assert found("../own.cnf") == tmp_path / "etc" / "../own.cnf"
    assert found("own.cnf") == tmp_path / "etc" / "own.cnf"
    (tmp_path / "etc" / "CBdefault.cnf").touch()
    assert found("CBdefault.cnf") == tmp_path / "etc" / "CBdefault.cnf"


def test_origins_stand_among_the_allowed_hosts() -> None:
    read = config.load({"MOM_ALLOWED_HOSTS": "plant7.example, https://ops.example:8443, ::1"})
    assert read.allowed_origins == ("https://ops.example:8443",)
    assert {"plant7.example", "::1"} <= set(read.known_hosts)
    assert not [host for host in read.known_hosts if "://" in host]


@pytest.mark.parametrize(
    ("retention", "store", "kept"),
    [("0", "0", "1GiB"), ("3GiB", "0", "3GiB"), ("3GiB", "4GiB", "2GiB"), ("0", "1GiB", "512MiB")],
)
def test_programs_with_cursors_keep_a_part_of_the_journal(retention: str, store: str, kept: str) -> None:
    read = config.load({"MOM_JOURNAL_RETENTION_BYTES": retention, "MOM_MAX_STORE_BYTES": store})
    assert read.cursor_bytes == units.size(kept)
