"""Sources, planning and targets of ``forewarn import``."""
