"""`python -m accord`: the same as `accord`."""

from accord.cli.main import run

if __name__ == "__main__":
    run()
