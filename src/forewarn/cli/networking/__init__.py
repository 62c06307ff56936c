"""VMs and change detection for ``forewarn network`` and ``forewarn doctor``."""
