"""What every test goes by: how hard Hypothesis looks."""

import os

from hypothesis import HealthCheck, settings

# No deadline and no complaint about slow data: both measure how busy the machine is, not the code.
settings.register_profile(
    "check", max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("test", settings.get_profile("check"), max_examples=200)
# For a night's search: other examples each time, and a line with which to repeat what failed.
settings.register_profile(
    "search", settings.get_profile("check"), max_examples=5_000, derandomize=False, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))
