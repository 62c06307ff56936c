"""Which URLs are web addresses: one rule for subscriptions, webhooks and services."""

from urllib.parse import SplitResult, urlsplit


def split_web_address(url: str) -> SplitResult | None:
    """Return the parts of an http or https URL with a host; None for any other text."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_good else None
