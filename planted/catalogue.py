"""All planted faults, by the part of the product that they change."""

from planted.faults_of_agent import FAULTS as OF_AGENT
from planted.faults_of_cluster import FAULTS as OF_CLUSTER
from planted.faults_of_control import FAULTS as OF_CONTROL
from planted.faults_of_core import FAULTS as OF_CORE
from planted.faults_of_fleet_file import FAULTS as OF_FLEET_FILE
from planted.faults_of_metadata import FAULTS as OF_METADATA
from planted.faults_of_node import FAULTS as OF_NODE
from planted.faults_of_rollouts import FAULTS as OF_ROLLOUTS
from planted.faults_of_storage import FAULTS as OF_STORAGE
from planted.faults_of_workers import FAULTS as OF_WORKERS

FAULTS = (
    *OF_CORE,
    *OF_ROLLOUTS,
    *OF_FLEET_FILE,
    *OF_METADATA,
    *OF_NODE,
    *OF_CLUSTER,
    *OF_WORKERS,
    *OF_STORAGE,
    *OF_CONTROL,
    *OF_AGENT,
)
