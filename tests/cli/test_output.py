"""How commands print: plain for programs, pretty for people."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

import click
import pytest

from forewarn.cli.output import print_fields, print_json_list, print_line, print_table, wide_option, wrapped


class Terminal(io.StringIO):
    """A terminal of eighty columns."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def at_terminal(print_it: Callable[[], object]) -> str:
    """Return what is printed when it goes to a terminal."""
    with redirect_stdout(Terminal()) as terminal:
        print_it()
    return terminal.getvalue()


LONG = "a-name-that-goes-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on"


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """No colours, no frame, nothing cut: it is for grep and awk."""
    print_table(("VM", "STATE"), [("web-0", "running"), (LONG, "Failed")], "none")

    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["VM", "STATE"], ["web-0", "running"], [LONG, "Failed"]]
    assert len({line.rindex("  ") for line in lines}) == 1


ID = "A123D8C0-2F27-4A6D-9D0B-1D3A0B1C2D3E"
HEADERS = ("EVENT", "VM", "GROUP", "HOST", "STATE")
ROW = (ID, "a-vm-with-a-name-of-thirty-six-signs", "web", "host-1", "running")


def shown(*arguments: str, rows: Sequence[Sequence[str]] = (ROW,)) -> list[str]:
    """Return the lines of a table that a command prints at a terminal."""

    @click.command
    @wide_option
    def command() -> None:
        print_table(HEADERS, rows, "none", drop=("HOST", "GROUP", "STATE"))

    printed = at_terminal(lambda: command.main(list(arguments), standalone_mode=False))
    return [line.rstrip() for line in click.unstyle(printed).splitlines()]


def test_names_and_ids_are_never_cut() -> None:
    """Columns of less worth are left out, in the order that the command states, and the last line names them."""
    head, row, footer = shown()

    assert head.split() == ["EVENT", "VM"]
    assert row == f"{ID}  {ROW[1]}"
    assert footer == "left out: HOST, GROUP, STATE; --wide shows all columns"


def test_no_more_columns_are_left_out_than_must_be() -> None:
    """The one of least worth goes first."""
    narrower = (ID, "a-vm-of-22-characters-", "web", "host-1", "running")

    assert shown(rows=(narrower,))[1:] == [
        f"{ID}  a-vm-of-22-characters-  web    running",
        "left out: HOST; --wide shows all columns",
    ]


def test_all_columns_are_shown_where_they_fit() -> None:
    """And nothing is said about others."""
    assert [line.split() for line in shown(rows=(("1", "2", "3", "4", "5"),))] == [list(HEADERS), list("12345")]


def test_wide_shows_all_columns() -> None:
    """In lines that are longer than the window."""
    assert [line.split() for line in shown("--wide")] == [list(HEADERS), list(ROW)]


def test_what_can_give_way_no_more_is_longer_than_the_window() -> None:
    """A name that is longer than the window is whole."""
    lines = at_terminal(lambda: print_table(("VM", "STATE"), [(LONG, "running")], "none", drop=("STATE",)))

    assert LONG in lines.splitlines()[1]
    assert "\u2026" not in lines


@pytest.mark.end_to_end
def test_a_later_row_that_needs_more_room_begins_a_table_with_fewer_columns() -> None:
    """Long tables are printed as they come; a second head tells which columns there are from there on."""
    lines = shown(rows=[("1", "2", "3", "4", "5")] * 1_000 + [ROW])

    assert [line.split() for line in (lines[0], lines[1001])] == [list(HEADERS), ["EVENT", "VM"]]
    assert lines[-1] == "left out: HOST, GROUP, STATE; --wide shows all columns"


def test_the_last_column_is_broken_between_words() -> None:
    """It tells most, so nothing of it is cut."""
    rows = [("web-0", "a reason of many words " * 6)]
    lines = at_terminal(lambda: print_table(("VM", "WHY"), rows, "none")).splitlines()

    assert all(len(line.rstrip()) <= 80 for line in lines[1:])
    assert " ".join(lines).split().count("reason") == 6


def test_the_last_column_stands_below_its_row_where_there_is_no_room() -> None:
    """A row without one has no line below."""
    names = [f"{'n' * 15}{number}" for number in range(4)]
    rows = [(*names, "a reason of many words"), (*names, "-")]
    lines = at_terminal(lambda: print_table(("A", "B", "C", "D", "WHY"), rows, "none")).splitlines()

    assert [line.rstrip() for line in lines[1:]] == ["  ".join(names), "    a reason of many words", "  ".join(names)]
    assert "WHY" not in lines[0]


def test_a_line_begins_with_its_word_in_colour(capsys: pytest.CaptureFixture[str]) -> None:
    """At a terminal; in a pipe it is plain."""
    print_line("breach", "  a rule")

    assert capsys.readouterr().out == "breach  a rule\n"
    assert at_terminal(lambda: print_line("breach", "  a rule")) == "\x1b[1;31mbreach\x1b[0m  a rule\n"


def test_states_have_colours_at_a_terminal() -> None:
    """What failed is seen at once; what stands in brackets is no colour."""
    printed = at_terminal(lambda: print_table(("EVENT", "STATUS"), [("[bold]", "Failed")], "none"))

    assert "\x1b[1;31mFailed" in printed
    assert "[bold]" in printed


def test_colours_are_left_out_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is honoured."""
    monkeypatch.setenv("NO_COLOR", "1")

    assert "31m" not in at_terminal(lambda: print_table(("EVENT", "STATUS"), [("A", "Failed")], "none"))


def test_an_empty_table_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """Headers above nothing tell nobody anything."""
    print_table(("VM",), [], "no VMs yet")

    assert capsys.readouterr().out == "no VMs yet\n"


@pytest.mark.parametrize("count", [0, 1, 2, 2_500])
def test_a_list_in_json_is_one_array_with_a_line_each(capsys: pytest.CaptureFixture[str], count: int) -> None:
    """However long it is, and as it comes."""
    print_json_list({"number": number} for number in range(count))

    out = capsys.readouterr().out
    assert json.loads(out) == [{"number": number} for number in range(count)]
    assert len(out.splitlines()) == (count + 2 if count else 1)


def test_a_long_table_has_one_header(capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed in slices, and that does not show."""
    print_table(("N",), ((str(number),) for number in range(2_500)), "none")

    assert capsys.readouterr().out.splitlines() == ["N", *map(str, range(2_500))]


def test_empty_fields_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """And the others stand in line."""
    print_fields({"name": "web-0", "zone": "", "update domain": "0"})

    assert capsys.readouterr().out == "name           web-0\nupdate domain  0\n"


def test_text_is_broken_between_words_at_a_terminal() -> None:
    """Under its beginning, not under its lead."""
    lines = at_terminal(lambda: click.echo(wrapped("word " * 30, "lead  "))).splitlines()

    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("      word")
