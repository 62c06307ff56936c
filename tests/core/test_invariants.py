"""Whatever is done to a fleet, in whatever order, the rules that always hold do hold."""

from tests.core.machine import FleetMachine

TestInvariants = FleetMachine.TestCase
