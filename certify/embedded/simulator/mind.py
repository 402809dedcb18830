"""What the simulated model says: right answers where it was given the key, needles where it reads them, else talk."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from certify.embedded.simulator.asking import Asking, RefusedError
from certify.embedded.simulator.shapes import instance_of
from certify.records import Json

# Without a key and without a constraint it talks for about so many words.
TALK_WORDS = 180
THOUGHT_WORDS = 40
_QUESTION = re.compile(r"what is the code of (\w+ \w+ \w+) and answer", re.IGNORECASE)
_QUESTION_LIES_WITHIN = 2000
_CODE_WORDS = 4
_VOCABULARY = """
the a of to and in on with from over under near river harbour stone bridge tower market garden
window letter morning evening winter summer carries follows holds meets turns keeps grows old new
quiet bright narrow wide first
""".split()


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """All that the model would say if nothing cut it: thinking, text, calls."""

    reasoning: str
    content: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """The right answer to one question: the text of a message, or the calls to make.

    `bare` answers come without a word around them even where no grammar forbids it.
    """

    content: str = ""
    calls: tuple[Call, ...] = ()
    bare: bool = True


def reply_to(asking: Asking, keys: Mapping[str, Key]) -> Reply:
    """The model's reply; `keys` map the last user message of a known question to its answer.

    Raises:
        RefusedError: a constraint that the constrained decoder does not support.
    """
    last = next((turn.content for turn in reversed(asking.turns) if turn.role == "user"), "")
    reasoning = _thought(asking, last) if asking.thinking else ""
    key = keys.get(last)
    if asking.tool_choice != "none" and asking.tools:
        calls = key.calls if key and key.calls else _calls(asking)
        if calls:
            return Reply(reasoning, "", calls)
    if asking.choice:
        return Reply(reasoning, key.content if key and key.content in asking.choice else asking.choice[0])
    if asking.schema is not None:
        made = instance_of(asking.schema)  # also for a known question: a schema that is not supported is refused
        return Reply(reasoning, key.content if key else json.dumps(made, ensure_ascii=False))
    if key:
        return Reply(reasoning, key.content if key.bare else f"Here is the answer: {key.content}")
    return Reply(reasoning, needle(last) or talk(last, TALK_WORDS))


def needle(text: str) -> str:
    """The answer to a question about a code that stands in the text before it, "" when nothing such is asked."""
    asked = _QUESTION.search(text[-_QUESTION_LIES_WITHIN:])
    if not asked:
        return ""
    before, found, after = text.partition(f"the code of {asked.group(1)} is ")
    del before
    return " ".join(after[:200].split()[:_CODE_WORDS]) if found else "There is no such code"


def talk(seed: str, words: int) -> str:
    """So many words of fluent nonsense in sentences, the same for the same seed."""
    drawn = hashlib.shake_256(seed.encode(errors="replace")).digest(words)
    said = [_VOCABULARY[number % len(_VOCABULARY)] for number in drawn]
    return " ".join(said).capitalize() + "."


def _thought(asking: Asking, last: str) -> str:
    words = min(THOUGHT_WORDS, asking.thinking_budget or THOUGHT_WORDS)
    return talk(f"think/{last[-200:]}", words).rstrip(".")


def _calls(asking: Asking) -> tuple[Call, ...]:
    """A call where one is demanded (or may be made) and no key says which."""
    wanted = next((tool for tool in asking.tools if tool.name == asking.tool_choice), asking.tools[0])
    try:
        arguments: Json = instance_of(wanted.parameters)
    except RefusedError as error:
        raise RefusedError(str(error), param="tools") from error
    return (Call(wanted.name, json.dumps(arguments, ensure_ascii=False)),)
