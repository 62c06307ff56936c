"""Runs ``forewarn`` as the next release: with a fact, ``token-made``, that this release does not know."""

from typing import cast

import forewarn
from forewarn.core import fact

NEWER_RELEASE = "99.0"

if __name__ == "__main__":
    forewarn.__version__ = NEWER_RELEASE
    fact.FORMAT += 1  # before other modules import it

    from forewarn.__main__ import main
    from forewarn.core.facts import TokenCreated
    from forewarn.journal import codec

    TokenCreated.since_format = fact.FORMAT
    encode, decode = codec._encode, codec._decode
    known, unknown = b'"fact":"token-created"', b'"fact":"token-made"'
    codec._encode = lambda each: encode(each).replace(known, unknown)
    codec._decode = lambda body: decode(cast("bytes", body).replace(unknown, known))
    main()
