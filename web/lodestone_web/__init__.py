"""The search page: ES modules that browsers load as they are, with the few libraries that they use in `vendor/`.

There is no build step and no code in Python. `lodestone_serve.routes.search_page` serves the files.
"""
