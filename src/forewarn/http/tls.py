"""TLS of clients: certificates of private authorities are accepted whichever Python runs."""

import ssl


def make_client_context(authorities: str | None = None, *, pem: str | bytes | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file or a text, else the system's.

    Python 3.13 began to refuse authorities without KeyUsage and certificates without AuthorityKeyIdentifier. Many
    private authorities make such ones, and what a service was set up with must outlive an upgrade of Python.
    """
    context = ssl.create_default_context(cafile=authorities, cadata=pem)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
