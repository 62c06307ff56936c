"""What ``forewarn network`` and ``forewarn doctor`` have in common, and how the network is kept in step."""
