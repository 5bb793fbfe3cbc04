"""`python -m tests.engine.over_fake [--corrupt N] ROLE --config FILE`: a prefill or decode process on the fake
transport; decode's alters one bit of the N-th KV frame that reaches it. The product has no such switch: the launcher
gives the transport."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdserve.config import DecodeConfig, PrefillConfig
from pdserve.decode_server import DecodeServer
from pdserve.logs import log_library_messages
from pdserve.prefill_server import PrefillServer
from pdserve.transport.fake import FakeTransport
from pdserve.transport.faults import Corrupt, Rule, Script
from pdwire import Kind


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corrupt", type=int, default=0)
    parser.add_argument("role", choices=("prefill", "decode"))
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args()
    log_library_messages()
    text = options.config.read_text(encoding="utf-8")
    if options.role == "prefill":
        return PrefillServer(PrefillConfig.model_validate_json(text), FakeTransport()).run()
    rules = [Rule(Corrupt(), kind=Kind.LAYER, skip=options.corrupt - 1, times=1)] if options.corrupt else []
    return DecodeServer(DecodeConfig.model_validate_json(text), FakeTransport(script=Script(rules))).run()


if __name__ == "__main__":
    sys.exit(main())
