"""`python -m lodestone_cli`: the same as `lodestone`."""

from lodestone_cli.main import main

if __name__ == "__main__":
    main()
