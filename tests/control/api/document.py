"""What the control API says about itself, read once for the tests of this folder."""

from typing import cast

from forewarn.control.api.app import make_app
from forewarn.control.api.openapi import describe
from forewarn.control.api.plane import Plane

DOCUMENT = describe(make_app(cast("Plane", None)))
