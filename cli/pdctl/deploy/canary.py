"""Readiness: known tokens, asked through the real path (router → prefill → KV → decode), and bytes that did cross."""

import time
from collections.abc import Sequence

from pdctl.deploy.control import CallFailed, CanaryAnswer, Control
from pdctl.deploy.reference import Known, KnownRun
from pdctl.deploy.state import CanaryStatus

# A first difference counts as equal only where the reference itself was this close to choosing otherwise, in log
# probability. float32: measured rounding differences are below 1e-5. The half types round with the shape of the
# batch; in bfloat16 a correct split run was seen to flip at a gap of 0.25.
TIE = {"float32": 1e-4, "float16": 5e-2, "bfloat16": 0.5}


def first_difference(expected: Sequence[int], got: Sequence[int]) -> int | None:
    """Index of the first token that differs or is missing; None when the two are equal."""
    for index, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return index
    return None if len(expected) == len(got) else min(len(expected), len(got))


def judge(run: KnownRun, answer: CanaryAnswer, dtype: str) -> str | None:
    """None when the answer is right and came over the wire, else what is wrong with it."""
    figures = answer.figures
    if figures.get("path") != "split" or not figures.get("kv_bytes"):
        return f"no KV crossed from prefill to decode (path `{figures.get('path')}`, {figures.get('kv_bytes')} bytes)"
    at = first_difference(run.tokens, answer.token_ids)
    if at is None or (at < len(run.margins) and at < len(answer.token_ids) and run.margins[at] < TIE[dtype]):
        return None
    return (
        f"wrong tokens for a prompt of {len(run.prompt)}: token {at} differs; "
        f"one process gives {run.tokens}, the pair gives {answer.token_ids}"
    )


async def run(control: Control, router: str, known: Known, dtype: str, within_s: float) -> CanaryStatus:
    """Asks every known prompt once, within within_s seconds altogether. Never raises: the status says what failed."""
    began, tokens, kv_bytes = time.monotonic(), 0, 0
    for each in known.runs:
        left_s = within_s - (time.monotonic() - began)
        if left_s <= 0:
            reason: str | None = f"not done after {within_s:.0f} s"
        else:
            try:
                answer = await control.canary(router, each.prompt, len(each.tokens), left_s)
                reason = judge(each, answer, dtype)
                tokens += len(each.prompt)
                kv_bytes += int(answer.figures.get("kv_bytes") or 0)
            except CallFailed as error:
                reason = f"prompt of {len(each.prompt)} tokens: {error}"
        if reason is not None:
            break
    return CanaryStatus(
        at=time.time(),
        passed=reason is None,
        reason=reason,
        tokens=tokens,
        kv_bytes=kv_bytes,
        seconds=round(time.monotonic() - began, 3),
    )
