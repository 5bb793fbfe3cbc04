"""Readiness: known tokens, asked through the real path (router → prefill → KV → decode), and bytes that did cross."""

import time

from pdctl.deploy.control import CallFailed, CanaryAnswer, Control
from pdctl.deploy.reference import Known, KnownRun
from pdctl.deploy.state import CanaryStatus
from pdserve.reference import NEAR_TIE, ReferenceRun, first_difference

# A first difference counts as equal only where the reference itself was this close to choosing otherwise, in log
# probability. The half types round with the shape of the batch: in bfloat16 a correct run was seen to flip at 0.25.
TIE = {"float32": NEAR_TIE, "float16": 5e-2, "bfloat16": 0.5}


def judge(run: KnownRun, answer: CanaryAnswer, dtype: str) -> str | None:
    """None when the answer is right and came over the wire, else what is wrong with it."""
    figures = answer.figures
    if figures.get("path") != "split" or not figures.get("kv_bytes"):
        return f"no KV crossed from prefill to decode (path `{figures.get('path')}`, {figures.get('kv_bytes')} bytes)"
    at = first_difference(ReferenceRun(run.tokens, run.margins), answer.token_ids)
    if at is None or (at < min(len(run.margins), len(answer.token_ids)) and run.margins[at] < TIE[dtype]):
        return None
    return (
        f"wrong tokens for a prompt of {len(run.prompt)}: token {at} differs; "
        f"one process gives {run.tokens}, the pair gives {answer.token_ids}"
    )


async def run(control: Control, router: str, known: Known, dtype: str, within_s: float) -> CanaryStatus:
    """Asks every known prompt once, within within_s seconds altogether. Never raises: the status says what failed."""
    began, tokens, kv_bytes, wrong = time.monotonic(), 0, 0, False
    reason: str | None = None
    for each in known.runs:
        left_s = within_s - (time.monotonic() - began)
        if left_s <= 0:
            reason = f"not done after {within_s:.0f} s"
        else:
            try:
                answer = await control.canary(router, each.prompt, len(each.tokens), left_s)
                reason = judge(each, answer, dtype)
                wrong = reason is not None
                tokens += len(each.prompt)
                kv_bytes += int(answer.figures.get("kv_bytes") or 0)
            except CallFailed as error:
                reason = f"prompt of {len(each.prompt)} tokens: {error}"
        if reason is not None:
            break
    return CanaryStatus(
        at=time.time(),
        passed=reason is None,
        wrong=wrong,
        reason=reason,
        tokens=tokens,
        kv_bytes=kv_bytes,
        seconds=round(time.monotonic() - began, 3),
    )
