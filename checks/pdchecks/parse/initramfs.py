"""What a boot loads modules with: option files that are newer than the initramfs of this kernel, and the modules in it."""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import InitramfsModules, InitramfsOptions, NewerOption
from pdchecks.parse.modules import OPTIONS_LINE, canonical, compares_with_image
from pdchecks.parse.reader import Reader, runs
from pdchecks.unknown import Unknown

_IMAGE = re.compile(r"/boot/(?:initrd\.img-|initramfs-)[\w.+~-]{1,120}")
_PATH = re.compile(r"(?P<path>/\S{1,300}?\.conf):")
_MODULE = re.compile(r"(?P<name>[\w-]{1,60})\.ko(?:\.[a-z0-9]{1,5})?")
_LISTS = ("lsinitramfs", "lsinitrd")


def parse(block: Block) -> list[Fact] | Unknown:
    image = _IMAGE.search(block.command)
    if image is None:
        return Unknown("the command names no image of /boot")
    said = " ".join(block.output.split())[:200]
    if compares_with_image(block):
        # 1 is that of grep inside find: no file has an option.
        return (
            [_options(block, image[0])] if block.rc in (0, 1, None) else Unknown(f"the files were not compared: {said}")
        )
    names = {canonical(found["name"]) for line in block.lines if (found := _MODULE.fullmatch(line.strip()))}
    if not names:
        return Unknown(f"the modules of {image[0]} were not listed: {said or 'nothing was printed'}")
    listed = block.quote(f"{len(names)} module{'s' if len(names) != 1 else ''} in {image[0]}")
    return [InitramfsModules(quote=listed, image=image[0], names=frozenset(names))]


def _options(block: Block, image: str) -> InitramfsOptions:
    newer, lines = [], []
    for line in block.lines:
        path, match = _PATH.match(line), OPTIONS_LINE.fullmatch(line)
        if path and match:
            newer.append(NewerOption(path["path"], canonical(match["module"]), match["rest"].strip()))
            lines.append(line.strip())
    return InitramfsOptions(quote=block.quote("\n".join(lines[:8]) or "(none)"), image=image, newer=tuple(newer))


READER = Reader("initramfs", lambda block: compares_with_image(block) or runs(block, *_LISTS), parse)
