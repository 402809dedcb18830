"""Seals against OpenSSH itself, both ways; keys; whom a reader trusts."""

import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from certify.report.seal import (
    KeyFile,
    SealError,
    allowed_signers_line,
    check,
    generate_key,
    load_signer,
    read_signature,
)
from certify.report.statement import NAMESPACE
from certify.report.trust import Trust, TrustError, load_trust, parse_allowed_signers, parse_revoked

WHO = "tester@example.org"
PAYLOAD = b'{"a":1}'
NOW = datetime(2027, 1, 15, tzinfo=UTC)
needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen (OpenSSH) is not installed")


def ssh_keygen(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *arguments], input=stdin, capture_output=True, check=False, timeout=20)


def openssh_verifies(folder: Path, signers: str, seal: str, payload: bytes, who: str = WHO) -> bool:
    (folder / "signers").write_text(signers, encoding="utf-8")
    (folder / "seal").write_text(seal, encoding="utf-8")
    where = ("-f", str(folder / "signers"), "-s", str(folder / "seal"))
    return ssh_keygen("-Y", "verify", *where, "-I", who, "-n", NAMESPACE, stdin=payload).returncode == 0


@pytest.fixture(scope="module")
def openssh_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", WHO, "-f", str(path))
    return path


@needs_openssh
def test_openssh_verifies_our_seal(tmp_path: Path) -> None:
    key = KeyFile.generate(WHO)

    assert openssh_verifies(tmp_path, allowed_signers_line(key), key.sign(PAYLOAD), PAYLOAD)


@needs_openssh
def test_openssh_refuses_our_seal_over_other_bytes(tmp_path: Path) -> None:
    key = KeyFile.generate(WHO)

    assert not openssh_verifies(tmp_path, allowed_signers_line(key), key.sign(PAYLOAD), PAYLOAD + b" ")


@needs_openssh
def test_openssh_verifies_with_a_key_that_we_made(tmp_path: Path) -> None:
    line = generate_key(tmp_path / "key", WHO)
    seal = load_signer(tmp_path / "key").sign(PAYLOAD)

    assert openssh_verifies(tmp_path, line, seal, PAYLOAD)
    assert ssh_keygen("-y", "-f", str(tmp_path / "key")).stdout.split()[:2] == line.encode().split()[-2:]


@needs_openssh
@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
def test_we_verify_a_seal_of_openssh(tmp_path: Path, openssh_key: Path, hash_name: str) -> None:
    where = ("-f", str(openssh_key), "-n", NAMESPACE, "-O", f"hashalg={hash_name}")
    seal = ssh_keygen("-Y", "sign", *where, stdin=PAYLOAD).stdout.decode()
    signature = read_signature(seal)

    check(signature, PAYLOAD)
    assert signature.fingerprint == load_signer(openssh_key).fingerprint


@needs_openssh
def test_our_seal_with_a_key_of_openssh_is_the_same_bytes_as_theirs(openssh_key: Path) -> None:
    theirs = ssh_keygen("-Y", "sign", "-f", str(openssh_key), "-n", NAMESPACE, stdin=PAYLOAD).stdout.decode()

    assert load_signer(openssh_key).sign(PAYLOAD) == theirs


@needs_openssh
def test_the_identity_is_the_comment_of_the_public_key(openssh_key: Path) -> None:
    assert load_signer(openssh_key).identity == WHO


@needs_openssh
def test_an_encrypted_key_is_refused_in_one_line(tmp_path: Path) -> None:
    ssh_keygen("-q", "-t", "ed25519", "-N", "secret", "-f", str(tmp_path / "id"))

    with pytest.raises(SealError, match="passphrase"):
        load_signer(tmp_path / "id")


@needs_openssh
def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    ssh_keygen("-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "id"))

    with pytest.raises(SealError, match="no Ed25519 key"):
        load_signer(tmp_path / "id")


def test_another_namespace_is_refused() -> None:
    with pytest.raises(SealError, match="is for 'git'"):
        check(read_signature(KeyFile.generate(WHO).sign(PAYLOAD, "git")), PAYLOAD)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(SealError, match="does not fit"):
        check(read_signature(KeyFile.generate(WHO).sign(PAYLOAD)), PAYLOAD + b"\n")


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_what_is_no_seal_is_refused_and_nothing_else_is_raised(text: str) -> None:
    for armoured in (text, f"-----BEGIN SSH SIGNATURE-----\n{text}\n-----END SSH SIGNATURE-----"):
        with pytest.raises(SealError):
            read_signature(armoured)


@given(st.data())
def test_a_seal_with_a_changed_byte_is_refused(data: st.DataObject) -> None:
    lines = SEAL.splitlines()
    row = data.draw(st.integers(1, len(lines) - 2))
    column = data.draw(st.integers(0, len(lines[row]) - 1))
    new = data.draw(st.sampled_from("ABCDabcd0123+/").filter(lambda character: character != lines[row][column]))
    lines[row] = lines[row][:column] + new + lines[row][column + 1 :]

    with pytest.raises(SealError):
        check(read_signature("\n".join(lines)), PAYLOAD)


# Fixed, so that every worker collects the same tests.
FIXED, ANOTHER = (KeyFile(WHO, Ed25519PrivateKey.from_private_bytes(bytes([n] * 32))) for n in (1, 2))
SEAL = FIXED.sign(PAYLOAD)


def test_a_key_is_private_and_is_never_overwritten(tmp_path: Path) -> None:
    generate_key(tmp_path / "key", WHO)
    before = (tmp_path / "key").read_bytes()

    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    with pytest.raises(SealError, match="never overwritten"):
        generate_key(tmp_path / "key", WHO)
    assert (tmp_path / "key").read_bytes() == before


@pytest.mark.parametrize("name", ["", "two words", 'quo"te', "a,b"])
def test_an_identity_that_a_trust_file_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SealError, match="must be one word"):
        generate_key(tmp_path / "key", name)


def test_a_missing_key_and_a_text_file_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello", encoding="utf-8")

    with pytest.raises(SealError, match="cannot read the signing key"):
        load_signer(tmp_path / "absent")
    with pytest.raises(SealError, match="not an OpenSSH private key"):
        load_signer(tmp_path / "text")


KEY = FIXED


def judged(line: str, identity: str = "", now: datetime = NOW) -> tuple[bool, str]:
    return Trust(parse_allowed_signers(line), frozenset()).judge(KEY.blob, identity=identity, now=now)


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (f"{WHO} {KEY.public_line}", ""),
        (f"{WHO} {KEY.public_line} a comment", WHO),
        (f'*@example.org namespaces="git,{NAMESPACE}" {KEY.public_line}', WHO),
        (f'{WHO} valid-after="20270101",valid-before="20270201Z" {KEY.public_line}', ""),
        (f'# note\n\nother@x.org,{WHO} namespaces="certify-*" {KEY.public_line}', WHO),
    ],
)
def test_a_line_vouches_for_its_key(line: str, identity: str) -> None:
    assert judged(line, identity)[0]


@pytest.mark.parametrize(
    ("line", "identity", "word"),
    [
        (f"{WHO} {ANOTHER.public_line}", "", "nobody in the trust file"),
        (f'{WHO} namespaces="git" {KEY.public_line}', "", "not trusted for"),
        (f'{WHO} valid-before="20270101" {KEY.public_line}', "", "was valid until"),
        (f'{WHO} valid-after="20270201120000Z" {KEY.public_line}', "", "not valid before"),
        (f"{WHO} {KEY.public_line}", "mallory@example.org", "not to mallory"),
        (f"*,!mallory@example.org {KEY.public_line}", "mallory@example.org", "not to mallory"),
    ],
)
def test_a_line_does_not_vouch_beyond_what_it_says(line: str, identity: str, word: str) -> None:
    trusted, why = judged(line, identity)

    assert not trusted
    assert word in why


@needs_openssh
@pytest.mark.parametrize("options", ["", ' valid-before="20200101"', ' namespaces="git"', ' valid-after="20200101"'])
def test_openssh_reads_a_trust_line_as_we_do(tmp_path: Path, options: str) -> None:
    line = f"{WHO}{options} {KEY.public_line}\n"

    assert openssh_verifies(tmp_path, line, KEY.sign(PAYLOAD), PAYLOAD) is judged(line, WHO, datetime.now(UTC))[0]


def test_the_window_ends_at_its_end() -> None:
    line = f'{WHO} valid-before="20270115000000Z" {KEY.public_line}'

    assert judged(line, now=NOW)[0]
    assert not judged(line, now=NOW + timedelta(seconds=1))[0]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (f"{WHO} cert-authority {KEY.public_line}", "cert-authority is not supported"),
        (f"{WHO} shoe-size=43 {KEY.public_line}", "options"),
        (f'{WHO} valid-before="soon" {KEY.public_line}', "is not YYYYMMDD"),
        (f"{WHO} ssh-ed25519 ???", "not base64"),
        ("just words", "expected"),
    ],
)
def test_a_line_that_is_not_understood_is_never_skipped(line: str, word: str) -> None:
    with pytest.raises(TrustError, match=word):
        parse_allowed_signers(line)


@pytest.mark.parametrize("line", [KEY.public_line, f"{KEY.fingerprint}  # left", f"{KEY.public_line} tester"])
def test_a_revoked_key_is_not_trusted(line: str) -> None:
    trust = Trust(parse_allowed_signers(allowed_signers_line(KEY)), parse_revoked(line))

    assert trust.judge(KEY.blob, identity="", now=NOW) == (False, f"the key {KEY.fingerprint} is revoked")


def test_an_unreadable_trust_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(TrustError, match="cannot read"):
        load_trust(tmp_path / "absent")
    with pytest.raises(TrustError, match="cannot read"):
        load_trust(tmp_path / "binary")
