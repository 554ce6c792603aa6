"""Completion scripts, written from the parser: what it takes is what they offer."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable
from dataclasses import dataclass

PROGRAM = "migraphx-driver"


@dataclass(frozen=True)
class Word:
    """Something to offer, and what it means in one line."""

    text: str
    meaning: str


@dataclass(frozen=True)
class Command:
    """A verb: its options, the fixed words that it takes, and the words that an option's value can be."""

    verb: Word
    options: tuple[Word, ...]
    words: tuple[Word, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    files: bool


def commands_of(parser: ArgumentParser) -> list[Command]:
    """The verbs of a parser, those of one word alone: `perf diff` is offered as a word of `perf`."""
    found = next(a for a in parser._actions if isinstance(a, _SubParsersAction))
    meanings = {a.dest: str(a.help or "") for a in found._choices_actions}
    made = []
    for name, sub in found.choices.items():
        if " " not in name:
            more = [Word(n.split()[1], meanings[n]) for n in found.choices if n.startswith(f"{name} ")]
            made.append(_command(Word(name, meanings[name]), sub, more))
    return made


def _command(verb: Word, parser: ArgumentParser, more: list[Word]) -> Command:
    shown = [a for a in parser._actions if a.help != SUPPRESS]
    options = [Word(flag, _line(a)) for a in shown for flag in a.option_strings]
    positional = [a for a in shown if not a.option_strings]
    words = [*more, *(Word(str(c), "") for a in positional for c in a.choices or ())]
    values = [(flag, tuple(map(str, a.choices))) for a in shown if a.choices for flag in a.option_strings]
    files = any(a.choices is None for a in positional)
    return Command(verb, tuple(options), tuple(words), tuple(values), files)


def _line(action: Action) -> str:
    return " ".join((action.help or "").split())


def bash(commands: list[Command]) -> str:
    """For bash 4 and later; files are completed where nothing else is offered."""
    cases = "\n".join(
        f"        {c.verb.text}) words={_shell(' '.join(w.text for w in (*c.words, *c.options)))} ;;" for c in commands
    )
    values = sorted({v for c in commands for v in c.values})
    choices = "\n".join(f"        {flag}) words={_shell(' '.join(found))} ;;" for flag, found in values)
    verbs = " ".join(c.verb.text for c in commands)
    return f"""\
_migraphx_driver() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    case ${{COMP_WORDS[COMP_CWORD-1]}} in
{choices}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words={_shell(verbs)}
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _migraphx_driver {PROGRAM}
"""


def zsh(commands: list[Command]) -> str:
    """For zsh's `compinit`."""
    verbs = "\n".join(f"        {_shell(f'{c.verb.text}:{c.verb.meaning}')}" for c in commands)
    cases = "\n".join(f"        {c.verb.text}) _arguments {' '.join(_zsh_specs(c))} ;;" for c in commands)
    return f"""\
#compdef {PROGRAM}
_migraphx_driver() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe verb verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
{cases}
    esac
}}
compdef _migraphx_driver {PROGRAM}
"""


def _zsh_specs(command: Command) -> list[str]:
    values = dict(command.values)
    specs = []
    for option in command.options:
        meaning = option.meaning.replace("[", "(").replace("]", ")").replace(":", ",")
        value = f":value:({' '.join(values[option.text])})" if option.text in values else ""
        specs.append(_shell(f"*{option.text}[{meaning}]{value}"))
    words = " ".join(w.text for w in command.words)
    if not command.files:
        return [*specs, _shell(f"1:word:({words})")]
    both = f'*:file or word:{{_alternative "words:word:({words})" "files:file:_files"}}'
    return [*specs, _shell(both if words else "*:file:_files")]


def fish(commands: list[Command]) -> str:
    """For fish 3 and later."""
    lines = []
    for c in commands:
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {c.verb.text} -d {_fish(c.verb.meaning)}")
        here = f"complete -c {PROGRAM} -n {_fish(f'__fish_seen_subcommand_from {c.verb.text}')}"
        values = dict(c.values)
        if not c.files:
            lines.append(f"{here} -f")
        for option in c.options:
            kind = "-l" if option.text.startswith("--") else "-s"
            value = f" -x -a {_fish(' '.join(values[option.text]))}" if option.text in values else ""
            lines.append(f"{here} {kind} {option.text.lstrip('-')} -d {_fish(option.meaning)}{value}")
        lines += [f"{here} -a {w.text} -d {_fish(w.meaning)}" for w in c.words]
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _shell(text: str) -> str:
    """One word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
