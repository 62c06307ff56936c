"""The settings of the kubernetes handler: what does not fit together is refused before anything is touched."""

import re
from pathlib import Path

import msgspec
import pytest

from forewarn.agent.handlers.kubernetes.access import KubernetesCredential
from forewarn.agent.handlers.kubernetes.settings import KubernetesSettings, access_of, read_settings
from forewarn.core.errors import BadInput


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kubeconfig": "a", "server": "https://k"}, "has both 'kubeconfig' and 'server'"),
        ({"kubeconfig": "a", "ca_file": "b"}, "has both 'kubeconfig' and 'ca_file'"),
        ({"token_file": "t"}, "has 'token_file' but no 'server'"),
        ({"server": "https://k", "key_file": "t"}, "has 'key_file' but no 'certificate_file'"),
        ({"server": "k:6443"}, "setting 'server' of handler 'kubernetes': 'k:6443' is not an API server URL"),
        ({"cordon": False}, "has cordon = false but drain = true"),
        ({"condition": "not one"}, "setting 'condition' of handler 'kubernetes'"),
        ({"on_deadline": "panic"}, "setting 'on_deadline' of handler 'kubernetes'"),
        ({"drian": True}, "did you mean 'drain'"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, object], said: str) -> None:
    """Each fault is one sentence that names the setting."""
    with pytest.raises(BadInput, match=said):
        read_settings(given)


def test_nothing_need_be_said() -> None:
    """In a pod every setting has a default."""
    settings = read_settings({})

    assert settings.cordon
    assert settings.drain
    assert access_of(settings, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).url == "https://10.0.0.1:443"


def test_the_settings_lead_to_a_server() -> None:
    """A server that is named is asked, with what is named beside it."""
    settings = read_settings({"server": "https://k:6443", "token_file": "t", "ca_file": "c"})
    access = access_of(settings, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    assert access.url == "https://k:6443"
    assert access.token == KubernetesCredential("t")
    assert access.authority == KubernetesCredential("c")


def test_the_page_tells_every_setting() -> None:
    """The table of docs/handlers/kubernetes.md has a row for each setting, and no other."""
    page = Path(__file__).parents[4] / "docs" / "handlers" / "kubernetes.md"
    table = page.read_text(encoding="utf-8").partition("| setting |")[2].partition("\n\n")[0]
    result = [
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ]

    assert result == [field.encode_name for field in msgspec.structs.fields(KubernetesSettings)]
