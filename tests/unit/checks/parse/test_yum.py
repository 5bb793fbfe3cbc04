import pytest
from tests.unit.checks.parse.reading import read

from pdchecks.facts.host import CodecFailure, NonAsciiByte, RepoScan, YumWrapper
from pdchecks.unknown import Unknown


@pytest.mark.parametrize(
    ("command", "text", "place"),
    [
        ("cat -A /etc/yum.repos.d/x.repo", "[x]$\ngpgkey=http://h/keyM-bM-^@M-^Y$", (2, 20, 0xE2, False)),
        ("cat -v /etc/yum.repos.d/x.repo", "name=M-BM- x", (1, 6, 0xC2, False)),
        ("cat /etc/yum.repos.d/x.repo", "[x]\n  # Dépôt", (2, 6, 0xC3, True)),
        ("grep -n '[^ -~]' /etc/yum.repos.d/x.repo", "7:name=caf\udce9", (7, 9, 0xE9, False)),
        (
            "grep -nP '[^\\x00-\\x7F]' /etc/yum.repos.d/*.repo",
            "/etc/yum.repos.d/x.repo:3:a=\u00a0b",
            (3, 3, 0xC2, False),
        ),
        (
            "hexdump -C /etc/yum.repos.d/x.repo",
            "00000000  5b 78 5d 0a 6e 61 6d 65  3d c2 a0 78 0a           |[x].name=..x.|\n0000000d",
            (2, 6, 0xC2, False),
        ),
        (
            "xxd /etc/yum.repos.d/x.repo",
            "00000000: 5b78 5d0a 613d e280 99                   [x].a=...",
            (2, 3, 0xE2, False),
        ),
    ],
)
def test_a_byte_is_found_by_line_and_column_in_every_notation(
    command: str, text: str, place: tuple[int, int, int, bool]
) -> None:
    (found,) = read(NonAsciiByte, command, text)
    assert (found.line, found.column, found.byte, found.comment) == place
    assert found.path.startswith("/etc/yum.repos.d/")


@pytest.mark.parametrize(
    ("command", "text", "rc"),
    [
        ("grep -naH '[^[:print:][:space:]]' /etc/yum.conf", "", 1),
        ("grep -nP '[^\\x00-\\x7F]' /etc/yum.repos.d/*.repo", "", 1),
        ("cat -A /etc/yum.repos.d/x.repo", "[x]$\nname=x$", 0),
    ],
)
def test_a_search_that_found_nothing_clears_the_files(command: str, text: str, rc: int) -> None:
    assert len(read(RepoScan, command, text, rc)) == 1


@pytest.mark.parametrize(
    ("command", "text", "rc"),
    [
        ("ls /etc/yum.repos.d", "x.repo", 0),
        ("grep -r gpgcheck /etc/yum.repos.d", "", 1),
        (
            "grep -nP '[^\\x00-\\x7F]' /etc/yum.repos.d/*.repo",
            "grep: /etc/yum.repos.d/*.repo: No such file or directory",
            2,
        ),
        ("cat /etc/yum.repos.d/x.repo", "cat: /etc/yum.repos.d/x.repo: Permission denied", 1),
    ],
)
def test_what_did_not_look_for_bytes_clears_nothing(command: str, text: str, rc: int) -> None:
    assert not read(RepoScan, command, text, rc)


def test_a_traceback_gives_the_statement_that_stopped() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/bin/yum", line 29, in <module>\n    yummain.user_main(sys.argv[1:])\n'
        '  File "/usr/lib/python2.7/site-packages/yum/__init__.py", line 6115, in _retrievePublicKey\n'
        "    msg = _('Retrieving key from %s') % keyurl\n"
        "UnicodeDecodeError: 'ascii' codec can't decode byte 0xe2 in position 19: ordinal not in range(128)"
    )
    (failure,) = read(CodecFailure, "yum groupinstall", text, 1)
    assert (failure.program, failure.byte, failure.position, failure.writing) == ("yum", 0xE2, 19, False)
    assert failure.statement.endswith("% keyurl")


def test_a_message_that_cannot_be_written_is_told_apart() -> None:
    text = "UnicodeEncodeError: 'ascii' codec can't encode characters in position 0-3: ordinal not in range(128)"
    (failure,) = read(CodecFailure, "yum list", text, 1)
    assert failure.writing
    assert isinstance(failure.byte, Unknown)


def test_a_wrapper_names_its_locale_and_a_missing_one_is_none() -> None:
    (wrapper,) = read(YumWrapper, "cat /usr/local/sbin/safe_yum", '#!/bin/sh\nLC_ALL=C.UTF-8 exec /usr/bin/dnf "$@"')
    assert (wrapper.path, wrapper.locale) == ("/usr/local/sbin/safe_yum", "C.UTF-8")
    (missing,) = read(YumWrapper, "cat /usr/local/sbin/safe_yum", "cat: /usr/local/sbin/safe_yum: No such file", 1)
    assert missing.path == ""


@pytest.mark.parametrize(
    ("command", "text", "character"),
    [
        ("cat /etc/yum.repos.d/x.repo", "a=\u00a0b\u2019", "\u00a0"),
        ("grep -n '[^ -~]' /etc/yum.repos.d/x.repo", "7:name=caf\udce9", ""),
        ("cat -A /etc/yum.repos.d/x.repo", "a=M-BM- b$", ""),
    ],
)
def test_the_whole_character_is_kept_where_it_was_printed_as_such(command: str, text: str, character: str) -> None:
    (found,) = read(NonAsciiByte, command, text)
    assert found.character == character
