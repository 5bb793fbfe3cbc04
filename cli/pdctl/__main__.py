"""The entry: Ctrl-C is quiet from the first import on."""

import sys


def main() -> None:
    try:
        from pdctl.app import main as run

        run()
    except KeyboardInterrupt:
        # Not ExitCode: its import may be the one that was interrupted.
        sys.exit(130)


if __name__ == "__main__":
    main()
