"""When things came, by the stamps of the reads that carried them."""

from certify.records import Exchange
from certify.wire.answer import Answer


def stamps_ns(exchange: Exchange) -> tuple[int, ...]:
    """One stamp a read, in ns since the request was sent: the kernel's where there are any, else the client's."""
    reads = exchange.reads
    return reads.kernel_ns if len(reads.kernel_ns) == len(reads.sizes) else reads.user_ns


def first_output_ns(exchange: Exchange, answer: Answer) -> int | None:
    """When the read with the first output of the model came (time to first token); None where none came as a stream."""
    stamps = stamps_ns(exchange)
    return next((stamps[chunk.read] for chunk in answer.chunks if chunk.carries and chunk.read < len(stamps)), None)
