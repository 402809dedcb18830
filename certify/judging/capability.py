"""A capability whose effect was not seen: the verdict depends on what the owner declares, and on nothing else.

Declared absent: NOT_APPLICABLE. Declared present: FAIL. Not declared: INCONCLUSIVE, with the flag that provides it.
"""

from certify.plan import Plan
from certify.records import Capability, Outcome

FLAGS = {
    Capability.THINKING: (
        "start the engine with its reasoning parser (vLLM, SGLang: --reasoning-parser NAME; llama.cpp: --jinja "
        "--reasoning-format auto, and a template that reads enable_thinking)"
    ),
    Capability.JSON_SCHEMA: (
        "serve with guided decoding (vLLM: --structured-outputs-config; SGLang: --grammar-backend xgrammar; llama.cpp "
        "and TensorRT-LLM offer response_format json_schema by themselves)"
    ),
    Capability.TOOLS: (
        "start the engine with its tool parser (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; SGLang: "
        "--tool-call-parser NAME; llama.cpp: --jinja and a template that renders tools)"
    ),
    Capability.SPECULATION: (
        "start the engine with a drafter (vLLM: --speculative-config; SGLang: --speculative-algorithm; llama.cpp: "
        "--spec-type or --model-draft) and with its metrics page (SGLang: --enable-metrics; llama.cpp: --metrics)"
    ),
}


def unseen(plan: Plan, capability: Capability, what: str) -> tuple[Outcome, str, str]:
    """(outcome, summary, action) for a capability whose effect was not seen; `what` says what was seen instead."""
    match plan.declared.get(capability):
        case True:
            return Outcome.FAIL, f"{capability} is declared, but {what}", FLAGS[capability]
        case False:
            return Outcome.NOT_APPLICABLE, f"the owner declares `{capability} = false`, and {what}", ""
        case _:
            action = f"{FLAGS[capability]}; or declare `{capability} = false` under [capabilities] in deployment.toml"
            return Outcome.INCONCLUSIVE, f"{capability} is not declared, and {what}", action
