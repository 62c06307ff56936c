"""What the control API says about itself, read once for the tests of this folder."""

from typing import cast

from forewarn.control.api.app import make_app
from forewarn.control.api.context import ApiContext
from forewarn.control.api.openapi import describe

DOCUMENT = describe(make_app(cast("ApiContext", None)))
