"""``python -m ragmeter``: the command line, if the command is not on the path."""

from ragmeter.cli.main import run

if __name__ == "__main__":
    run()
