"""The usage object: token counts exactly as the server sent them."""

from certify.records import Json, Usage
from certify.wire.hostile import Note, shown

LARGEST_COUNT = 2**53  # what canonical JSON can hold


def read_usage(value: Json, note: Note) -> Usage | None:
    """The counts, or None with a note when one of them is not a count.

    SGLang's top-level `reasoning_tokens` counts where `completion_tokens_details` has none.
    """
    if not isinstance(value, dict):
        note(f"usage is not an object: {shown(value)}")
        return None
    prompt_details = _details(value, "prompt_tokens_details", note)
    completion_details = _details(value, "completion_tokens_details", note)
    flaws: list[str] = []

    def count(holder: dict[str, Json], name: str) -> int | None:
        number = holder.get(name)
        if number is None:
            return None
        if type(number) is not int or not 0 <= number <= LARGEST_COUNT:
            flaws.append(f"{name} in usage is not a count: {shown(number)}")
            return None
        return number

    prompt, completion = count(value, "prompt_tokens"), count(value, "completion_tokens")
    total, cached = count(value, "total_tokens"), count(prompt_details, "cached_tokens")
    reasoning, beside = count(completion_details, "reasoning_tokens"), count(value, "reasoning_tokens")
    flaws += [
        f"usage has no {name}"
        for name, number in (("prompt_tokens", prompt), ("completion_tokens", completion))
        if number is None and value.get(name) is None
    ]
    if reasoning is not None and beside is not None and reasoning != beside:
        note(f"usage has two figures for reasoning_tokens: {reasoning} and {beside}")
    for flaw in flaws:
        note(flaw)
    if flaws or prompt is None or completion is None:
        return None
    return Usage(prompt, completion, total, cached, beside if reasoning is None else reasoning)


def _details(value: dict[str, Json], name: str, note: Note) -> dict[str, Json]:
    details = value.get(name)
    if isinstance(details, dict):
        return details
    if details is not None:
        note(f"{name} is not an object: {shown(details)}")
    return {}
