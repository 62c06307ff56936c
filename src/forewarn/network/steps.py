"""Which commands lead from what is seen to what is wanted, and back to what was before. Pure."""

from collections.abc import Iterable

import msgspec

from forewarn.network.commands import Command
from forewarn.network.pieces import AnyPiece, Link, Up, piece_of
from forewarn.network.rules import FAMILIES, TABLE, rules_of
from forewarn.network.sight import Sight
from forewarn.network.wanted import Wanted


class Step(msgspec.Struct, frozen=True):
    """One command, and what it brings about."""

    what: str
    command: Command


def rules_wanted(wanted: Wanted, sight: Sight) -> str:
    """Return the rules, with what is written down there once everything is made."""
    return rules_of(wanted, _record(wanted.pieces(sight), sight), wanted.strangers(sight), wanted.ways_out(sight))


def to_set_up(wanted: Wanted, sight: Sight, *, is_ruled: bool) -> tuple[Step, ...]:
    """Return what is missing, and what earlier runs made that is wanted no longer.

    The rules come first: nothing is opened before it is guarded, nor changed before that is written down.
    """
    steps = []
    if not is_ruled:
        steps.append(Step("the rules of the packet filter", Command(("nft", "-f", "-"), rules_wanted(wanted, sight))))
    pieces = wanted.pieces(sight)
    kept = {_key(piece) for piece in pieces}
    steps += _undone((line for line in sight.record if (old := piece_of(line)) and _key(old) not in kept), sight)
    steps += [Step(str(piece), piece.make()) for piece in pieces if not piece.is_there(sight)]
    return tuple(steps)


def to_tear_down(sight: Sight) -> tuple[Step, ...]:
    """Return what undoes all that earlier runs made; what somebody else changed since then is left alone."""
    steps = _undone(sight.record, sight)
    for family in FAMILIES:
        if family in sight.tables:
            steps.append(Step(f"no table {family} {TABLE}", Command(("nft", "delete", "table", family, TABLE))))
    return tuple(steps)


def _undone(lines: Iterable[str], sight: Sight) -> list[Step]:
    pieces = [piece for line in lines if (piece := piece_of(line))]
    # To take away a bridge with ports would take the network from whoever is behind them.
    used = {piece.name for piece in pieces if isinstance(piece, Link) and ports_of(piece.name, sight)}
    return [
        Step(f"no longer {piece}", piece.unmake())
        for piece in reversed(pieces)
        if piece.is_there(sight)
        and not (isinstance(piece, Link | Up) and piece.name in used)
        # A program that was late may have made a bridge of that name since.
        and not (isinstance(piece, Link) and not piece.is_ours(sight))
    ]


def ports_of(bridge: str, sight: Sight) -> list[str]:
    return sorted(name for name, link in sight.links.items() if link.bridge == bridge)


def _record(pieces: Iterable[AnyPiece], sight: Sight) -> list[str]:
    """Return what to write down: what earlier runs changed, as it was before them, and what this one changes."""
    known = {_key(old): line for line in sight.record if (old := piece_of(line))}
    changed = (each for each in pieces if _key(each) in known or each.is_ours(sight) or not each.is_there(sight))
    return [known.get(_key(each)) or each.line(sight) for each in changed]


def _key(piece: AnyPiece) -> tuple[str, ...]:
    """Return what makes two lines tell of one piece, whatever was there before it."""
    fields = msgspec.structs.asdict(piece)
    fields.pop("before", None)
    return (type(piece).__name__, *map(str, fields.values()))
