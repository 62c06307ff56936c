"""Settings of ``forewarn serve``.

The tables of the file ([notice], [mail], [network], and [drivers.NAME] for a driver's settings) have no flags.
"""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from socket import gethostname
from typing import Annotated

import msgspec

from forewarn.config import toml
from forewarn.config.setting_keys import SettingKey, from_file, from_outside, from_table, keys_of, unknown_key
from forewarn.config.values import (
    BOOLEAN,
    CONTROL_PORT,
    DIRECTORY,
    DURATION,
    ENDPOINT,
    ENDPOINT_OR_OFF,
    FILE,
    HOPS,
    HOSTS,
    INTEGER,
    JOURNAL,
    METADATA_PORT,
    NUMBER,
    RATE,
    TEXT,
    WINDOWS,
    WORKERS,
    ListenAddress,
    choice,
)
from forewarn.core.errors import BadInput
from forewarn.core.event_types import DEFAULT_NOTICES

DEFAULT_FILE = Path("forewarn.toml")
SYSTEM_FILE = Path("/etc/forewarn/forewarn.toml")
"""Settings of this machine's service; used by its systemd units, the libvirt hook and commands."""
SYSTEM_DATA = Path("/var/lib/forewarn")
"""Data directory of this machine's service, unless the file names another."""
PREFIX = "FOREWARN_"
SQLITE = "sqlite"
"""The journal whose files can be checked, backed up and restored."""
POSTGRESQL = "postgresql"
"""The journal in a database, which several nodes can share."""


_NoticeFields = msgspec.defstruct(
    "_NoticeFields",
    [
        (
            str(type_),
            Annotated[timedelta, SettingKey(DURATION, f"before a {type_.capitalize()}", reloadable=True)],
            least,
        )
        for type_, least in DEFAULT_NOTICES.items()
    ],
    frozen=True,
    kw_only=True,
)


class NoticeSettings(_NoticeFields):  # type: ignore[misc,valid-type]  # its fields are rows of a table
    """Least notice by event type: the table [notice]."""


class MailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Mail server for subscriptions: the table [mail]."""

    host: Annotated[str, SettingKey(TEXT, "The mail server; without one no mail is sent.", reloadable=True)] = ""
    port: Annotated[int, SettingKey(INTEGER, "Its port.", reloadable=True)] = 587
    tls: Annotated[
        str,
        SettingKey(
            choice("starttls", "tls", "none"), "Encryption: STARTTLS, TLS from the start, or none.", reloadable=True
        ),
    ] = "starttls"
    sender: Annotated[str, SettingKey(TEXT, "The sender's address.", reloadable=True)] = ""
    user: Annotated[
        str, SettingKey(TEXT, "The user name to log in with; without one there is no login.", reloadable=True)
    ] = ""
    password_file: Annotated[
        Path | None, SettingKey(FILE, "The file that holds the password and nothing else.", reloadable=True)
    ] = None


LEAST_HISTORY = timedelta(hours=24)


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Network of this machine's guests, for ``forewarn network``: the table [network]."""

    bridge: Annotated[
        str, SettingKey(TEXT, "The bridge that guests are on; created where its name begins with forewarn.")
    ] = "forewarn0"
    uplink: Annotated[
        str, SettingKey(TEXT, "The port of the bridge that leads out of this machine; no guest is behind it.")
    ] = ""
    host: Annotated[str, SettingKey(TEXT, "Only VMs on this host; if not set, all VMs that have a tap.")] = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one service."""

    data: Annotated[Path, SettingKey(DIRECTORY, "Where the journal and the control socket are kept.")] = Path(
        "forewarn-data"
    )
    journal: Annotated[
        str,
        SettingKey(
            JOURNAL,
            "What keeps the facts: sqlite:DIR, postgresql://HOST/DATABASE, memory:, or one of your own. DIR counts"
            " from data, and is data itself where left out.",
        ),
    ] = "sqlite:"
    node: Annotated[
        str,
        SettingKey(TEXT, "The name of this node among those that share the journal; if not set, the host name."),
    ] = ""
    cluster: Annotated[
        ListenAddress | None,
        SettingKey(ENDPOINT_OR_OFF, "Where the other nodes that share the journal reach this one; or off."),
    ] = None
    cluster_certificate: Annotated[
        Path | None, SettingKey(FILE, "This node's certificate in PEM, by which the other nodes know it.")
    ] = None
    cluster_key: Annotated[Path | None, SettingKey(FILE, "Its key in PEM, if not in the certificate's file.")] = None
    cluster_authority: Annotated[
        Path | None, SettingKey(FILE, "The certificate in PEM of the authority that signs those of all nodes.")
    ] = None
    behind_after: Annotated[
        timedelta,
        SettingKey(
            DURATION,
            "From what age on a node that follows another counts as behind; health reports it.",
            reloadable=True,
        ),
    ] = timedelta(seconds=10)
    answer_behind: Annotated[
        bool, SettingKey(BOOLEAN, "Whether a node that is behind still answers VMs.", reloadable=True)
    ] = True
    metadata: Annotated[ListenAddress, SettingKey(ENDPOINT, "Where VMs ask.")] = ListenAddress(
        "127.0.0.1", METADATA_PORT
    )
    control: Annotated[
        ListenAddress | None, SettingKey(ENDPOINT_OR_OFF, "Listen address for operators and owners; or off.")
    ] = ListenAddress("127.0.0.1", CONTROL_PORT)
    control_certificate: Annotated[
        Path | None, SettingKey(FILE, "A certificate in PEM, for TLS on control.", reloadable=True)
    ] = None
    control_key: Annotated[
        Path | None, SettingKey(FILE, "Its key in PEM, if not in the certificate's file.", reloadable=True)
    ] = None
    control_plain_http: Annotated[
        bool, SettingKey(BOOLEAN, "Allow control without TLS on an address other than loopback.", reloadable=True)
    ] = False
    fleet: Annotated[
        Path | None, SettingKey(FILE, "A fleet file to apply at start and at each reload.", reloadable=True)
    ] = None
    strict: Annotated[
        bool,
        SettingKey(
            BOOLEAN, "Refuse to start with an invalid fleet file, even if a fleet is recorded.", reloadable=True
        ),
    ] = False
    hurry: Annotated[
        float, SettingKey(RATE, "Divide every duration of the rules by R; 60 makes minutes seconds.")
    ] = 1.0
    default_vm: Annotated[
        str,
        SettingKey(
            TEXT, "The VM for callers on this machine with an address that belongs to no VM.", reloadable=True
        ),
    ] = ""
    identity: Annotated[
        str,
        SettingKey(
            choice("address", "mark", "tap"),
            "How a calling VM is identified: by its address, or by the mark or tap of its packets.",
        ),
    ] = "address"
    answer_ttl: Annotated[
        int,
        SettingKey(
            HOPS,
            "Hop limit of responses to VMs: 1 keeps containers inside a VM from reading them; 0 is no limit.",
            reloadable=True,
        ),
    ] = 0
    allowed_hosts: Annotated[
        tuple[str, ...],
        SettingKey(
            HOSTS,
            "Names with a dot that requests of VMs may have in Host; addresses and names without a dot always may.",
            reloadable=True,
        ),
    ] = ()
    rate_limit: Annotated[
        float, SettingKey(NUMBER, "Requests per second and VM; 0 is no limit.", reloadable=True)
    ] = 5.0
    rate_burst: Annotated[
        int, SettingKey(INTEGER, "Requests a VM may make at once before the rate limit applies.", reloadable=True)
    ] = 20
    connections_per_caller: Annotated[
        int, SettingKey(INTEGER, "Open connections per address; 0 is no limit.", reloadable=True)
    ] = 64
    connections: Annotated[int, SettingKey(INTEGER, "Open connections in all; 0 is no limit.", reloadable=True)] = (
        16_384
    )
    workers: Annotated[
        int,
        SettingKey(
            WORKERS,
            "Processes that answer VMs beside the one that decides; auto: one less than there are cores; 0: none, one"
            " process does both.",
        ),
    ] = 0
    leader_timeout: Annotated[
        timedelta,
        SettingKey(
            DURATION,
            "How long workers answer from what they know when the leader has ended; at least 5 seconds.",
            reloadable=True,
        ),
    ] = timedelta(seconds=60)
    user_operation_limit: Annotated[
        int,
        SettingKey(
            INTEGER, "User-initiated events that may be Scheduled in the whole fleet; 0 is no limit.", reloadable=True
        ),
    ] = 0
    maintenance_windows: Annotated[
        tuple[str, ...],
        SettingKey(WINDOWS, "When events of rollouts may start; at any time where not set.", reloadable=True),
    ] = ()
    gate_programs: Annotated[
        Path | None,
        SettingKey(DIRECTORY, "Where programs are that gates of rollouts may run; none may where not set."),
    ] = None
    history: Annotated[
        timedelta,
        SettingKey(DURATION, "How long the journal keeps finished events; never less than a day.", reloadable=True),
    ] = timedelta(days=400)
    log_level: Annotated[
        str,
        SettingKey(choice("debug", "info", "warning", "error"), "The lowest level that is logged.", reloadable=True),
    ] = "info"
    log_format: Annotated[str, SettingKey(choice("human", "json"), "The format of the log.", reloadable=True)] = (
        "human"
    )
    driver: Annotated[
        str, SettingKey(TEXT, "The driver of the machines: simulated, command, webhook, qemu, libvirt, or your own.")
    ] = "simulated"
    driver_settings: dict[str, object] = {}
    """The driver's settings: the table [drivers.NAME]."""
    notice: NoticeSettings = NoticeSettings()
    mail: MailSettings = MailSettings()
    network: NetworkSettings = NetworkSettings()

    @property
    def kept_history(self) -> timedelta:
        """Retention of journal entries: long enough to repeat a request with the same Idempotency-Key."""
        return max(self.history, LEAST_HISTORY)

    @property
    def node_name(self) -> str:
        """The name of this node."""
        return self.node or gethostname()

    @property
    def journal_name(self) -> str:
        """The name of the journal's entry point."""
        return self.journal.partition(":")[0]

    @property
    def journal_location(self) -> str:
        """What the journal's own class makes of the setting."""
        return self.journal.partition(":")[2]

    @property
    def journal_directory(self) -> Path:
        """The location of the journal, where it is a directory; ``data`` where it is empty."""
        return Path(os.path.normpath(self.data / Path(self.journal_location).expanduser()))

    @property
    def driver_directory(self) -> Path:
        """Where the driver keeps its records: beside a journal of SQLite, so that one backup holds both."""
        return (self.journal_directory if self.journal_name == SQLITE else self.data) / "driver"


_PASSWORD = re.compile(r"//[^/@?]*:[^/@?]*@|[:?&\s]password=")
"""A password in an address of PostgreSQL."""
KEYS = keys_of(Settings)
"""Every setting that has a flag, a variable and a key."""
TABLES: dict[str, type[NoticeSettings] | type[MailSettings] | type[NetworkSettings]] = {
    "notice": NoticeSettings,
    "mail": MailSettings,
    "network": NetworkSettings,
}
"""The tables of the file with known settings."""
_TABLE_KEYS = {name: keys_of(record) for name, record in TABLES.items()}


def find_file(
    environment: Mapping[str, str], *, of_system: bool = False, system_file: Path = SYSTEM_FILE
) -> Path | None:
    """Return the default settings file: FOREWARN_CONFIG, else ``./forewarn.toml``.

    With ``of_system`` (commands that use this machine's service), the system's file comes last.
    """
    if named := environment.get(f"{PREFIX}CONFIG"):
        return Path(named)
    if DEFAULT_FILE.exists():
        return DEFAULT_FILE
    return system_file if of_system and os.access(system_file, os.R_OK) else None


def load(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    file: Path | None = None,
    *,
    of_system: bool = False,
    system_file: Path = SYSTEM_FILE,
) -> Settings:
    """Load the settings; raise BadInput that names the wrong flag, variable or line."""
    file = file or find_file(environment, of_system=of_system, system_file=system_file)
    found: dict[str, object] = {"data": SYSTEM_DATA} if file and file.absolute() == system_file else {}
    found |= _from_file(toml.read(file), file.parent) if file else {}
    found |= from_outside(KEYS, flags, environment, PREFIX)
    tables: object = found.pop("drivers", {})
    settings = msgspec.structs.replace(Settings(), **found)
    if isinstance(tables, dict):
        settings = msgspec.structs.replace(settings, driver_settings=tables.get(settings.driver, {}))
    check(settings)
    return settings


_SHORTEST_LEADER_TIMEOUT = timedelta(seconds=5)


def check(settings: Settings) -> None:
    """Raise BadInput if settings contradict each other."""
    if settings.journal_name == POSTGRESQL and _PASSWORD.search(settings.journal):
        raise BadInput(
            "journal holds a password, which messages and other users could show; remove it, and set PGPASSWORD or"
            " use ~/.pgpass or a service file"
        )
    if settings.default_vm and not settings.metadata.is_loopback:
        raise BadInput(
            f"default_vm applies to callers on this machine only, but the metadata listener is"
            f" {settings.metadata}; listen on 127.0.0.1 or remove default_vm"
        )
    if settings.default_vm and settings.identity != "address":
        raise BadInput(f'default_vm is for identity = "address"; it is {settings.identity!r}, so remove default_vm')
    mail = settings.mail
    if mail.host and not mail.sender:
        raise BadInput("host in [mail] needs sender; set sender to the address that mail comes from")
    if bool(mail.user) != bool(mail.password_file):
        raise BadInput("user and password_file in [mail] need each other; set both or neither")
    if mail.user and mail.tls == "none":
        raise BadInput('user in [mail] would send its password in the clear; set tls to "starttls" or "tls"')
    if settings.workers and settings.journal_name != SQLITE:
        raise BadInput(
            f"workers follow a journal of SQLite only, and journal is {settings.journal_name!r}; set workers to 0"
        )
    if settings.leader_timeout < _SHORTEST_LEADER_TIMEOUT:
        raise BadInput(
            "leader_timeout is too short: workers would end before a leader that was killed is started again; set it"
            f" to {_SHORTEST_LEADER_TIMEOUT.total_seconds():g}s or more"
        )
    _check_cluster(settings)
    control = settings.control
    if control and not (control.is_loopback or settings.control_certificate or settings.control_plain_http):
        raise BadInput(
            f"control listens on {control}, where tokens can be read on the network; set control_certificate and"
            " control_key, listen on 127.0.0.1, or allow it with control_plain_http = true"
        )


def _check_cluster(settings: Settings) -> None:
    if settings.cluster is None:
        return
    if settings.journal_name in (SQLITE, "memory"):
        raise BadInput(
            f"cluster is for nodes that share a journal, and journal is {settings.journal_name!r}; set journal to"
            " postgresql://..., or remove cluster"
        )
    if settings.cluster.host in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise BadInput(
            f"cluster is where the other nodes reach this one, which {settings.cluster} does not say; name the"
            " address of this machine"
        )
    if not (settings.cluster_certificate and settings.cluster_authority):
        raise BadInput(
            "nodes know each other by certificates: set cluster_certificate, cluster_key and cluster_authority,"
            " or remove cluster"
        )


def _from_file(file: toml.TomlFile, directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, given in file.tables.items():
        if name in TABLES:
            table = from_table(_TABLE_KEYS[name], file, (name,), given)
            found[name] = msgspec.structs.replace(TABLES[name](), **_located(table, directory))
        elif name == "drivers":
            found[name] = _drivers(file, given)
        elif name in KEYS:
            found[name] = from_file(KEYS[name], given, f"{file.place(name)}: {name}")
        else:
            raise unknown_key(file, (name,), (*KEYS, *TABLES, "drivers"))
    return _located(found, directory)


def _located(found: dict[str, object], directory: Path) -> dict[str, object]:
    """Resolve paths relative to the directory of the file, whatever the working directory is."""
    return {name: directory / value if isinstance(value, Path) else value for name, value in found.items()}


def _drivers(file: toml.TomlFile, given: object) -> dict[str, dict[str, object]]:
    if not isinstance(given, dict) or not all(isinstance(table, dict) for table in given.values()):
        raise BadInput(f"{file.place('drivers')}: a driver's settings are a table; write [drivers.simulated]")
    return given
