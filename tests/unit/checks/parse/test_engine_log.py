import pytest
from tests.unit.checks.parse.reading import read

from pdchecks.facts.log import HandshakeAccepted, HandshakeRefused, ShapeRefused

LOG = "journalctl -o cat -u pdctl-decode-0"


def test_our_verdict_is_read_field_by_field() -> None:
    from pdwire.outcome import FieldVerdict, Outcome, Side, Verdict

    fields = (
        FieldVerdict("dtype", Outcome.FATAL, "float16", "bfloat16", "stored as sent", False, Side.EITHER, "--dtype x"),
        FieldVerdict("kv_heads", Outcome.FATAL, "8", "4", "another model", False, Side.BOTH, "serve the same model"),
        FieldVerdict("layers", Outcome.EQUAL, "32", "32"),
    )
    refused = read(HandshakeRefused, LOG, f"IncompatiblePeer: {Verdict('prefill-0', 'decode-1', fields)}")
    assert [(fact.field, fact.prefill, fact.decode) for fact in refused] == [
        ("dtype", "float16", "bfloat16"),
        ("kv_heads", "8", "4"),
    ]
    assert refused[0].words == "prefill-0 -> decode-1"
    (accepted,) = read(HandshakeAccepted, LOG, str(Verdict("prefill-0", "decode-1", fields[2:])))
    assert accepted.words.startswith("prefill-0 -> decode-1: compatible")


def test_vllm_s_hash_is_read_with_both_values() -> None:
    text = "RuntimeError: NIXL compatibility hash mismatch. Local: 3fc700da, Remote: 161228f0. Prefill and decode"
    (refused,) = read(HandshakeRefused, "journalctl -u vllm-decode", text)
    assert (refused.field, refused.decode, refused.prefill) == ("compatibility hash", "3fc700da", "161228f0")


def test_our_shape_fault_is_read_with_its_cause() -> None:
    from pdwire.kvshape import ShapeFault
    from pdwire.outcome import Side

    fault = ShapeFault("K", "[256, 8, 128]", "[8, 256, 128]", "axes are exchanged", Side.PREFILL, "exchange them", 3)
    (refused,) = read(ShapeRefused, LOG, f"refused: {fault}")
    assert (refused.layer, refused.expected, refused.got) == ("3", "[256, 8, 128]", "[8, 256, 128]")
    assert refused.cause == "axes are exchanged; change prefill: exchange them"


@pytest.mark.parametrize(
    ("line", "expected", "got"),
    [
        ("kv layer 3: expected shape [256, 8, 128], got [8, 256, 128]", "[256, 8, 128]", "[8, 256, 128]"),
        ("KV cache: expected torch.bfloat16 but got torch.float16", "torch.bfloat16", "torch.float16"),
        ("kv_connector: shape '[-1, 16, 56]' is invalid for input of size 36864", "[-1, 16, 56]", "36864"),
        (
            "paged KV: The size of tensor a (8) must match the size of tensor b (32) at non-singleton dimension 1",
            "8",
            "32",
        ),
    ],
)
def test_words_of_tensor_libraries_are_read(line: str, expected: str, got: str) -> None:
    (refused,) = read(ShapeRefused, "journalctl -u decode", line)
    assert (refused.expected, refused.got) == (expected, got)


def test_a_shape_error_that_is_not_about_kv_is_left_alone() -> None:
    text = "RuntimeError: shape '[3, 4]' is invalid for input of size 11"
    assert not read(ShapeRefused, "python train.py", text)
