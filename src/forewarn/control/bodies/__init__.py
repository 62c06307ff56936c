"""Request and response bodies of the control API, shared by client and server.

Unknown fields and wrong types are refused with their place. Programs import every name from here.
"""

from forewarn.control.bodies.access import *
from forewarn.control.bodies.fields import *
from forewarn.control.bodies.fleet import *
from forewarn.control.bodies.health import *
from forewarn.control.bodies.operations import *
from forewarn.control.bodies.rollouts import *
