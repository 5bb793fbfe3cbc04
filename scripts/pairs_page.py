"""docs/pairs.md: what `pdctl pair` says of the pairs that are described in tests/data/pairs."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent

INTRODUCTION = """# Pairs

`pdctl pair` judges a prefill and a decode side by their configurations, before anything runs: from options, or from a FILE.
Each row below is what it says of one file in `tests/data/pairs`, a configuration as a user has it. From the root of a checkout:

```sh
pdctl pair tests/data/pairs/06-fp8-kv-h100-a100.yml     # any of them; exits 1: fatal
pdctl pair --model tests/data/configs/llama-3.1-8b.json --engine 'vllm 0.33.0' --prefill h100 --decode a100
pdctl help gpu-kinds                                    # what --prefill, --decode and `gpu:` take
```

Model configurations are public `config.json` files (`tests/data/configs`, each with its source).

A FILE names what both engines are told; every key may stand for both sides or in one of them (`pdctl help pair-file`):

```yaml
EXAMPLE```

KEYS
The whole may also stand below `pair:`, beside ABOUT, which nobody judges; so do the files in `tests/data/pairs`. A relative
path is relative to the file.

*moved by*: pdctl's own KV contract (also where no connector is named), NIXL, or another connector. *alone*: what the engines
would do without this verdict: **refused** by one of them, **fails** at a request, or **silent**: they accept each other and
the answers are wrong. A field that is not listed is equal.
An option that the bundled engine does not have is an error. One of vLLM's that no rule here reads is **unknown** where the
two sides differ in it, unless it is known not to matter to KV (ports, logging, how much is taken at a time); so is all that
stands in a file of `--config`, and a release newer than any that was read. Exit codes: 1 for fatal, 3 for unknown, else 0.
"""


def pairs() -> str:
    from pdchecks.pair.describe import ABOUT, EXAMPLE, KEYS, describe
    from pdchecks.pair.verdict import pair_verdict
    from pdctl.model_files import model_loader

    data = ROOT / "tests" / "data"
    load = model_loader(data / "pairs", lambda text: None)
    rows = []
    for path in sorted((data / "pairs").glob("*.yml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        verdict = pair_verdict(*describe(case, load))
        differing = [one for one in verdict.fields if one.outcome.value != "equal"]
        fields = "<br>".join(
            f"`{one.field}` {one.outcome}: {one.prefill or '-'} → {one.decode or '-'}" for one in differing
        )
        fixes = "<br>".join(dict.fromkeys(f"{one.side}: {one.fix}" for one in differing if one.fix))
        links = " ".join(f"[{_short(url)}]({url})" for url in case.get("report", []))
        cells = (f"{case['case']} {links}".strip(), verdict.moved_by, f"**{verdict.outcome}**", fields, fixes)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, verdict.engines.value)) + " |")
    keys = "\n".join(
        ["| key | meaning |", "| --- | --- |", *(f"| `{key}` | {text} |" for key, text in KEYS.items()), ""]
    )
    head = ["| pair | moved by | verdict | fields that are not equal: prefill → decode | what to do | alone |"]
    about = ", ".join(f"`{key}` ({text})" for key, text in ABOUT.items())
    introduction = INTRODUCTION.replace("KEYS", keys).replace("EXAMPLE", EXAMPLE).replace("ABOUT", about)
    return introduction + "\n".join(["", *head, "| --- " * 6 + "|", *rows, ""])


def _short(url: str) -> str:
    """`vllm#27083` for a GitHub issue or pull request."""
    parts = url.split("/")
    return f"{parts[-3].lower()}#{parts[-1]}"
