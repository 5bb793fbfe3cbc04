"""`pdctl demo`: bring up, ask, show what crossed, compare with one process, diagnose this host, take down."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from pdctl.deploy import bringup, reference, units
from pdctl.deploy.local import LocalSupervisor
from pdctl.deploy.spec import DeploymentSpec, RouterSpec
from pdctl.deploy.state import Record
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode
from pdctl.render.brief import brief
from pdctl.render.stages import StageLines
from pdserve.reference import ReferenceRun, first_difference

NAME = "demo"
_ANSWER_DEADLINE_S = 120.0
_DOCTOR_DEADLINE_S = 120.0


@dataclass
class Answer:
    """token_ids: as decode produced them. figures: what crossed for it (docs/engine.md)."""

    token_ids: list[int] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def run(question: str, model: str | None, max_tokens: int, *, keep: bool, lines: StageLines, out: TextIO) -> bool:
    """True when the pair's tokens equal those of one process. Raises PdError. Whatever happens, the end is `down`."""
    spec = DeploymentSpec(name=NAME, model=model, dtype="float32", router=RouterSpec(port=0))
    messages = [{"role": "user", "content": question}]
    try:
        with _step(lines, "up"):
            record = bringup.bring_up(spec, lines).record
        with _step(lines, "ask"):
            print(f"\n> {question}\n", file=out, flush=True)
            answer = _ask(record, messages, max_tokens, out)
        print("\n" + crossed(answer.figures), file=out, flush=True)
        with _step(lines, "compare"):
            equal, verdict = compare(_one_process(record, messages, max_tokens), answer.token_ids)
        print(verdict, file=out, flush=True)
        with _step(lines, "doctor"):
            _doctor(out)
    finally:
        if not keep:
            with _step(lines, "down"):
                lines.say(f"  stopped {', '.join(bringup.take_down(NAME)) or 'nothing: nothing ran'}")
    return equal


def crossed(figures: dict[str, Any]) -> str:
    """What went from prefill to decode, for people."""
    if figures.get("path") != "split":
        return f"crossed    nothing: the answer came by `{figures.get('path')}`"
    rate = figures["kv_gb_per_s"]
    gap_p50_ms, gap_max_ms = figures["itl_p50_seconds"] * 1e3, figures["itl_max_seconds"] * 1e3
    return "\n".join(
        [
            f"crossed    {figures['prompt_tokens']} tokens x {figures['layers']} layers, {figures['frames']} frames, "
            f"{figures['kv_bytes']:,} bytes of KV in {figures['kv_seconds'] * 1e3:.1f} ms"
            + (f" ({rate:.2f} GB/s)" if rate is not None else ""),
            f"           from {figures['prefill']} to {figures['decode']}",
            f"answered   {figures['completion_tokens']} tokens: TTFT {figures['ttft_seconds'] * 1e3:.0f} ms, "
            f"inter-token latency {gap_p50_ms:.1f} ms (median), {gap_max_ms:.1f} ms (longest)",
        ]
    )


def compare(one_process: ReferenceRun, pair: list[int]) -> tuple[bool, str]:
    """Whether the two answers are the same, and the sentence that says so or names the first divergence."""
    at = first_difference(one_process, pair)
    if at is None:
        return True, f"equal      all {len(pair)} token ids are those of the same model in one process (float32)"
    margin = f"{one_process.margins[at]:.2g}" if at < len(one_process.margins) else "none"
    return False, (
        f"DIFFERENT  first divergence at token {at}: one process {one_process.token_ids[at : at + 4]}, "
        f"prefill and decode {pair[at : at + 4]}; log-probability gap of its two best there: {margin}"
    )


def _ask(record: Record, messages: list[dict[str, str]], max_tokens: int, out: TextIO) -> Answer:
    import openai

    client: Any = openai.OpenAI(
        base_url=f"{record.endpoint}/v1",
        api_key="none needed",
        timeout=_ANSWER_DEADLINE_S,
        max_retries=0,
        # A proxy of the environment does not know this host's loopback address.
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )
    answer = Answer()
    try:
        stream = client.chat.completions.create(
            model=record.model_name,
            messages=messages,
            max_tokens=max_tokens,
            temperature=0,
            stream=True,
            extra_body={"return_token_ids": True, "pdctl": {"figures": True}},
        )
        for chunk in stream:
            answer.figures.update((chunk.model_extra or {}).get("pdctl") or {})
            for choice in chunk.choices:
                answer.token_ids += (choice.model_extra or {}).get("token_ids") or []
                print(choice.delta.content or "", end="", file=out, flush=True)
    except openai.APIError as error:
        raise PdError("the question was not answered", detail=str(error), hint="pdctl logs --name demo") from error
    print(file=out, flush=True)
    return answer


def _one_process(record: Record, messages: list[dict[str, str]], max_tokens: int) -> ReferenceRun:
    run = {"messages": messages, "max_tokens": max_tokens}
    local = LocalSupervisor(NAME)
    try:
        asked = reference.ask(record, [run], units.environment(record), local.state.log("reference"))
        return asyncio.run(asked)[1][0]
    except reference.ReferenceFailed as error:
        raise PdError(str(error), detail="\n".join(local.tail("reference", 8)), code=ExitCode.INCOMPLETE) from error


def _doctor(out: TextIO) -> None:
    """Its findings are about this host and do not decide the demo."""
    command = [sys.executable, "-m", "pdctl", "doctor", "--interval", "0", "-o", "json"]
    try:
        asked = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", timeout=_DOCTOR_DEADLINE_S)
    except subprocess.TimeoutExpired:
        lines = [f"not done after {_DOCTOR_DEADLINE_S:.0f} s"]
    else:
        # Without findings it has said why on stderr.
        lines = brief(json.loads(asked.stdout)) if asked.stdout else [f"ended with {asked.returncode}"]
    print("doctor     " + "\n           ".join(lines), file=out, flush=True)


@contextmanager
def _step(lines: StageLines, name: str) -> Iterator[None]:
    lines.say(f"{name}:")
    began = time.monotonic()
    try:
        yield
    finally:
        lines.say(f"{name}: {time.monotonic() - began:.1f} s")
