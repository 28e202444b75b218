"""Runs the command as ``python -m auditor``."""

from auditor.cli.main import program

if __name__ == "__main__":
    program()
