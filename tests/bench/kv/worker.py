"""One process of one contender: `python -m tests.bench.kv.worker NAME ROLE WORKLOAD LIMIT SOURCE TARGET CONTROL`.

SOURCE, TARGET and CONTROL are file descriptors that it inherits. On CONTROL, lines of JSON: it answers each command.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import time
from typing import Any

from tests.bench.kv.contenders import CONTENDERS
from tests.bench.kv.workload import Job, from_json

from pdserve.transport.segment import Segment


def main() -> None:
    name, role, workload, limit, source, target, control = sys.argv[1:]
    take_half_of_the_cores(role)
    contender = next(each for each in CONTENDERS if each.name == name)
    job = Job(from_json(workload), Segment.attach(int(source)), Segment.attach(int(target)), int(limit))
    with socket.socket(fileno=int(control)) as sock, sock.makefile("rw", encoding="utf-8") as lines:

        def say(**answer: Any) -> None:
            lines.write(json.dumps(answer) + "\n")
            lines.flush()

        try:
            end: Any
            if role == "receiver":
                assert contender.receive is not None
                end = contender.receive(job)
                say(ready=end.address)
            else:
                end = contender.send(job, json.loads(lines.readline())["address"])
                say(ready="")
            for line in lines:
                command = json.loads(line)
                if "prepare" in command:
                    end.prepare(command["prepare"])
                    say(cpu=cpu())
                elif "round" in command:
                    before, begun = cpu(), time.perf_counter()
                    end.round(command["round"])
                    say(seconds=time.perf_counter() - begun, cpu=cpu() - before)
                elif "cpu" in command:
                    say(cpu=cpu())
        except Exception as error:  # the orchestrator's table says why
            say(failed=f"{type(error).__name__}: {error}")
    os._exit(0)


def take_half_of_the_cores(role: str) -> None:
    """Else, on a busy machine, the kernel may keep both ends on one core, where nothing overlaps."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    if half:
        os.sched_setaffinity(0, cores[:half] if role == "sender" else cores[half:])


def cpu() -> float:
    """Seconds of processor time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
