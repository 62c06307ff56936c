"""The real service for developers: on a memory journal and a simulated driver, with a clock that can be moved."""

from forewarn.emulator.emulator import Emulator

__all__ = ["Emulator"]
