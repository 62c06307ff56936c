"""The guide to the webhook driver: its tables are complete. Its receiver is run with the other pages."""

import re
from datetime import timedelta
from pathlib import Path

import msgspec

from forewarn.config.durations import show_duration
from forewarn.drivers.webhook import ImpactMessage, WebhookDriverSettings
from forewarn.drivers.webhook_callbacks import Callback
from forewarn.drivers.webhook_replies import CHECK_AFTER, WebhookReply

GUIDE = (Path(__file__).parents[2] / "docs/how-to/drive-machines-with-a-webhook.md").read_text()


def rows(below: str) -> dict[str, str]:
    return dict(
        re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", GUIDE.partition(below)[2].partition("\n## ")[0], re.MULTILINE)
    )


def shown(default: object) -> str:
    match default:
        case timedelta():
            return show_duration(default)
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}"
        case _:
            return str(default) or "empty"


def test_the_guide_names_every_setting_with_its_default() -> None:
    """The table of settings is the record of settings."""
    assert rows("## Set it up") == {
        field.name: "required" if field.required else shown(field.default)
        for field in msgspec.structs.fields(WebhookDriverSettings)
    }


def test_the_guide_names_every_key_of_messages_and_answers() -> None:
    """The tables of keys are the records."""
    assert set(rows("## Requests")) == set(ImpactMessage.__struct_fields__)
    assert set(rows("## Responses")) == set(WebhookReply.__struct_fields__)
    example = GUIDE.partition("## Callbacks")[2].partition("```json\n")[2].partition("```")[0]
    assert set(msgspec.json.decode(example)) == set(Callback.__struct_fields__) - {"check_after"}
    assert f"asks again; default {CHECK_AFTER:g}" in GUIDE
