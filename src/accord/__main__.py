"""`python -m accord`: the same as `accord`."""

from accord.cli.main import main

if __name__ == "__main__":
    main()
