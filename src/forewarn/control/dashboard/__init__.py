"""The dashboard: pages for operators and owners, rendered on the server from the replica.

It has no rules of its own: pages read the replica with the rights of the token, and every change is a request of the
page's script to the control API.
"""
