"""What a change of a role does to a node that serves. Each role declares it once, in `<role>_managed` of its vars."""

from collections.abc import Iterable, Mapping
from functools import cache

from pdchecks.finding import Impact
from pdctl.content import content_root


@cache
def impact_by_role() -> Mapping[str, Impact]:
    import yaml

    found: dict[str, Impact] = {}
    for path in sorted((content_root() / "roles").glob("*/vars/main.yml")):
        role = path.parts[-3]
        declared = yaml.safe_load(path.read_text(encoding="utf-8")).get(f"{role}_managed")
        if declared:
            found[role] = Impact(declared["impact"])
    return found


def gravest(impacts: Iterable[str | None]) -> Impact:
    """In the order of the enum; what no role declares counts as none."""
    order = list(Impact)
    return max((Impact(each) for each in impacts if each), key=order.index, default=Impact.NONE)
