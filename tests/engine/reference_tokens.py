"""The one-process run's tokens for the prompt set, kept beside the tests with the digest of the model that gave them.

`python -m tests.engine.reference_tokens MODEL_DIRECTORY` writes them anew; a test recomputes them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.engine.prompts import prompts

from pdserve.reference import Reference, ReferenceRun, first_difference, is_near_tie

FILE = Path(__file__).with_name("reference_tokens.json")
MAX_TOKENS = 16


@dataclass(frozen=True)
class ReferencePrompt:
    """One prompt, and what the model in one process says to it in float32."""

    name: str
    prompt: list[int]
    run: ReferenceRun


@dataclass(frozen=True)
class ReferenceTokens:
    model_digest: str
    prompts: list[ReferencePrompt]

    def named(self, name: str) -> ReferencePrompt:
        return next(prompt for prompt in self.prompts if prompt.name == name)


def load_reference() -> ReferenceTokens:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    return ReferenceTokens(
        document["model_digest"],
        [ReferencePrompt(item["name"], item["prompt"], ReferenceRun(**item["run"])) for item in document["prompts"]],
    )


def compute_reference(directory: Path) -> ReferenceTokens:
    from pdserve.text.tokenizer import Tokenizer

    reference = Reference(directory, threads=1)
    chosen = prompts(Tokenizer(directory).encode)
    return ReferenceTokens(
        reference.digest,
        [ReferencePrompt(one.name, one.token_ids, reference.run(one.token_ids, MAX_TOKENS)) for one in chosen],
    )


def differs(expected: ReferencePrompt, got: list[int]) -> str | None:
    """None when the tokens are the same, or part only where the reference itself was undecided (printed)."""
    at = first_difference(expected.run, got)
    if at is None:
        return None
    if is_near_tie(expected.run, at):
        print(f"near tie: `{expected.name}` at token {at}, margin {expected.run.margins[at]:.2e}")
        return None
    return f"`{expected.name}` at token {at}: {expected.run.token_ids[at : at + 3]} expected, {got[at : at + 3]} came"


if __name__ == "__main__":
    tokens = compute_reference(Path(sys.argv[1]))
    items = [asdict(prompt) for prompt in tokens.prompts]
    for item in items:
        item["run"]["margins"] = [round(margin, 6) for margin in item["run"]["margins"]]
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    FILE.write_text(f'{{"model_digest": "{tokens.model_digest}", "prompts": [\n{lines}\n]}}\n', encoding="utf-8")
