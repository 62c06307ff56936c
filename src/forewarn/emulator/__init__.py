"""The emulator: the real service with a memory journal, a simulated driver and a clock that can be advanced."""

from forewarn.emulator.emulator import Emulator

__all__ = ["Emulator"]
