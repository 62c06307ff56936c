"""Changes of the fleet: through the control API, and by its file."""

from forewarn.simulator.actions.planned_action import PlannedAction


class RequestFleetChange(PlannedAction, frozen=True, kw_only=True):
    """A change of the fleet through the control API; the change as JSON, without blanks."""

    sentence = "{who} patches the fleet with {change} with key {key}"
    who: str
    change: str
    key: str


class EditFleetFile(PlannedAction, frozen=True, kw_only=True):
    """What an editor does to the fleet file. The service reads it at its next start."""

    sentence = "the fleet file is edited: {edit} {subject} {value}"
    chosen = "edit"
    choices = (
        "add-vm",
        "remove-vm",
        "rehost-vm",
        "regroup-vm",
        "set-spot",
        "add-host",
        "remove-host",
        "spoil",
        "mend",
    )
    edit: str
    subject: str
    value: str


class ApplyFleetFile(PlannedAction, frozen=True, kw_only=True):
    """Have the running service apply its fleet file, as a reload does."""

    sentence = "the fleet file is applied"


class RequestFleetApply(PlannedAction, frozen=True, kw_only=True):
    """Have an operator apply the fleet file; ``stale`` names a declaration that was replaced."""

    sentence = "{who} applies the fleet file {how} with key {key}"
    chosen = "how"
    choices = ("plainly", "with-cancel-events", "with-yes", "with-exact", "with-exact-and-cancel-events", "stale")
    who: str
    how: str
    key: str


class TryFleetApply(PlannedAction, frozen=True, kw_only=True):
    """Have an operator ask what the fleet file would change."""

    sentence = "{who} plans to apply the fleet file {how}"
    chosen = "how"
    choices = RequestFleetApply.choices
    who: str
    how: str
