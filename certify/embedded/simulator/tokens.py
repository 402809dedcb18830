"""The simulator's tokenizer: additive at blanks, so that k words joined by blanks are k tokens, however many.

One token is a word of up to 16 characters with the blank before it, any other single character, or a marker of the
chat template. Nothing is merged across a blank: counts are exact and cheap for prompts of a million words.
"""

import re
import zlib
from collections.abc import Sequence

from certify.embedded.simulator.asking import Turn

_TOKEN = re.compile(r"<\|im_start\|>|<\|im_end\|>|</?think>| ?\w{1,16}|\W")
TOKENS_OF_A_REPLY_TO_COME = "<|im_start|>assistant\n<think>\n"
NO_THINKING = "\n</think>\n\n"


def tokens_of(text: str) -> list[str]:
    """The tokens of a text; joined they are the text."""
    return _TOKEN.findall(text)


def token_id(token: str) -> int:
    """A number for a token, the same in every process."""
    return zlib.crc32(token.encode())


def rendered(turns: Sequence[Turn], tools: Sequence[str], *, thinking: bool) -> str:
    """The prompt that the chat template makes, up to where the model goes on."""
    system = f"<|im_start|>system\nTools: {' '.join(tools)}<|im_end|>\n" if tools else ""
    body = "".join(f"<|im_start|>{turn.role}\n{turn.content}<|im_end|>\n" for turn in turns)
    return f"{system}{body}{TOKENS_OF_A_REPLY_TO_COME}{'' if thinking else NO_THINKING}"
