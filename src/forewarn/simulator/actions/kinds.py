"""All kinds of actions, and how the sentence of one is read."""

from forewarn.simulator.actions.access_requests import (
    ReadEverything,
    ReadOperation,
    ReadPage,
    RequestPassingToken,
    RequestRevocation,
    RequestRotation,
    RequestToken,
    RequestViewer,
    SendTwice,
)
from forewarn.simulator.actions.cluster_faults import (
    CutNodeOff,
    CutNodes,
    DelayHeartbeats,
    DisturbPeers,
    FailDatabase,
    FailOver,
    KillNode,
    LoseDatabaseNotifications,
    LoseHeartbeats,
    PauseNode,
    RestartNode,
    SkewNode,
    StopDatabase,
)
from forewarn.simulator.actions.dry_runs import TryRequest
from forewarn.simulator.actions.environment_faults import (
    BefallMachine,
    DamageDriverRecord,
    DamageMemory,
    DelayRequests,
    FailDriver,
    FailGate,
    LoseRequests,
    RebootGuest,
    RefuseNotifications,
)
from forewarn.simulator.actions.fleet_requests import (
    ApplyFleetFile,
    EditFleetFile,
    RequestFleetApply,
    RequestFleetChange,
    TryFleetApply,
)
from forewarn.simulator.actions.group_requests import (
    RequestCancellations,
    RequestEventChange,
    RequestGroupSet,
    RequestScaleIn,
    RequestSelectedCancellations,
    RequestTerms,
)
from forewarn.simulator.actions.host_requests import (
    RequestDegradation,
    RequestHostBulk,
    RequestHostLabel,
    RequestHostOperation,
    RequestHostSelection,
    RequestHostSet,
    TryHostSelection,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.rollout_requests import (
    RequestRollout,
    RequestRolloutChange,
    RequestRolloutEdit,
    RequestRolloutSkip,
    TryRollout,
)
from forewarn.simulator.actions.service_faults import (
    DriftClock,
    FailAppends,
    FillDisk,
    HideDisk,
    KillService,
    KillServiceDuring,
    LosePower,
    RestartService,
    StepClock,
)
from forewarn.simulator.actions.subscription_requests import RequestSubscription, RequestUnsubscription
from forewarn.simulator.actions.vm_requests import (
    RecordMove,
    RequestBulk,
    RequestHostReclaim,
    RequestLabel,
    RequestMove,
    RequestReclaim,
    RequestTrial,
    RequestTwice,
    RequestVmChange,
    RequestVmOperation,
    RequestVmSelection,
)

COMMANDS: tuple[type[PlannedAction], ...] = (
    RequestVmOperation,
    RequestBulk,
    RequestTrial,
    RequestLabel,
    RequestHostSet,
    RequestTwice,
    RequestMove,
    RequestHostOperation,
    RequestDegradation,
    RequestEventChange,
    RequestTerms,
    RequestReclaim,
    RequestScaleIn,
    RequestFleetChange,
    EditFleetFile,
    ApplyFleetFile,
    RequestToken,
    RequestRevocation,
    RequestCancellations,
    RequestHostBulk,
    RequestHostLabel,
    RequestGroupSet,
    RequestRotation,
    RequestPassingToken,
    RequestViewer,
    RequestSubscription,
    RequestUnsubscription,
    RefuseNotifications,
    ReadEverything,
    RequestRollout,
    RequestRolloutChange,
    RequestRolloutSkip,
    RequestRolloutEdit,
    TryRollout,
    RequestVmSelection,
    RequestVmChange,
    RequestHostReclaim,
    RequestHostSelection,
    TryHostSelection,
    RequestSelectedCancellations,
    RequestFleetApply,
    TryFleetApply,
    ReadPage,
    RecordMove,
    ReadOperation,
    TryRequest,
    SendTwice,
)
"""What operators, owners and editors of the fleet file do."""

FAULTS: tuple[type[PlannedAction], ...] = (
    KillService,
    KillServiceDuring,
    LosePower,
    RestartService,
    FailAppends,
    FillDisk,
    HideDisk,
    DamageDriverRecord,
    FailDriver,
    BefallMachine,
    StepClock,
    DriftClock,
    LoseRequests,
    DelayRequests,
    RebootGuest,
    DamageMemory,
    FailGate,
)
"""What happens to the service and to what it stands on."""

NODE_FAULTS: tuple[type[PlannedAction], ...] = (
    KillNode,
    RestartNode,
    PauseNode,
    CutNodeOff,
    CutNodes,
    SkewNode,
    DisturbPeers,
    StopDatabase,
    FailOver,
    FailDatabase,
    LoseHeartbeats,
    DelayHeartbeats,
    LoseDatabaseNotifications,
)
"""What happens to several nodes, and to the database that they share."""

KINDS = (*COMMANDS, *FAULTS, *NODE_FAULTS)


def parse_action(at: float, words: str) -> PlannedAction:
    """Return the action that a sentence describes; raise ValueError where there is none."""
    for kind in KINDS:
        if action := kind.parse(at, words):
            return action
    raise ValueError(f"{words!r} describes no action of a simulation")
