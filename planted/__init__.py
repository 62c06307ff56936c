"""Planted faults: small changes of the product that each break a promise, and what finds each of them."""
