"""A chain of evidence out of its gzip bytes: never more than the certificate says, never more than the cap."""

import hashlib
import zlib
from pathlib import Path

from certify.report.statement import Chain

CHAIN_CAP = 2 << 30  # bytes of one chain, unpacked
_PIECE = 1 << 20
_GZIP = 31  # window bits: a gzip header and trailer, nothing else


class PackError(ValueError):
    """A chain that is not there (`missing`), or not what the certificate says."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def unpack(chain: Chain, packed: bytes | None, folder: Path, target: Path) -> None:
    """Writes the chain to `target`; `packed` is None where it is not embedded and lies beside the report.

    Raises:
        PackError: absent, not gzip, longer than stated, trailing bytes, or another digest.
    """
    if packed is None:
        packed = _beside(chain, folder)
    if hashlib.sha256(packed).hexdigest() != chain.gzip_sha256:
        raise PackError(f"{chain.name}: the packed evidence is not the one that was sealed")
    if not 0 <= chain.bytes <= CHAIN_CAP:
        raise PackError(f"{chain.name}: {chain.bytes} bytes of evidence are beyond the cap of {CHAIN_CAP}")
    checksum, size, unpacker = hashlib.sha256(), 0, zlib.decompressobj(_GZIP)
    try:
        with target.open("wb") as handle:
            rest = packed
            while not unpacker.eof:
                piece = unpacker.decompress(rest, _PIECE)
                rest = unpacker.unconsumed_tail
                size += len(piece)
                if size > chain.bytes or (not piece and not rest and not unpacker.eof):
                    raise PackError(f"{chain.name}: not as long as the certificate says")
                checksum.update(piece)
                handle.write(piece)
    except zlib.error as error:
        raise PackError(f"{chain.name}: not gzip: {error}") from error
    if unpacker.unused_data or size != chain.bytes or checksum.hexdigest() != chain.sha256:
        raise PackError(f"{chain.name}: the evidence is not the one that was sealed")


def _beside(chain: Chain, folder: Path) -> bytes:
    if Path(chain.file).name != chain.file or not chain.file.endswith(".jsonl.gz"):
        raise PackError(f"{chain.name}: {chain.file[:80]!r} is no file name of evidence")
    path = folder / chain.file
    try:
        if path.stat().st_size > CHAIN_CAP:
            raise PackError(f"{path} is longer than the cap of {CHAIN_CAP} bytes")
        return path.read_bytes()
    except OSError as error:
        raise PackError(
            f"{chain.name} is not in the page, and {chain.file} does not lie beside it: get it from the signer",
            missing=True,
        ) from error
