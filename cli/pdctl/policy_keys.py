"""Keys of a policy layer that the shipped policy does not have. Pure."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

# Their keys are names that a site may add to.
_OPEN = (("sysctl",), ("firmware", "families"), ("services",))
Path = tuple[str, ...]


def unknown_keys(given: Any, known: Mapping[str, Any], at: Path = ()) -> Iterator[tuple[Path, str]]:
    """(path of the key, `did you mean ...` or empty). A section that is empty in the known policy is open too."""
    if not isinstance(given, Mapping):
        return
    for name, value in given.items():
        path = (*at, str(name))
        if name not in known:
            near = difflib.get_close_matches(str(name), [str(each) for each in known], n=1, cutoff=0.75)
            yield path, f"did you mean `{'.'.join((*at, near[0]))}`?" if near else ""
        elif isinstance(known[name], Mapping) and known[name] and path not in _OPEN:
            yield from unknown_keys(value, known[name], path)


def unread(given: Any, known: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key of `given` that no role and no check reads."""
    for path, near in unknown_keys(given, known):
        yield f"nothing reads `{'.'.join(path)}`; {near or 'the policy has no such key'}"
