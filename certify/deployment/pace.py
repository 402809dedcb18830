"""The cost probe: one short exchange before the plan, so that the plan can say how long it will take."""

from certify.deployment.client import Deployment
from certify.plan import Pace
from certify.records import ChatRequest, Message, Probe, Thinking
from certify.wire.answer import read_answer

_WORDS = 200
_ANSWER_TOKENS = 32
_SHORTEST_S = 1e-3  # below it a burst was read, not a pace


def probe_pace(deployment: Deployment) -> tuple[Pace, Probe]:
    """The deployment's pace, the default where the exchange does not tell it, and the exchange as a probe."""
    text = f"Count upwards in words. {'and then some more ' * (_WORDS // 4)}"
    request = ChatRequest((Message("user", text),), _ANSWER_TOKENS, thinking=Thinking.OFF, ignore_eos=True)
    exchange = deployment.exchange(request)
    answer = read_answer(exchange)
    probe = Probe(
        name="cost",
        method="POST",
        path="/v1/chat/completions",
        status=exchange.status,
        content_type=exchange.content_type,
        body=exchange.body.decode(errors="replace"),
        elapsed_ns=exchange.ended_ns,
        failure=exchange.failure,
    )
    first = next((exchange.reads.user_ns[chunk.read] for chunk in answer.chunks if chunk.carries), None)
    if first is None or answer.usage is None or exchange.failure:
        return Pace(), probe
    prefill_s, decode_s = first / 1e9, (exchange.ended_ns - first) / 1e9
    return Pace(
        decode_tok_s=answer.usage.completion_tokens / max(decode_s, _SHORTEST_S),
        prefill_tok_s=answer.usage.prompt_tokens / max(prefill_s, _SHORTEST_S),
    ), probe
