"""`python -m oncue` is the `oncue` command."""

from oncue.cli.main import main

if __name__ == "__main__":
    main()
