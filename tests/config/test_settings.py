"""The settings of ``serve``: where each is looked for, and what is said of a wrong one."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from socket import gethostname

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from forewarn.config import settings as settings_module
from forewarn.config.settings import KEYS, LEAST_HISTORY, MailSettings, NoticeSettings, Settings, load
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.notice import Rules


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "forewarn.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    """One rule for all: --rate-limit, FOREWARN_RATE_LIMIT, rate_limit."""
    file = written(tmp_path, "rate_limit = 1\n")
    environment = {"FOREWARN_RATE_LIMIT": "2"}

    assert load({}, {}, file).rate_limit == 1
    assert load({}, environment, file).rate_limit == 2
    assert load({"rate_limit": "3"}, environment, file).rate_limit == 3


SAMPLES = {
    "data": ("/srv/forewarn", Path("/srv/forewarn")),
    "journal": ("sqlite:/srv/journal", "sqlite:/srv/journal"),
    "node": ("n1", "n1"),
    "cluster": ("off", None),
    "cluster_certificate": ("n1.pem", Path("n1.pem")),
    "cluster_key": ("n1.key", Path("n1.key")),
    "cluster_authority": ("authority.pem", Path("authority.pem")),
    "behind_after": ("30s", timedelta(seconds=30)),
    "answer_behind": ("false", False),
    "metadata": ("[::1]:80", ListenAddress("::1", 80)),
    "control": ("off", None),
    "control_certificate": ("control.pem", Path("control.pem")),
    "control_key": ("control.key", Path("control.key")),
    "control_plain_http": ("true", True),
    "strict": ("true", True),
    "fleet": ("fleet.toml", Path("fleet.toml")),
    "hurry": ("60", 60.0),
    "default_vm": ("web-0", "web-0"),
    "identity": ("mark", "mark"),
    "answer_ttl": ("1", 1),
    "allowed_hosts": ("Meta.example.org., *", ("meta.example.org", "*")),
    "rate_limit": ("2.5", 2.5),
    "rate_burst": ("7", 7),
    "connections_per_caller": ("0", 0),
    "connections": ("9", 9),
    "workers": ("2", 2),
    "leader_timeout": ("90s", timedelta(seconds=90)),
    "user_operation_limit": ("3", 3),
    "maintenance_windows": ("Sat 02:00-06:00; 22:00-23:00", ("Sat 02:00-06:00", "22:00-23:00")),
    "gate_programs": ("/etc/forewarn/gates", Path("/etc/forewarn/gates")),
    "history": ("30d", timedelta(days=30)),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
    "driver": ("command", "command"),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_setting_is_a_flag_a_variable_and_a_key(tmp_path: Path, name: str) -> None:
    """None of the three ways is forgotten for any of them."""
    given_text, value = SAMPLES[name]
    number = given_text if isinstance(value, int | float) else f'"{given_text}"'
    file = written(tmp_path, f"{name} = {number}\n")

    assert getattr(load({name: given_text}, {}, Path("/dev/null")), name) == value
    assert getattr(load({}, {f"FOREWARN_{name.upper()}": given_text}, Path("/dev/null")), name) == value
    assert getattr(load({}, {}, file), name) == (tmp_path / value if isinstance(value, Path) else value)


def test_workers_must_have_time_to_wait_for_the_next_leader() -> None:
    """A leader that is killed takes some seconds to be started again."""
    assert load({"leader_timeout": "5s"}, {}, Path("/dev/null")).leader_timeout == timedelta(seconds=5)
    with pytest.raises(BadInput, match=r"leader_timeout is too short.*; set it to 5s or more"):
        load({"leader_timeout": "4s"}, {}, Path("/dev/null"))


def test_workers_may_be_counted_from_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core is left to the leader; there is at least one worker, and not more than fit."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert load({"workers": "auto"}, {}, Path("/dev/null")).workers == 3
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert load({"workers": "auto"}, {}, Path("/dev/null")).workers == 1
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(128)))
    assert load({"workers": "auto"}, {}, Path("/dev/null")).workers == 32
    with pytest.raises(BadInput, match="a whole number from 0 to 32, or auto"):
        load({"workers": "33"}, {}, Path("/dev/null"))
    with pytest.raises(BadInput, match="workers follow a journal of SQLite only"):
        load({"workers": "2", "journal": "memory:"}, {}, Path("/dev/null"))


def test_paths_in_a_file_count_from_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that runs elsewhere than the service finds the same; flags count from where one is."""
    file = written(
        tmp_path, 'data = "data"\nfleet = "/srv/fleet.toml"\n[mail]\nuser = "us"\npassword_file = "word"\n'
    )
    monkeypatch.chdir("/")
    settings = load({"control_key": "key"}, {}, file)

    assert (settings.data, settings.fleet) == (tmp_path / "data", Path("/srv/fleet.toml"))
    assert settings.control_key == Path("key")
    assert settings.mail.password_file == tmp_path / "word"


def test_the_settings_of_the_system_say_where_its_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that look for the service of this machine find them last of all; a service does not by itself."""
    monkeypatch.chdir(tmp_path)
    system = tmp_path / "etc" / "forewarn.toml"
    load = partial(settings_module.load, system_file=system)
    assert load({}, {}, of_system=True).data == Path("forewarn-data")
    system.parent.mkdir()
    system.write_text('identity = "mark"\n')

    assert load({}, {}, system).data == load({}, {}, of_system=True).data == Path("/var/lib/forewarn")
    assert load({}, {}).data == Path("forewarn-data")
    assert load({"data": "other"}, {}, of_system=True).data == Path("other")
    system.write_text('data = "/srv/data"\n')
    assert load({}, {}, system).data == Path("/srv/data")
    written(tmp_path, 'data = "here"\n')
    assert load({}, {}, of_system=True).data == Path("here")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hurry = 1\nrate_limits = 5\n", "line 2: there is no setting 'rate_limits'; did you mean 'rate_limit'?"),
        ("\nrate_limit = 'fast'\n", "line 2: rate_limit is 'fast', expected a number, 0 or more"),
        ("rate_limit = '5'\n", "line 1: rate_limit is '5', expected a number"),
        ("rate_limit = -1\n", "expected a number, 0 or more"),
        ("rate_limit = true\n", "rate_limit is True, expected a number"),
        ("rate_limit = nan\n", "expected a number"),
        ("connections = 1.5\n", "connections is 1.5, expected a whole number"),
        ("hurry = 0\n", "hurry is 0, expected a number above 0"),
        ("metadata = '127.0.0.1'\n", "expected HOST:PORT"),
        ("metadata = '::1:80'\n", "expected HOST:PORT"),
        ("metadata = 'localhost:70000'\n", "expected HOST:PORT"),
        ("log_level = 'loud'\n", "expected one of debug, info, warning, error"),
        ("data = ''\n", "expected a path"),
        ("history = 'long'\n", "expected a duration such as"),
        ("[notice]\nfreze = '1m'\n", "line 2: there is no setting 'notice.freze'; did you mean 'freeze'?"),
        ("[notice]\nfreeze = 'x'\n", "line 2: freeze in \\[notice\\] is 'x', expected a duration"),
        ("notice = 1\n", "line 1: notice is a table"),
        ("drivers = 1\n", "a driver's settings are a table"),
        ("[mail]\nhots = 'x'\n", "line 2: there is no setting 'mail.hots'; did you mean 'host'?"),
        ("[mail]\ntls = 'always'\n", "line 2: tls in \\[mail\\] is 'always', expected one of starttls, tls, none"),
        ("[mail]\nhost = 'mx'\n", "host in \\[mail\\] needs sender"),
        ("[mail]\nuser = 'me'\n", "user and password_file in \\[mail\\] need each other"),
        ("[mail]\nuser = 'me'\npassword_file = 'p'\ntls = 'none'\n", "its password in the clear"),
    ],
)
def test_a_mistake_in_the_file_names_line_key_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    """What was given, and what is expected."""
    with pytest.raises(BadInput, match=said):
        load({}, {}, written(tmp_path, text))


def test_a_mistake_elsewhere_names_the_flag_or_the_variable() -> None:
    """So that it is found where it was made."""
    with pytest.raises(BadInput, match="flag --hurry is 'fast', expected a number above 0"):
        load({"hurry": "fast"}, {}, Path("/dev/null"))
    with pytest.raises(BadInput, match="environment variable FOREWARN_HURRY is 'x'"):
        load({}, {"FOREWARN_HURRY": "x"}, Path("/dev/null"))


@pytest.mark.parametrize(
    ("text", "names"),
    [('["A.example", "b.example"]', ("a.example", "b.example")), ('"*"', ("*",)), ("[]", ()), ('""', ())],
)
def test_hosts_are_a_list_or_a_text(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    """In any case; none are none."""
    assert load({}, {}, written(tmp_path, f"allowed_hosts = {text}\n")).allowed_hosts == names


def test_a_default_vm_speaks_on_loopback_only() -> None:
    """On any other listener it would lend its identity to strangers."""
    with pytest.raises(BadInput, match="default_vm applies to callers on this machine only"):
        load({"default_vm": "web-0", "metadata": "169.254.169.254:80"}, {}, Path("/dev/null"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"default_vm": "web-0", "identity": "tap"}, 'default_vm is for identity = "address"'),
        (
            {"allowed_hosts": "meta.example.org:80"},
            "--allowed-hosts is 'meta.example.org:80', expected names without",
        ),
        ({"allowed_hosts": "a,,b"}, "expected names without ports"),
        ({"allowed_hosts": "http://a.b/"}, "expected names without ports"),
        ({"answer_ttl": "256"}, "expected a whole number from 0 to 255"),
        ({"identity": "name"}, "expected one of address, mark, tap"),
    ],
)
def test_what_cannot_be_on_the_network_is_refused(flags: dict[str, str], said: str) -> None:
    """Before anything listens."""
    with pytest.raises(BadInput, match=said):
        load(flags, {}, Path("/dev/null"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"journal": "sqlite:"}, "cluster is for nodes that share a journal"),
        ({"cluster": "0.0.0.0:8256"}, "name the address of this machine"),
        ({"cluster_authority": None}, "nodes know each other by certificates"),
        ({"cluster_certificate": None}, "nodes know each other by certificates"),
        ({"workers": "2"}, "workers follow a journal of SQLite only"),
    ],
)
def test_a_cluster_needs_a_shared_journal_an_address_and_certificates(
    flags: dict[str, str | None], said: str
) -> None:
    """What is missing is named before anything starts."""
    given: dict[str, str | None] = {
        "journal": "postgresql://db/forewarn",
        "cluster": "10.0.0.1:8256",
        "cluster_certificate": "n1.pem",
        "cluster_authority": "authority.pem",
    }
    found = load({name: value for name, value in given.items() if value}, {}, Path("/dev/null"))
    assert found.cluster == ListenAddress("10.0.0.1", 8256)
    assert found.node_name == gethostname()
    given.update(flags)
    with pytest.raises(BadInput, match=said):
        load({name: value for name, value in given.items() if value}, {}, Path("/dev/null"))


def test_the_driver_gets_its_own_table(tmp_path: Path) -> None:
    """Tables of drivers that are not named wait unread."""
    file = written(
        tmp_path, 'driver = "command"\n[drivers.command]\nprogram = "x"\n[drivers.simulated]\nreboot = 1\n'
    )

    assert load({}, {}, file).driver_settings == {"program": "x"}
    assert load({"driver": "simulated"}, {}, file).driver_settings == {"reboot": 1}
    assert load({"driver": "other"}, {}, file).driver_settings == {}


def test_mail_has_a_table_of_its_own(tmp_path: Path) -> None:
    """What is left out keeps its default."""
    file = written(tmp_path, '[mail]\nhost = "mx.example.org"\nsender = "forewarn@example.org"\nport = 25\n')

    assert load({}, {}, file).mail == MailSettings(host="mx.example.org", sender="forewarn@example.org", port=25)


def test_the_file_beside_us_counts_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """./forewarn.toml, then FOREWARN_CONFIG, then --config."""
    monkeypatch.chdir(tmp_path)
    assert load({}, {}) == Settings()

    written(tmp_path, "hurry = 2\n")
    other = tmp_path / "other.toml"
    other.write_text("hurry = 3\n", encoding="utf-8")

    assert load({}, {}).hurry == 2
    assert load({}, {"FOREWARN_CONFIG": str(other)}).hurry == 3
    assert load({}, {"FOREWARN_CONFIG": "absent"}, other).hurry == 3


def test_the_default_notices_are_those_of_the_rules() -> None:
    """They are written down twice, and must not drift apart."""
    assert asdict(NoticeSettings()) == DEFAULT_NOTICES == Rules().notices


scalars = st.one_of(st.text(max_size=9), st.integers(), st.floats(), st.booleans())


@given(st.sampled_from(list(KEYS)), scalars)
def test_any_value_is_taken_or_refused_in_one_sentence(name: str, value: object) -> None:
    """No other exception leaves a setting."""
    flag = f"--{name.replace('_', '-')}"
    said = flag
    try:
        load({name: value}, {}, Path("/dev/null"))
    except BadInput as error:
        said = str(error)

    assert flag in said


@pytest.mark.parametrize(("given", "kept"), [("1h", LEAST_HISTORY), ("30d", timedelta(days=30))])
def test_a_day_of_history_is_always_kept(given: str, kept: timedelta) -> None:
    """For so long a request may be repeated under its key, whatever the setting says."""
    assert load({"history": given}, {}).kept_history == kept


@pytest.mark.parametrize(
    ("journal", "directory", "records"),
    [
        ("sqlite:", "/srv/data", "/srv/data/driver"),
        ("sqlite:journal", "/srv/data/journal", "/srv/data/journal/driver"),
        ("sqlite:/fast/journal", "/fast/journal", "/fast/journal/driver"),
        ("memory:", "/srv/data", "/srv/data/driver"),
        ("postgresql://h1/forewarn", "//h1/forewarn", "/srv/data/driver"),
    ],
)
def test_a_journal_has_a_name_and_a_location(journal: str, directory: str, records: str) -> None:
    """A relative location counts from the data directory; a driver's records are beside the files of SQLite."""
    settings = Settings(data=Path("/srv/data"), journal=journal)

    assert f"{settings.journal_name}:{settings.journal_location}" == journal
    assert settings.journal_directory == Path(directory)
    assert settings.driver_directory == Path(records)


def test_a_journal_without_a_colon_is_told_what_is_expected() -> None:
    """The name alone may be meant for a directory."""
    with pytest.raises(BadInput) as refused:
        load({}, {"FOREWARN_JOURNAL": "sqlite"}, Path("/dev/null"))

    assert str(refused.value) == (
        "environment variable FOREWARN_JOURNAL is 'sqlite',"
        " expected NAME:LOCATION, such as sqlite:/var/lib/forewarn or memory:"
    )


@pytest.mark.parametrize("journal", ["postgresql://ada:s3cret@one/db", "postgresql:host=one password=s3cret"])
def test_a_password_in_the_journals_address_is_refused(journal: str) -> None:
    """It would be shown by messages and by the list of processes; the refusal does not repeat it."""
    with pytest.raises(BadInput, match="remove it, and set PGPASSWORD") as caught:
        load({"journal": journal}, {})
    assert "s3cret" not in str(caught.value)


def test_an_address_with_ports_and_a_role_holds_no_password() -> None:
    """Colons and at signs alone are none."""
    journal = "postgresql://ada@one:5432,two:5433/db?sslmode=require&user=a@b"
    assert load({"journal": journal}, {}).journal == journal
