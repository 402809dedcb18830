"""The simulator's clockwork: how long prefill and steps take, and how many tokens a step brings. Pure."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """A deployment's speed; every duration is multiplied by `scale`.

    TTFT is `base_s` + `prefill_s` x uncached tokens + `attention_s` x (prompt² - cached²). A step takes `step_s`, more
    by `crowding` for each other request that decodes. `acceptance[i]` is the chance that draft token i is accepted
    when those before it were; an empty tuple is an engine without speculation.

    The defaults are a fast schedule for tests: a prompt of 600 tokens answers 4 times as soon warm as cold, beyond the
    jitter of a busy machine. A million tokens take 60 s; ask for a smaller scale there.
    """

    base_s: float = 0.010
    prefill_s: float = 60e-6
    attention_s: float = 0.0
    step_s: float = 0.004
    crowding: float = 0.05
    acceptance: tuple[float, ...] = (0.8, 0.6, 0.4)
    scale: float = 1.0

    def ttft_s(self, prompt_tokens: int, cached_tokens: int) -> float:
        """Seconds from the request to its first token."""
        linear = self.prefill_s * (prompt_tokens - cached_tokens)
        return self.scale * (self.base_s + linear + self.attention_s * (prompt_tokens**2 - cached_tokens**2))

    def next_step_s(self, running: int) -> float:
        """Seconds of a step while `running` requests decode."""
        return self.scale * self.step_s * (1 + self.crowding * max(0, running - 1))

    def accepted(self, seed: str) -> Iterator[int]:
        """Accepted draft tokens of each step, without end, the same for the same seed."""
        step = 0
        while True:
            drawn = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=2 * max(1, len(self.acceptance))).digest()
            count = 0
            for position, chance in enumerate(self.acceptance):
                if int.from_bytes(drawn[2 * position : 2 * position + 2]) >= chance * 65_536:
                    break
                count += 1
            yield count
            step += 1
