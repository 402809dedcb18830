"""The simulator's prefix cache: whole blocks, chained hashes, least recently used first out."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 16
CAPACITY_BLOCKS = 200_000  # three prompts of a million tokens


class PrefixCache:
    """What has been computed, by block; a block counts only together with all blocks before it."""

    def __init__(self, *, block_tokens: int = BLOCK_TOKENS, capacity_blocks: int = CAPACITY_BLOCKS) -> None:
        self._block, self._capacity = block_tokens, capacity_blocks
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def use(self, tokens: Sequence[str], salt: str, *, dropped_blocks: int) -> int:
        """How many leading tokens were known already; afterwards all whole blocks are.

        The last token is always computed, so a full repeat hits floor((n - 1) / block) blocks, less `dropped_blocks`
        (an engine that drafts with its own hidden states recomputes the last one).
        """
        chain = self._chain(tokens, salt)
        hits = 0
        for name in chain[: (len(tokens) - 1) // self._block]:
            if name not in self._known:
                break
            hits += 1
        for name in chain:
            self._known[name] = None
            self._known.move_to_end(name)
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)
        return max(0, hits - dropped_blocks) * self._block

    def _chain(self, tokens: Sequence[str], salt: str) -> list[bytes]:
        names, name = [], hashlib.blake2b(salt.encode(), digest_size=16).digest()
        for start in range(0, len(tokens) - self._block + 1, self._block):
            text = "\0".join(tokens[start : start + self._block])
            name = hashlib.blake2b(name + text.encode(), digest_size=16).digest()
            names.append(name)
        return names
