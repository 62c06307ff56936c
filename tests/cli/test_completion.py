"""Commands complete in bash, zsh and fish: the real shells are asked, by the lines that the page prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "shell-completion.md"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
_ASK = {
    "bash": """{line}
COMP_WORDS=({words}); COMP_CWORD={last}
_forewarn_completion forewarn
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    # zsh completes inside of its line editor only; what the function hands to it is printed instead.
    "zsh": """autoload -U compinit && compinit -u -D
{line}
_describe() {{ print -l -- ${{(P)3}} }}
compadd() {{ print -l -- ${{(P)argv[-1]}} }}
words=({words}); CURRENT={last}+1
_forewarn_completion
""",
    "fish": """{line}
complete -C '{words}'
""",
}


def line_of(shell: str) -> str:
    """Return what the page says to write for a shell."""
    found = re.search(rf"^```{shell}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1].strip()


def completed(shell: str, words: str, home: Path) -> set[str]:
    """Return what a shell offers behind some words, without their descriptions."""
    script = _ASK[shell].format(line=line_of(shell), words=words, last=len(words.split()) - 1)
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    environment = ENVIRONMENT | {"HOME": str(home)}
    asked = subprocess.run(
        [shell, *flags, "-c", script], check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    assert asked.stderr == ""
    return {re.split(r"[\t:]", line)[0] for line in asked.stdout.splitlines() if line}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_complete(shell: str, tmp_path: Path) -> None:
    """The commands, the commands of a group, and the options of a command."""
    assert completed(shell, "forewarn hi", tmp_path) == {"history"}
    assert completed(shell, "forewarn vm re", tmp_path) >= {"restart", "redeploy", "remove"}
    assert completed(shell, "forewarn history --oldest", tmp_path) == {"--oldest-first"}
    assert completed(shell, "forewarn token create --role o", tmp_path) == {"operator", "owner"}
