"""The registry: every requirement of the mission, its id for good, its title, and what each profile asks of it.

An id is never reused or renumbered. An entry without profiles is reserved: its gate comes with its issue, and no plan
may name it before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from certify.records import Capability, Level

REGISTRY_VERSION = "2026.12"

R, G, S = Level.REQUIRED, Level.GUARDED, Level.REPORTED

PROFILES = ("demo", "smoke", "gate", "release", "full", "soak")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What must hold. `levels` maps a profile to its level; a profile that is not named leaves it absent."""

    id: str
    title: str
    family: str
    capability: Capability | None = None
    levels: Mapping[str, Level] = field(default_factory=lambda: MappingProxyType({}))
    needs_spec_off: bool = False

    @property
    def built(self) -> bool:
        """Whether a gate for it exists."""
        return bool(self.levels)

    def level(self, profile: str) -> Level:
        """What `profile` asks of this requirement."""
        return self.levels.get(profile, Level.ABSENT)


def _levels(**levels: Level) -> Mapping[str, Level]:
    return MappingProxyType(levels)


_ALWAYS = _levels(demo=R, smoke=R, gate=R, release=R, full=R, soak=R)
_FROM_GATE = _levels(demo=R, gate=R, release=R, full=R, soak=R)
_NEVER = _levels()

_CATALOGUE = (
    # preflight
    Requirement("PRE-CONTRACT-01", "The API answers in its documented shape, and `usage` obeys its laws", "contract", None, _ALWAYS),
    Requirement("PRE-CONTRACT-02", "The laws of `usage` and of streams hold on every exchange of the run", "contract", None, _ALWAYS),
    Requirement("PRE-CONTRACT-03", "Requests that cannot be served are refused cleanly, and the server lives on", "contract"),
    Requirement("PRE-CONTRACT-04", "A body of 7 MB reaches the engine", "contract"),
    Requirement("PRE-IDENT-01", "The deployment is the same one from the first exchange to the last", "identity", None, _ALWAYS),
    Requirement("PRE-IDENT-02", "The deployment is the one that its owner declares", "identity"),
    Requirement("PRE-HOST-01", "Host facts: driver, kernel, firmware and clocks are recorded and allowed", "host"),
    Requirement("PRE-HOST-02", "Tensor parallelism runs over the intended transport", "host"),
    Requirement("PRE-RULER-01", "The ruler's own error against a known emitter is within its limit", "ruler", None, _ALWAYS),
    Requirement("PRE-THINK-01", "The thinking switch has an effect: on, off, and nothing said", "thinking", Capability.THINKING, _ALWAYS),
    # quality
    Requirement("QUAL-ENV-01", "Every answer keeps the envelope: shape, finish reason, no leaked markup", "quality", None, _ALWAYS),
    Requirement("QUAL-JSON-01", "json-prompt: a record as bare JSON, asked for in words only", "quality", None, _levels(demo=S, smoke=S, gate=S, release=S, full=S, soak=S)),
    Requirement("QUAL-SCHEMA-02", "schema-nested: an answer under a JSON schema obeys it, thinking on and off", "quality", Capability.JSON_SCHEMA, _ALWAYS),
    Requirement("QUAL-SCHEMA-03", "schema-constraints: conform or refuse", "quality", Capability.JSON_SCHEMA),
    Requirement("QUAL-SCHEMA-04", "schema-recursive: a tree by $ref", "quality", Capability.JSON_SCHEMA),
    Requirement("QUAL-TOOL-05", "tool-typed: the right tool with strictly typed arguments", "quality", Capability.TOOLS, _levels(demo=S, smoke=S, gate=S, release=S, full=S, soak=S)),
    Requirement("QUAL-TOOL-06", "tool-parallel: several independent calls in one turn", "quality", Capability.TOOLS),
    Requirement("QUAL-TOOL-07", "tool-choice: auto, none, required and named mean what they say", "quality", Capability.TOOLS),
    Requirement("QUAL-TOOL-08", "tool-loop: results of calls are used over turns", "quality", Capability.TOOLS),
    Requirement("QUAL-ESC-09", "escape-roundtrip: a blob survives JSON and tool arguments byte for byte", "quality"),
    Requirement("QUAL-REGEX-10", "regex-choice: an answer under a pattern or a choice", "quality"),
    Requirement("QUAL-SQL-11", "sql-exec: one SELECT that returns the right rows", "quality"),
    Requirement("QUAL-TEXT-12", "text-format: CSV, Markdown table, YAML", "quality"),
    Requirement("QUAL-LIST-13", "long-list: exact length and order, alone and under load", "quality"),
    Requirement("QUAL-BOUND-14", "boundary-honesty: stop strings, cuts and refusals are told honestly", "quality"),
    Requirement("QUAL-SMOKE-01", "smoke: arithmetic", "quality"),
    Requirement("QUAL-SMOKE-02", "smoke: code", "quality"),
    Requirement("QUAL-SMOKE-03", "smoke: fact", "quality"),
    Requirement("QUAL-SMOKE-04", "smoke: reasoning", "quality"),
    Requirement("QUAL-SMOKE-05", "smoke: instruction", "quality"),
    Requirement("QUAL-VALUE-01", "Values are right at or above the floor, over all scenarios", "quality", None, _levels(demo=S, smoke=S, gate=G, release=R, full=R, soak=R)),
    Requirement("QUAL-THINK-02", "Thinking on minus off, in points, with its interval", "quality", Capability.THINKING, _levels(demo=S, gate=S, release=S, full=S, soak=S)),
    Requirement("QUAL-RARE-01", "Rare faults (leaked tags, fences, run-away blanks) stay below three in all", "quality"),
    # speculation
    Requirement("QUAL-SPEC-01", "Speculation layer 0: on in one arm, off in the other, by effect", "speculation", Capability.SPECULATION, _FROM_GATE, needs_spec_off=True),
    Requirement("QUAL-SPEC-02", "Speculation layer 1: token audit against the noise floor", "speculation", Capability.SPECULATION),
    Requirement("QUAL-SPEC-03", "Speculation layer 2: no corruption at concurrency", "speculation", Capability.SPECULATION),
    Requirement("QUAL-SPEC-04", "Speculation layer 3: no drop in paired scores beyond the margin", "speculation", Capability.SPECULATION),
    Requirement("QUAL-SPEC-05", "Speculation: paired counts, on against off", "speculation", Capability.SPECULATION, _levels(demo=S, gate=S, release=S, full=S), needs_spec_off=True),
    Requirement("QUAL-SPEC-06", "Speculation: speed-up by content, with acceptance", "speculation", Capability.SPECULATION),
    # performance
    Requirement("PERF-C1-01", "One stream decodes at or above the floor (closed loop, fixed corpus)", "c1", None, _levels(demo=R, smoke=S, gate=R, release=R, full=R, soak=R)),
    Requirement("PERF-C1-02", "Realistic ruler: code", "c1"),
    Requirement("PERF-C1-03", "Peak ruler: warmed, best content, decode window", "c1"),
    Requirement("PERF-C1-04", "Adversarial prose", "c1"),
    Requirement("PERF-C1-05", "Step time: no second state, drift or stall", "c1"),
    Requirement("PERF-C1-06", "TTFT percentiles", "c1"),
    Requirement("PERF-CONC-01", "Concurrency ladder: per request and aggregate throughput", "concurrency"),
    Requirement("PERF-CONC-02", "Concurrency ladder: success rate", "concurrency"),
    Requirement("PERF-CONC-03", "Concurrency ladder: acceptance at each rung", "concurrency"),
    Requirement("PERF-CONC-04", "Two replicas at once", "concurrency"),
    Requirement("PERF-PREFILL-01", "Prefill rate at 32K, proven cold", "prefill"),
    Requirement("PERF-CACHE-01", "A repeated prompt hits the prefix cache", "prefix-cache", Capability.PREFIX_CACHE, _FROM_GATE),
    Requirement("PERF-CACHE-02", "A prompt behind a fresh nonce is cold", "prefix-cache", Capability.PREFIX_CACHE, _FROM_GATE),
    Requirement("PERF-CACHE-03", "Hits are predicted to the token", "prefix-cache", Capability.PREFIX_CACHE),
    Requirement("PERF-CACHE-04", "Answers stay right under a hit", "prefix-cache", Capability.PREFIX_CACHE),
    Requirement("PERF-CACHE-05", "Multi-turn growth reuses what was there", "prefix-cache", Capability.PREFIX_CACHE),
    Requirement("PERF-CACHE-06", "Lanes, eviction and salts keep conversations apart", "prefix-cache", Capability.PREFIX_CACHE),
    Requirement("PERF-SOAK-01", "The deployment holds for hours: success, drift, stalls", "soak"),
    # long context
    Requirement("LCTX-USAGE-01", "Every rung of the ladder is exact by `usage`", "long-context", None, _ALWAYS),
    Requirement("LCTX-NEEDLE-01", "Needles are found at every rung", "long-context", None, _levels(demo=S, smoke=R, gate=R, release=R, full=R, soak=R)),
    Requirement("LCTX-NEEDLE-02", "Chains, order, absent keys and echoes over the rung", "long-context"),
    Requirement("LCTX-EDGE-01", "One token over the window is refused cleanly", "long-context"),
    Requirement("LCTX-RATE-01", "Decode and prefill rate at each rung follow the curve of the smaller rungs", "long-context"),
)  # fmt: skip

REQUIREMENTS: Mapping[str, Requirement] = MappingProxyType({entry.id: entry for entry in _CATALOGUE})


def planned(profile: str) -> tuple[Requirement, ...]:
    """The requirements of a profile, in the registry's order.

    Raises:
        KeyError: no such profile.
    """
    if profile not in PROFILES:
        raise KeyError(profile)
    return tuple(entry for entry in _CATALOGUE if entry.level(profile) is not Level.ABSENT)


# The cheapest and most damning first; what speaks of the whole run last (DESIGN §5).
_RUN_ORDER = (
    "contract",
    "thinking",
    "ruler",
    "c1",
    "quality",
    "prefix-cache",
    "speculation",
    "long-context",
    "identity",
)
_LAST = ("PRE-CONTRACT-02",)


def in_run_order() -> tuple[Requirement, ...]:
    """Every requirement in the order in which a run takes them."""

    def place(entry: Requirement) -> tuple[bool, int]:
        family = _RUN_ORDER.index(entry.family) if entry.family in _RUN_ORDER else len(_RUN_ORDER)
        return entry.id in _LAST, family

    return tuple(sorted(_CATALOGUE, key=place))
