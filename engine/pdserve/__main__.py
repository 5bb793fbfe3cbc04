"""`python -m pdserve {prefill,decode,router} --config FILE` and `python -m pdserve reference --model DIR`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from errno import errorcode
from pathlib import Path

from pydantic import ValidationError

from pdserve.config import DecodeConfig, PrefillConfig, RouterConfig
from pdserve.logs import log, log_library_messages


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 could not do its work (the last log line says why), 2 usage."""
    options = _parser().parse_args(arguments)
    threading.excepthook = _end_process
    log_library_messages()
    try:
        return _reference(options) if options.role == "reference" else _serve(options.role, options.config)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        log("bad_config", key=".".join(map(str, first["loc"])), reason=str(first["msg"]))
        return 2
    except (OSError, ValueError) as error:
        name = errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
        log("start_failed", reason=f"{type(error).__name__}: {error}", errno=name)
        return 1


def _end_process(args: threading.ExceptHookArgs) -> None:
    """A process that has lost a thread looks alive and is not: its supervisor must see it go."""
    log("thread_died", thread=args.thread and args.thread.name, reason=repr(args.exc_value))
    os._exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pdserve", description="One process of the bundled engine.")
    roles = parser.add_subparsers(dest="role", required=True)
    for role in ("prefill", "decode", "router"):
        command = roles.add_parser(role, help=f"run a {role} process")
        command.add_argument("--config", type=Path, required=True, help="JSON file, see docs/engine.md")
    reference = roles.add_parser("reference", help="run prompts from stdin in this one process; prints JSON")
    reference.add_argument("--model", type=Path, required=True)
    reference.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    reference.add_argument("--threads", type=int, default=None)
    return parser


def _serve(role: str, config: Path) -> int:
    text = config.read_text(encoding="utf-8")
    if role == "prefill":
        prefill = PrefillConfig.model_validate_json(text)
        from pdserve.prefill_server import PrefillServer

        return PrefillServer(prefill).run()
    if role == "decode":
        decode = DecodeConfig.model_validate_json(text)
        from pdserve.decode_server import DecodeServer

        return DecodeServer(decode).run()
    router = RouterConfig.model_validate_json(text)
    from pdserve.router.server import RouterServer

    return RouterServer(router).run()


def _reference(options: argparse.Namespace) -> int:
    from pdserve.reference_runs import ReferenceRequest, answer

    request = ReferenceRequest.model_validate_json(sys.stdin.read())
    print(json.dumps(answer(request, options.model, options.dtype, options.threads)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
