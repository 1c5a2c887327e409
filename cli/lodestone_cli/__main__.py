"""Entry point of `python -m lodestone_cli`, which does what `lodestone` does."""

from lodestone_cli.main import main

if __name__ == "__main__":
    main()
