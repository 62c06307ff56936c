"""Whatever is done to a fleet, in whatever order, the rules that always hold do hold."""

from hypothesis import settings

from tests.core.fleet_machine import FleetMachine

TestInvariants = FleetMachine.TestCase
# What takes several steps to go wrong needs more stories than a single value does; `make check` has a minute only.
_examples = settings().max_examples
TestInvariants.settings = settings(max_examples=_examples if _examples <= 20 else 3 * _examples)
