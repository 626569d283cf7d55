"""All keys of `config.yaml` with their types, defaults and meanings.

The package takes YAML. It gives a checked, frozen `Config`, the JSON schema and the reference page.
"""
